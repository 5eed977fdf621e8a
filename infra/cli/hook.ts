/** Prints what to enter at the git host: one webhook for each hook and host. */
import { gitHosts } from "../../service/git-hosts/index.ts";
import { webhookUrls } from "../config/derived.ts";
import type { GitHost } from "../config/settings.ts";
import { command, hooksNamed, type Options, ofStack, targets } from "./command.ts";
import { readSecrets, readStack } from "./stack.ts";

export type Webhook = {
  readonly hook: string;
  readonly host: string;
  readonly url: string;
  readonly contentType: "application/json";
  readonly events: readonly ["push"];
  /** The current one; null where none is set. */
  readonly secret: string | null;
};

export const webhooks = (
  declared: Parameters<typeof webhookUrls>[0],
  secrets: Readonly<Record<string, { readonly current?: string }>>,
): Webhook[] =>
  webhookUrls(declared).map((one) => ({
    ...one,
    contentType: "application/json",
    events: ["push"],
    secret: secrets[one.hook]?.current ?? null,
  }));

/** For a person: the page of the git host with the form, and what to enter there. */
export function webhookText(
  { host, url, contentType, secret, hook }: Webhook,
  gitHost: GitHost,
  repository: string,
): string {
  const { webhookPage, secretField = () => "secret" } = gitHosts[gitHost];
  const noSecret = `not set; run npx pushgate secret rotate ${hook}`;
  const lines = {
    at: `${repository}: ${webhookPage}`,
    URL: url,
    "content type": contentType,
    [secretField(secret ?? "")]: secret ?? noSecret,
    events: "push only",
  };
  return [`${hook} on ${host}`, ...Object.entries(lines).map(([name, text]) => `  ${name.padEnd(14)}${text}`), ""].join(
    "\n",
  );
}

/** For a person: how the results of builds get onto commits; undefined where the git host does not take them. */
export function statusText(
  { name, gitHost, repository }: { readonly name: string; readonly gitHost: GitHost; readonly repository: string },
  hasToken: boolean,
): string | undefined {
  const { status } = gitHosts[gitHost];
  if (status === undefined) return undefined;
  if (hasToken) return `The result of each build of ${name} is set on its commit.\n`;
  return [
    `To have the result of each build of ${name} set on its commit, make a token for ${repository}`,
    `  at            ${status.tokenPage}`,
    `  with          ${status.permission}`,
    `  and run       npx pulumi config set --secret --path pushgate:secrets.${name}.status`,
    "",
  ].join("\n");
}

export const hook = command("hook [hook]", "print what to enter at the git host: URL, content type, secret, events", {
  takes: ["host", "json"],
  examples: [
    ["hook", "every hook on every host"],
    ["hook site --host web1 --json", "for a program"],
  ],
}).action(async (name: string | undefined, options: Options) => {
  const { hosts, hooks } = await readStack(ofStack(options));
  const declared = { hosts: targets(hosts, options), hooks: hooksNamed(hooks, name) };
  const secrets = await readSecrets(ofStack(options));
  const found = webhooks(declared, secrets);
  if (options.json) return console.log(JSON.stringify(found, null, 2));
  for (const one of found) {
    const { gitHost, repository } = hooks.find((hook) => hook.name === one.hook)!;
    console.log(webhookText(one, gitHost, repository));
  }
  for (const one of declared.hooks) {
    const text = one.site && statusText(one, secrets[one.name]?.status !== undefined);
    if (text) console.log(text);
  }
});
