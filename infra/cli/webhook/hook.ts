/** Prints what to enter at the git host, or enters it: all of it each time, since a git host shows no secret. */
import { apis } from "../../../service/git-hosts/api/index.ts";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { printable } from "../../../service/printable.ts";
import { UserError } from "../../user-error.ts";
import { all, command, confirm, type Options } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint, wantedOf } from "../endpoints.ts";
import { showPings } from "./ping.ts";
import { assertOneOrigin, clientOf, drift, type Named, serverOf, textOf, whyNot } from "./webhooks.ts";

const contentType = "application/json";

const forProgram = ({ hook, host, url, secret }: Endpoint) => ({
  ...{ hook: hook.name, host, url, contentType, events: ["push"], secret },
});

function webhookText(endpoint: Endpoint): string {
  const { hook, url, secret } = endpoint;
  const { webhookPage, secretField = () => "secret", payload } = gitHosts[hook.gitHost];
  const others = [...(payload?.fixes?.keys() ?? [])].map((event) => `, of the project: a ${event} starts no build`);
  const lines = {
    at: `${hook.repository}: ${webhookPage}`,
    URL: url,
    "content type": contentType,
    [secretField(secret ?? "")]: secret ?? `not set; run npx pushgate secret rotate ${hook.name}`,
    events: ["push only", ...others].join(""),
  };
  const texts = Object.entries(lines).map(([name, text]) => `  ${name.padEnd(14)}${text}\n`);
  return `${nameOfEndpoint(endpoint)}\n${texts.join("")}`;
}

function statusTexts({ name, gitHost, repository }: Named, hasToken: boolean): string[] {
  const api = apis[gitHost];
  if (api?.status === undefined) return [];
  const { tokenPage = api.webhooks.tokenPage, permission } = api.status;
  if (hasToken) return [`The result of each build of ${name} is set on its commit.\n`];
  return [
    `To have the result of each build of ${name} set on its commit, make a token for ${repository}
  at            ${tokenPage}
  with          ${permission}
  and run       npx pulumi config set --secret --path pushgate:secrets.${name}.status
`,
  ];
}

function setTexts(hook: Named): string[] {
  const server = serverOf(hook);
  if (server === undefined) return [];
  const how = clientOf(hook) ? ` with the token of ${server.variable}` : `, given ${server.needs}`;
  return [`npx pushgate hook ${hook.name} --set enters it${how}.\n`];
}

async function stepOf(endpoint: Endpoint) {
  const { hook, url } = endpoint;
  const client = clientOf(hook);
  if (client === undefined) throw new UserError(whyNot(hook, "settings"));
  // Throws where the hook has no secret, before any webhook is changed.
  const wanted = wantedOf(endpoint);
  const [own, ...more] = await client.own(endpoint);
  const name = nameOfEndpoint(endpoint);
  if (own === undefined) return { endpoint, client, own, wanted, text: `${name}: creates the webhook to ${url}` };
  const what = drift(client, own, endpoint).map(textOf).join("; ") || "no setting differs";
  const page = gitHosts[hook.gitHost].webhookPage.replace(/ > (Add|Create)\b.*$/, "");
  const others = `\n  ${more.length} more of its webhooks lead there, and stay. Remove them at ${hook.repository}: ${page}.`;
  const text = `${name}: corrects webhook ${printable(own.id, 100)}: ${what}; the secret is sent anew${more.length > 0 ? others : ""}`;
  return { endpoint, client, own, wanted, text };
}

async function setWebhooks(endpoints: readonly Endpoint[], options: Options): Promise<void> {
  assertOneOrigin(endpoints.map(({ hook }) => hook));
  const steps = await all(endpoints.map(stepOf));
  for (const { text } of steps) console.error(text);
  await confirm(`This sets ${steps.length === 1 ? "one webhook" : `${steps.length} webhooks`}.`, options);
  for (const { endpoint, client, own, wanted } of steps) {
    await client.set(own, wanted);
    const [now] = await client.own(endpoint);
    const differ = now === undefined ? [] : drift(client, now, endpoint);
    const isLeft = differ.filter(({ name }) => !(client.api.pingActivates && name === "active"));
    const left = now === undefined ? ["the webhook is not there"] : isLeft.map(textOf);
    if (left.length > 0)
      throw new UserError(
        `${nameOfEndpoint(endpoint)}: the git host did not take it over as sent: ${left.join("; ")}. ${client.api.lacks.join(" ")}`.trim(),
      );
    console.log(`${nameOfEndpoint(endpoint)}: the webhook is set.`);
  }
}

export const hook = command({
  takes: ["host", "json", "yes"],
  examples: [
    ["hook", "every hook on every host"],
    ["hook site --set", "creates or corrects the webhook, then pings it and follows the ping"],
  ],
})
  .option("--set", "create or correct the webhook, with the git host's token")
  .action(async (name: string | undefined, { set, ...options }: Options & { set?: true }) => {
    const { hooks, secrets, endpoints } = await endpointsOf(name, options);
    if (set) {
      await setWebhooks(endpoints, options);
      return void (await showPings(endpoints, options));
    }
    if (options.json) return console.log(JSON.stringify(endpoints.map(forProgram), null, 2));
    for (const endpoint of endpoints) console.log(webhookText(endpoint));
    for (const one of hooks) {
      const ofStatus = one.site ? statusTexts(one, secrets[one.name]?.status !== undefined) : [];
      for (const text of [...setTexts(one), ...ofStatus]) console.log(text);
    }
  });
