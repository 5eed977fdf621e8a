/** Prints what to enter at the git host, one webhook for each hook and host, or enters it with the git host's token. */
import { Option } from "commander";
import { apis } from "../../../service/git-hosts/api/index.ts";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { command, type Options } from "../command.ts";
import { declaredEndpoints, type Endpoint, nameOfEndpoint } from "../endpoints.ts";
import { setWebhooks } from "./hook-set.ts";
import { showPings } from "./ping.ts";
import { type Named, serverOf, tokenIn } from "./webhooks.ts";

const contentType = "application/json";

function webhookText(endpoint: Endpoint): string {
  const { hook, url, secret } = endpoint;
  const { webhookPage, secretField = () => "secret" } = gitHosts[hook.gitHost];
  const lines = {
    at: `${hook.repository}: ${webhookPage}`,
    URL: url,
    "content type": contentType,
    [secretField(secret ?? "")]: secret ?? `not set; run npx pushgate secret rotate ${hook.name}`,
    events: "push only",
  };
  const texts = Object.entries(lines).map(([name, text]) => `  ${name.padEnd(14)}${text}\n`);
  return `${nameOfEndpoint(endpoint)}\n${texts.join("")}`;
}

/** For a person: how the results of builds get onto commits; none where the git host does not take them. */
function statusTexts({ name, gitHost, repository }: Named, hasToken: boolean): string[] {
  const status = apis[gitHost]?.status;
  if (status === undefined) return [];
  if (hasToken) return [`The result of each build of ${name} is set on its commit.\n`];
  return [
    `To have the result of each build of ${name} set on its commit, make a token for ${repository}
  at            ${status.tokenPage}
  with          ${status.permission}
  and run       npx pulumi config set --secret --path pushgate:secrets.${name}.status
`,
  ];
}

/** For a person: how the git host's token lets pushgate set the webhook; none where it has no API for that. */
function setTexts(hook: Named): string[] {
  const server = serverOf(hook);
  if (server === undefined) return [];
  const hasToken = tokenIn(server.variable) !== undefined;
  const how = hasToken ? ` with the token of ${server.variable}` : `, given ${server.needs}`;
  return [`npx pushgate hook ${hook.name} --set enters it${how}.\n`];
}

export const hook = command({
  takes: ["host", "json", "yes"],
  examples: [
    ["hook", "every hook on every host"],
    ["hook site --host web1 --json", "for a program"],
    ["hook site --set", "creates or corrects the webhook, then pings it and follows the ping"],
  ],
})
  .addOption(new Option("--set", "create or correct the webhook, with the git host's token").conflicts("json"))
  .action(async (name: string | undefined, { set, ...options }: Options & { set?: true }) => {
    const { hooks, secrets, endpoints } = await declaredEndpoints(name, options);
    if (set) {
      await setWebhooks(endpoints, options);
      await showPings(endpoints, options);
    } else if (options.json) {
      const common = { contentType, events: ["push"] };
      const found = endpoints.map(({ hook, ...one }) => ({ hook: hook.name, ...one, ...common }));
      console.log(JSON.stringify(found, null, 2));
    } else {
      for (const endpoint of endpoints) console.log(webhookText(endpoint));
      for (const one of hooks) {
        const ofStatus = one.site ? statusTexts(one, secrets[one.name]?.status !== undefined) : [];
        for (const text of [...setTexts(one), ...ofStatus]) console.log(text);
      }
    }
  });
