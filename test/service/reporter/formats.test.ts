/** What each recipient of `site.notify` is sent, as its documentation limits it, also with a hostile reason. */
import { expect, test } from "vitest";
import { type Event, type Format, formatNames, formats } from "../../../service/reporter/formats.ts";

const hostile = "@everyone <!channel> <@U1> @room [x](https://evil.example) **b** `c` & <b>h</b> ||s||";
const event: Event = {
  ...{ hook: "site", site: "https://www.example.org/", state: "failure", commit: "a".repeat(40), reason: hostile },
  at: "2026-11-28T10:00:00.000Z",
};
const key = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const made = (format: Format, more: Partial<Event> = {}, url = "https://chat.example.org/hooks/") => {
  const { body = "", ...sent } = formats[format](url, format === "standard" ? key : "T0/x", { ...event, ...more });
  return { ...sent, body: JSON.parse(body) };
};

test("Slack gets text with its three characters escaped, by the whole URL", () => {
  const { url, headers, body } = made("slack");
  expect([url, headers, Object.keys(body)]).toEqual(["https://chat.example.org/hooks/T0/x", {}, ["text", "mrkdwn"]]);
  expect(body.text).toMatch(/^site: builds fail\na{12}\n@everyone &lt;!channel&gt; /);
  expect(body.text).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)/);
  expect(body.mrkdwn).toBe(false);
});

test("Discord may parse no mention, and finds no Markdown", () => {
  const { body } = made("discord");
  expect(body).toMatchObject({ allowed_mentions: { parse: [] }, flags: 4 });
  expect(body.content.replace(/\\./g, "")).not.toMatch(/[*_`~|[\]()<>#]/);
  expect(made("discord", { reason: "*".repeat(501) }).body.content.length).toBeLessThanOrEqual(2_000);
});

test("Mattermost finds neither a mention of its own nor one of Slack's", () => {
  const { body } = made("mattermost");
  expect(Object.keys(body)).toEqual(["text"]);
  expect(body.text).not.toMatch(/@\w|<[!@]|<\\!/);
  expect(body.text.replace(/\\./g, "")).not.toMatch(/[*_`~|[\]()<>#]/);
});

test("Matrix gets a notice without HTML, and a repeated one is the same transaction", () => {
  const { url, method, headers, body } = made("matrix");
  expect([method, headers, Object.keys(body)]).toEqual([
    ...["PUT", { authorization: "Bearer T0/x" }, ["msgtype", "body", "m.mentions"]],
  ]);
  expect(body).toMatchObject({ msgtype: "m.notice", "m.mentions": {} });
  expect(body.body).not.toContain("@room");
  expect(url).toMatch(/^https:\/\/chat\.example\.org\/hooks\/[0-9a-f]{32}$/);
  expect([made("matrix").url === url, made("matrix", { at: "later" }).url === url]).toEqual([true, false]);
});

test("ntfy gets a topic, a title and a message at the server's address", () => {
  const { url, headers, body } = made("ntfy", { commit: null }, "https://ntfy.example.org/builds");
  expect([url, headers]).toEqual(["https://ntfy.example.org/", { authorization: "Bearer T0/x" }]);
  const plain = { topic: "builds", title: "site: builds fail", message: hostile, priority: 4 };
  expect(body).toEqual({ ...plain, click: event.site });
  expect(made("ntfy", { state: "success", site: null }).body).toMatchObject({
    title: "site: builds succeed again",
    priority: 3,
  });
  expect(made("ntfy", { state: "published" }).body).toMatchObject({ title: "site: published", priority: 2 });
  expect(Buffer.byteLength(made("ntfy", { reason: "€".repeat(501) }).body.message)).toBeLessThanOrEqual(4_096);
});

test("a secret that is the end of a URL is in no body, and leads to no other server", () => {
  for (const format of formatNames) {
    const { url, body } = made(format);
    expect([new URL(url).host, JSON.stringify(body).includes("T0/x")]).toEqual(["chat.example.org", false]);
  }
});
