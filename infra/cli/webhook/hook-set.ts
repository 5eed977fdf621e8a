/**
 * `npx pushgate hook --set` sends the whole configuration with the stack's secret each time, since a git host shows no
 * secret, and reads the webhook again to see what the git host made of it.
 */
import type { Webhook } from "../../../service/git-hosts/api/api.ts";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { printable } from "../../../service/printable.ts";
import { all, confirm, type Options } from "../command.ts";
import { type Endpoint, nameOfEndpoint, wantedOf } from "../endpoints.ts";
import { UserError } from "../stack.ts";
import { assertOneOrigin, clientOf, differences, type WebhookClient, whyNot } from "./webhooks.ts";

/** What differs between a webhook and what pushgate would set, in lines of "events: push, issues -> push". */
export function drift(client: WebhookClient, found: Webhook, endpoint: Endpoint): string[] {
  const url = found.url === endpoint.url ? [] : [`URL: ${printable(found.url)} -> ${endpoint.url}`];
  return [...url, ...differences(found.settings, client.api.wanted(wantedOf(endpoint)))];
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
  const what = drift(client, own, endpoint).join("; ") || "no setting differs";
  const page = gitHosts[hook.gitHost].webhookPage.replace(/ > (Add|Create)\b.*$/, "");
  const others = `\n  ${more.length} more of its webhooks lead there, and stay. Remove them at ${hook.repository}: ${page}.`;
  const text = `${name}: corrects webhook ${own.id}: ${what}; the secret is sent anew${more.length > 0 ? others : ""}`;
  return { endpoint, client, own, wanted, text };
}

/** Prints what will change, prompts, and changes it. Throws a UserError for what the git host did not take over. */
export async function setWebhooks(endpoints: readonly Endpoint[], options: Options): Promise<void> {
  assertOneOrigin(endpoints.map(({ hook }) => hook));
  const steps = await all(endpoints.map(stepOf));
  for (const { text } of steps) console.error(text);
  await confirm(`This sets ${steps.length === 1 ? "one webhook" : `${steps.length} webhooks`}.`, options);
  for (const { endpoint, client, own, wanted } of steps) {
    await client.set(own, wanted);
    const [now] = await client.own(endpoint);
    const isLeft = (line: string): boolean => !(client.api.pingActivates && line.startsWith("active: "));
    const left = now === undefined ? ["the webhook is not there"] : drift(client, now, endpoint).filter(isLeft);
    if (left.length > 0)
      throw new UserError(
        `${nameOfEndpoint(endpoint)}: the git host did not take it over as sent: ${left.join("; ")}. ${client.api.lacks.join(" ")}`.trim(),
      );
    console.log(`${nameOfEndpoint(endpoint)}: the webhook is set.`);
  }
}
