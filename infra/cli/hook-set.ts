/**
 * `npx pushgate hook --set`: creates each webhook or corrects it. It sends the whole configuration with the stack's secret
 * each time, since a git host shows no secret, and reads the webhook again to see what the git host made of it.
 */
import { gitHosts } from "../../service/git-hosts/index.ts";
import type { Webhook } from "../../service/git-hosts/webhook-api.ts";
import { printable } from "../apply/report.ts";
import { all, confirm, type Options } from "./command.ts";
import { nameOfPlace, type Place, wantedOf } from "./places.ts";
import { UserError } from "./stack.ts";
import { assertOneOrigin, differences, neededClient, type WebhookClient } from "./webhooks.ts";

/** What differs between a webhook and what pushgate would set, in lines of "events: push, issues -> push". */
export function drift(client: WebhookClient, found: Webhook, place: Place): string[] {
  const url = found.url === place.url ? [] : [`URL: ${printable(found.url)} -> ${place.url}`];
  return [...url, ...differences(found.settings, client.api.wanted(wantedOf(place)))];
}

type Step = { readonly place: Place; readonly client: WebhookClient; readonly own?: Webhook; readonly text: string };

async function stepOf(place: Place): Promise<Step> {
  const client = neededClient(place.hook, "set the webhook");
  const [own, ...more] = await client.own(place);
  const name = nameOfPlace(place);
  const page = `${place.hook.repository}: ${gitHosts[place.hook.gitHost].webhookPage.replace(/ > (Add|Create)\b.*$/, "")}`;
  const others =
    more.length > 0 ? `\n  ${more.length} more of its webhooks lead there, and stay. Remove them at ${page}.` : "";
  // Throws where the hook has no secret, before any webhook is changed.
  wantedOf(place);
  if (own === undefined) return { place, client, text: `${name}: creates the webhook to ${place.url}` };
  const changed = drift(client, own, place);
  const what = changed.length === 0 ? "no setting differs" : changed.join("; ");
  return { place, client, own, text: `${name}: corrects webhook ${own.id}: ${what}; the secret is sent anew${others}` };
}

/** Prints what will change, prompts, and changes it. Throws a UserError for what the git host did not take over. */
export async function setWebhooks(places: readonly Place[], options: Options): Promise<void> {
  assertOneOrigin(places.map(({ hook }) => hook));
  const steps = await all(places.map(stepOf));
  for (const { text } of steps) console.error(text);
  const many = steps.length === 1 ? "one webhook" : `${steps.length} webhooks`;
  await confirm(`This sets ${many}.`, options);
  for (const { place, client, own } of steps) {
    if (own === undefined) await client.create(wantedOf(place));
    else await client.correct(own, wantedOf(place));
    const [now] = await client.own(place);
    const isLeft = (line: string): boolean => !(client.api.pingActivates && line.startsWith("active: "));
    const left = now === undefined ? ["the webhook is not there"] : drift(client, now, place).filter(isLeft);
    if (left.length > 0)
      throw new UserError(
        `${nameOfPlace(place)}: the git host did not take it over as sent: ${left.join("; ")}. ${client.api.lacks.join(" ")}`.trim(),
      );
    // Standard output is for JSON.
    (options.json ? console.error : console.log)(`${nameOfPlace(place)}: the webhook is set.`);
  }
}
