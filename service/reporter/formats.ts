/**
 * What the recipients of `site.notify` take. A reason holds names of files and commits that a pusher chose: no format
 * lets it mention people, name a link or change the look of the message.
 */
import { createHash } from "node:crypto";
import type { Report } from "../builder/outbox.ts";
import type { Outgoing } from "../exchange.ts";
import { standardSignature } from "../git-hosts/standard-signature.ts";
import { base64Lines, encodedWords } from "./mail.ts";

export const formatNames = ["slack", "discord", "matrix", "ntfy", "mattermost", "email", "standard"] as const;
export type Format = (typeof formatNames)[number];

/** `site`: the address of a site that pushgate serves. */
export type Event = Pick<Report, "state" | "commit" | "reason" | "at"> & {
  readonly hook: string;
  readonly site: string | null;
};

/** Of each state the word for a program, the text for a person, and ntfy's priority. */
const states = {
  failure: ["failing", "builds fail", 4],
  success: ["succeeding", "builds succeed again", 3],
  published: ["published", "published", 2],
  test: ["test", "a test of site.notify", 3],
  pending: ["pending", "a build runs", 2], // the builder reports it to git hosts alone
} as const satisfies Record<Event["state"], unknown>;

const titleOf = ({ hook, state }: Event): string => `${hook}: ${states[state][1]}`;

/** Some 600 characters at most, of which Discord's 2,000 hold each as two. */
const textOf = (event: Event): string =>
  [titleOf(event), ...(event.commit === null ? [] : [event.commit.slice(0, 12)]), event.reason].join("\n");

/** A character without width ends what a client would take for a mention. */
const unmentioned = (text: string): string => text.replace(/[@<]/g, "$&\u200b");
const unmarked = (text: string): string => text.replace(/[\\`*_{}[\]()#+\-.!|~<>:]/g, "\\$&");

const idOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 32);
const json = (url: string, body: object, more: Partial<Outgoing> = {}): Outgoing => ({
  ...{ url, headers: {}, body: JSON.stringify(body), ...more },
});
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** `secret`: the end of a webhook's URL, a token, or a key. */
export const formats: Readonly<Record<Format, (url: string, secret: string, event: Event) => Outgoing>> = {
  // https://docs.slack.dev/messaging/formatting-message-text: these three are all that Slack reads.
  slack: (url, secret, event) => {
    const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
    const text = textOf(event).replace(/[&<>]/g, (one) => entities[one]!);
    return json(url + secret, { text, mrkdwn: false });
  },
  // https://discord.com/developers/docs/resources/webhook#execute-webhook; flag 4 shows no previews of links.
  discord: (url, secret, event) =>
    json(url + secret, { content: unmarked(textOf(event)), allowed_mentions: { parse: [] }, flags: 4 }),
  // https://developers.mattermost.com/integrate/webhooks/incoming: it reads Slack's <!channel>, too.
  mattermost: (url, secret, event) => json(url + secret, { text: unmarked(unmentioned(textOf(event))) }),
  // https://spec.matrix.org/v1.11/client-server-api: a repeated transaction is one message.
  matrix: (url, secret, event) =>
    json(
      url + idOf(JSON.stringify(event)),
      { msgtype: "m.notice", body: unmentioned(textOf(event)), "m.mentions": {} },
      { method: "PUT", headers: bearer(secret) },
    ),
  // https://docs.ntfy.sh/publish/#publish-as-json
  ntfy: (url, secret, event) => {
    const [, server = "", topic] = /^(.*\/)([^/]*)$/.exec(url)!;
    const [, ...lines] = textOf(event).split("\n");
    const click = event.site === null ? {} : { click: event.site };
    const priority = states[event.state][2];
    return json(
      server,
      { topic, title: titleOf(event), message: lines.join("\n"), priority, ...click },
      { headers: bearer(secret) },
    );
  },
  // RFC 5322. What a pusher chose is in base64, so that it is no header. A repeated message has the same id.
  email: (url, _, event) => {
    const headers = [
      `To: ${url.replace("mailto:", "").replaceAll(",", ",\n ")}`,
      `Subject: ${encodedWords(`${titleOf(event)}: ${event.reason}`)}`,
      `Date: ${new Date(event.at).toUTCString().replace("GMT", "+0000")}`,
      `Message-ID: <${idOf(JSON.stringify(event))}@pushgate.invalid>`,
      "Auto-Submitted: auto-generated",
      "MIME-Version: 1.0",
      "Content-Type: text/plain; charset=utf-8",
      "Content-Transfer-Encoding: base64",
    ];
    const text = [textOf(event), ...(event.site === null ? [] : [event.site]), ""].join("\n");
    return { url, headers: {}, body: [...headers, "", base64Lines(text), ""].join("\n") };
  },
  // The recipient finds a replay by the time, and a report that came twice by its id.
  standard: (url, secret, { hook, site, state, commit, reason, at }) => {
    const body = JSON.stringify({ hook, site, state: states[state][0], commit, reason, time: at });
    return { url, headers: standardSignature.sign(secret, `msg_${idOf(body)}`, body), body };
  },
};
