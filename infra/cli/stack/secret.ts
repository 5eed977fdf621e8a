/**
 * The secret that a git host signs deliveries with. A rotation has two steps, so that no delivery is rejected: both
 * secrets are accepted until the git host has the new one, and then the previous one is dropped.
 */
import { randomBytes } from "node:crypto";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { writtenKey } from "../../../service/git-hosts/standard-signature.ts";
import type { GitHostName } from "../../config/settings.ts";
import { command, hooksNamed, named, type Options, ofStack } from "../command.ts";
import { must, readSecrets, readStack, UserError } from "../stack.ts";

/** 256 bits: a key of Standard Webhooks where the git host signs with one, else 44 characters. */
export const newSecret = (gitHost: GitHostName): string =>
  gitHosts[gitHost].keys === undefined ? randomBytes(32).toString("base64") : writtenKey(randomBytes(32));

const keyOf = (hook: string, which: "current" | "previous"): string => `pushgate:secrets.${hook}.${which}`;

const set = (hook: string, which: "current" | "previous", value: string, options: Options): Promise<string> =>
  must(["config", "set", "--secret", "--path", keyOf(hook, which), ...ofStack(options)], value);

/** The hook's secrets; throws a UserError for a hook that the stack does not declare. */
async function secretsOf(name: string, options: Options) {
  const secrets = await readSecrets(ofStack(options));
  const { hooks } = await readStack(ofStack(options));
  const { gitHost } = hooksNamed(hooks, name)[0]!;
  return { gitHost, ...secrets[name] };
}

const show = command({
  takes: ["json"],
  examples: [["secret show site", "the current secret, and the previous one while a rotation lasts"]],
}).action(async (name: string, options: Options) => {
  const { current, previous } = await secretsOf(name, options);
  if (options.json) return console.log(JSON.stringify({ hook: name, current, previous }, null, 2));
  console.log(`current   ${current ?? `not set; run npx pushgate secret rotate ${name}`}`);
  if (previous !== undefined) console.log(`previous  ${previous}`);
});

const rotate = command({
  examples: [["secret rotate site", "prints the steps that follow"]],
}).action(async (name: string, options: Options) => {
  const { gitHost, current, previous } = await secretsOf(name, options);
  if (previous !== undefined)
    throw new UserError(
      `${name} has a previous secret, so a rotation has begun. Finish it first: npx pushgate secret drop ${name}`,
    );
  if (current !== undefined) await set(name, "previous", current, options);
  await set(name, "current", newSecret(gitHost), options);
  const steps = [
    "npx pulumi up",
    `npx pushgate hook ${name}  and enter the secret at the git host, for each host`,
    ...(current === undefined
      ? []
      : [
          `npx pushgate secret drop ${name}  once npx pushgate logs receiver shows no new "signed with the previous secret"`,
          "npx pulumi up",
        ]),
  ];
  console.log(`${name} has a new secret. Next:\n${steps.map((step, i) => `  ${i + 1}. ${step}`).join("\n")}`);
});

const drop = command({
  examples: [["secret drop site", "ends a rotation"]],
}).action(async (name: string, options: Options) => {
  const { previous } = await secretsOf(name, options);
  if (previous === undefined) throw new UserError(`${name} has no previous secret, so there is nothing to drop.`);
  await must(["config", "rm", "--path", keyOf(name, "previous"), ...ofStack(options)]);
  console.log(`${name} has one secret. Next: npx pulumi up`);
});

export const secret = command({
  examples: [["secret rotate site"], ["secret drop site"], ["secret show site"]],
})
  .addCommand(named("show <hook>", "print the secrets of a hook", show))
  .addCommand(named("rotate <hook>", "make a new secret; the current one stays accepted as the previous one", rotate))
  .addCommand(named("drop <hook>", "remove the previous secret, once the git host uses the current one", drop));
