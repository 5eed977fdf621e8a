/** Prints what to enter at the git host, one webhook for each hook and host, or enters it with the git host's token. */
import { apis } from "../../../service/git-hosts/api/index.ts";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import type { GitHostName } from "../../config/settings.ts";
import { command, type Options } from "../command.ts";
import { declaredEndpoints, type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { setWebhooks } from "./hook-set.ts";
import { showPings } from "./ping.ts";
import { apiOf, type Named, tokenIn } from "./webhooks.ts";

const contentType = "application/json";

const forProgram = ({ hook, host, url, secret }: Endpoint) => ({
  hook: hook.name,
  host,
  url,
  contentType,
  events: ["push"],
  secret,
});

/** For a person: the page of the git host with the form, and what to enter there. */
function webhookText(endpoint: Endpoint): string {
  const { hook, url, secret } = endpoint;
  const { name, gitHost, repository } = hook;
  const { webhookPage, secretField = () => "secret" } = gitHosts[gitHost];
  const noSecret = `not set; run npx pushgate secret rotate ${name}`;
  const lines = {
    at: `${repository}: ${webhookPage}`,
    URL: url,
    "content type": contentType,
    [secretField(secret ?? "")]: secret ?? noSecret,
    events: "push only",
  };
  return [
    nameOfEndpoint(endpoint),
    ...Object.entries(lines).map(([name, text]) => `  ${name.padEnd(14)}${text}`),
    "",
  ].join("\n");
}

/** For a person: how the results of builds get onto commits; undefined where the git host does not take them. */
function statusText(
  { name, gitHost, repository }: { readonly name: string; readonly gitHost: GitHostName; readonly repository: string },
  hasToken: boolean,
): string | undefined {
  const status = apis[gitHost]?.status;
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

/** For a person: how the git host's token lets pushgate set the webhook; undefined where it has no API for that. */
function setText(hook: Named): string | undefined {
  const found = apiOf(hook);
  if (found === undefined) return undefined;
  const { variable, needs } = found;
  const set = `npx pushgate hook ${hook.name} --set`;
  if (tokenIn(variable) !== undefined) return `${set} enters it with the token of ${variable}.\n`;
  return `${set} enters it, given ${needs}.\n`;
}

type HookOptions = Options & { set?: true };

export const hook = command({
  takes: ["host", "json", "yes"],
  examples: [
    ["hook", "every hook on every host"],
    ["hook site --host web1 --json", "for a program"],
    ["hook site --set", "creates or corrects the webhook, then pings it and follows the ping"],
  ],
})
  .option("--set", "create or correct the webhook, with the token in the variable that the command names without --set")
  .action(async (name: string | undefined, { set, ...options }: HookOptions) => {
    if (set) return setAndPing(name, options);
    const { hooks, secrets, endpoints } = await declaredEndpoints(name, options);
    if (options.json) return console.log(JSON.stringify(endpoints.map(forProgram), null, 2));
    for (const endpoint of endpoints) console.log(webhookText(endpoint));
    for (const one of hooks) {
      const texts = [setText(one), one.site && statusText(one, secrets[one.name]?.status !== undefined)];
      for (const text of texts) if (text) console.log(text);
    }
  });

async function setAndPing(name: string | undefined, options: Options): Promise<void> {
  const endpoints = await endpointsOf(name, options);
  await setWebhooks(endpoints, options);
  await showPings(endpoints, options);
}
