/**
 * `pulumi preview` as an audit: Cloudflare and every host are compared with what the program declares. Where a git host's
 * token is in the environment, its webhooks are, too; their secrets cannot be, since a git host shows none.
 */
import { command, type Options, ofStack } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { pulumi, readStack, UserError } from "../stack.ts";
import { drift } from "../webhook/hook-set.ts";
import { assertOneOrigin, clientOf } from "../webhook/webhooks.ts";

/** `--run-program`: the engine reads Cloudflare with the token of the configuration, not with that of the last `up`. */
const auditArguments = ["preview", "--run-program", "--expect-no-changes", "--diff"];

/** As the command's help has them. */
const [drifted, failed] = [7, 1];

export const audit = command({
  examples: [["audit", "exits 0 if all is as declared, 7 on drift, 1 if it could not look; changes nothing"]],
}).action(async (options: Options) => {
  const { code } = await pulumi([...auditArguments, ...ofStack(options)], { shown: true, prompts: true });
  const webhooks = await auditWebhooks(options);
  process.exitCode = code === 0 ? webhooks : (code ?? failed);
});

/** Returns the exit status. Without a token it looks at none. */
async function auditWebhooks(options: Options): Promise<number> {
  const { hosts, hooks } = await readStack(ofStack(options));
  const hasToken = hooks.some((hook) => clientOf(hook) !== undefined);
  if (!hasToken || !hosts.some(({ state }) => state === "present")) return 0;
  const endpoints = (await endpointsOf(undefined, options)).filter(({ hook }) => clientOf(hook) !== undefined);
  assertOneOrigin(endpoints.map(({ hook }) => hook));
  const found = await Promise.all(endpoints.map(lookAt));
  console.log("Webhooks:");
  for (const { text } of found) console.log(`  ${text}`);
  return found.some(({ exit }) => exit === failed) ? failed : Math.max(...found.map(({ exit }) => exit));
}

async function lookAt(endpoint: Endpoint): Promise<{ readonly text: string; readonly exit: number }> {
  const name = nameOfEndpoint(endpoint);
  const fix = `npx pushgate hook ${endpoint.hook.name} --set`;
  try {
    const client = clientOf(endpoint.hook)!;
    const [own, ...more] = await client.own(endpoint);
    if (own === undefined) return { text: `${name}: missing. Run ${fix}.`, exit: drifted };
    const lines = [...drift(client, own, endpoint), ...(more.length > 0 ? [`${more.length} more lead there`] : [])];
    if (lines.length > 0) return { text: `${name}: ${lines.join("; ")}. Run ${fix}.`, exit: drifted };
    return { text: `${name}: as declared`, exit: 0 };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { text: `${name}: ${error.message}`, exit: failed };
  }
}
