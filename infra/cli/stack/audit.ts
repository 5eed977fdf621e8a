/** `pulumi preview` as an audit. Where a git host's token is in the environment, it compares the webhooks, too. */
import { command, type Options, ofStack } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { orUserError, pulumi, readStack, UserError } from "../stack.ts";
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
  assertOneOrigin(hooks);
  console.log("Webhooks:");
  const statuses = await Promise.all(endpoints.map(auditWebhook));
  return statuses.includes(failed) ? failed : Math.max(...statuses);
}

async function auditWebhook(endpoint: Endpoint): Promise<number> {
  const found = await orUserError(driftOf(endpoint));
  const fix = `Run npx pushgate hook ${endpoint.hook.name} --set.`;
  const [text, status] =
    found instanceof UserError
      ? [found.message, failed]
      : found.length > 0
        ? [`${found.join("; ")}. ${fix}`, drifted]
        : ["as declared", 0];
  console.log(`  ${nameOfEndpoint(endpoint)}: ${text}`);
  return status!;
}

async function driftOf(endpoint: Endpoint): Promise<string[]> {
  const client = clientOf(endpoint.hook)!;
  const [own, ...more] = await client.own(endpoint);
  if (own === undefined) return ["missing"];
  return [...drift(client, own, endpoint), ...(more.length > 0 ? [`${more.length} more lead there`] : [])];
}
