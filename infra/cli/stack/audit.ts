/** `pulumi preview` as an audit. Where a git host's token is in the environment, it compares the webhooks, too. */
import { differences, ownersOf, readPublished } from "../../config/published.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command, type Options, ofStack } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { type Declared, pulumi, readStack } from "../stack.ts";
import { assertOneOrigin, clientOf, drift } from "../webhook/webhooks.ts";

/** Exit statuses, as the program's help has them. */
const [drifted, failed] = [7, 1];

export const audit = command({
  examples: [["audit", "exits 0 if all is as declared, 7 on drift, 1 if it could not look; changes nothing"]],
}).action(async (options: Options) => {
  // --run-program: the engine reads Cloudflare with the token of the configuration, not with that of the last `up`.
  const args = ["preview", "--run-program", "--expect-no-changes", "--diff", ...ofStack(options)];
  const { code } = await pulumi(args, { shown: true, prompts: true });
  const { hosts, hooks } = await readStack(ofStack(options));
  const isServed = hosts.some(({ state }) => state === "present");
  const others = [await auditRanges(hooks), isServed ? await auditWebhooks(hooks, options) : 0];
  process.exitCode = code === 0 ? (others.includes(failed) ? failed : Math.max(...others)) : (code ?? failed);
});

/** preview has warned of each difference; an audit fails where a delivery would be rejected. */
async function auditRanges(hooks: Declared["hooks"]): Promise<number> {
  const found = await Promise.all(
    (["cloudflare", ...ownersOf(hooks)] as const).map(async (owner) => {
      const published = await orUserError(readPublished(owner, 20));
      return published instanceof UserError ? undefined : differences(owner, published).missing;
    }),
  );
  const missing = found.filter((text) => text !== undefined);
  if (missing.length > 0) console.log(["Published ranges:", ...missing].join("\n  "));
  return missing.length > 0 ? drifted : 0;
}

async function auditWebhooks(hooks: Declared["hooks"], options: Options): Promise<number> {
  if (!hooks.some((hook) => clientOf(hook) !== undefined)) return 0;
  assertOneOrigin(hooks);
  const { endpoints } = await endpointsOf(undefined, options);
  console.log("Webhooks:");
  const statuses = await Promise.all(endpoints.filter(({ hook }) => clientOf(hook)).map(auditWebhook));
  return statuses.includes(failed) ? failed : Math.max(...statuses);
}

async function auditWebhook(endpoint: Endpoint): Promise<number> {
  const found = await orUserError(driftOf(endpoint));
  const say = (text: string, status: number): number => {
    console.log(`  ${nameOfEndpoint(endpoint)}: ${text}`);
    return status;
  };
  if (found instanceof UserError) return say(found.message, failed);
  if (found.length === 0) return say("as declared", 0);
  return say(`${found.join("; ")}. Run npx pushgate hook ${endpoint.hook.name} --set.`, drifted);
}

async function driftOf(endpoint: Endpoint): Promise<string[]> {
  const client = clientOf(endpoint.hook)!;
  const [own, ...more] = await client.own(endpoint);
  if (own === undefined) return ["missing"];
  return [...drift(client, own, endpoint), ...(more.length > 0 ? [`${more.length} more lead there`] : [])];
}
