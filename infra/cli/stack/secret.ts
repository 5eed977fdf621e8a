/** A rotation has two steps, so that no delivery is rejected: until the previous secret is dropped, both are accepted. */
import { randomBytes } from "node:crypto";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { writtenKey } from "../../../service/git-hosts/standard-signature.ts";
import type { GitHostName } from "../../config/settings.ts";
import { UserError } from "../../user-error.ts";
import { command, hooksNamed, named, type Options, ofStack } from "../command.ts";
import { must, readSecrets, readStack } from "../stack.ts";

/** 256 bits: a key of Standard Webhooks where the git host signs with one, else 44 characters. */
export const newSecret = (gitHost: GitHostName): string =>
  gitHosts[gitHost].keys === undefined ? randomBytes(32).toString("base64") : writtenKey(randomBytes(32));

async function secretsOf(name: string, options: Options) {
  const stack = ofStack(options);
  const secrets = await readSecrets(stack);
  const { hooks } = await readStack(stack);
  const { gitHost } = hooksNamed(hooks, name)[0]!;
  const at = (which: "current" | "previous"): string[] => ["--path", `pushgate:secrets.${name}.${which}`, ...stack];
  return { gitHost, at, ...secrets[name] };
}

const rotate = command({ examples: [["secret rotate site"]] }).action(async (name: string, options: Options) => {
  const { gitHost, at, current, previous } = await secretsOf(name, options);
  if (previous !== undefined)
    throw new UserError(`${name} still has a previous secret. Finish it first: npx pushgate secret drop ${name}`);
  if (current !== undefined) await must(["config", "set", "--secret", ...at("previous")], current);
  await must(["config", "set", "--secret", ...at("current")], newSecret(gitHost));
  const first = ["npx pulumi up", `npx pushgate hook ${name}  and enter the secret at the git host, for each host`];
  const last = [
    `npx pushgate secret drop ${name}  once npx pushgate logs receiver shows no new "signed with the previous secret"`,
    "npx pulumi up",
  ];
  const steps = current === undefined ? first : [...first, ...last];
  console.log(`${name} has a new secret. Next:\n${steps.map((step, i) => `  ${i + 1}. ${step}`).join("\n")}`);
});

const drop = command({ examples: [["secret drop site"]] }).action(async (name: string, options: Options) => {
  const { at, previous } = await secretsOf(name, options);
  if (previous === undefined) throw new UserError(`${name} has no previous secret, so there is nothing to drop.`);
  await must(["config", "rm", ...at("previous")]);
  console.log(`${name} has one secret. Next: npx pulumi up`);
});

export const secret = command({ examples: [["secret rotate site"], ["secret drop site"]] })
  .addCommand(named("rotate <hook>", "make a new secret; the current one stays accepted as the previous one", rotate))
  .addCommand(named("drop <hook>", "remove the previous secret, once the git host uses the current one", drop));
