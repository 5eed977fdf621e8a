/** What each recipient of `site.notify` is sent, as its documentation limits it, also with a hostile reason. */
import { describe, expect, test } from "vitest";
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
  expect(body.content).toContain("\\*\\*b\\*\\* \\`c\\`");
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
  expect(body.body).toContain("@\u200broom [x]");
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

describe("a mail", () => {
  const url = "mailto:team@example.org,ops@example.org";
  const reason = "no such file é\nBcc: all@evil.example\n\n.\r\nfree text";
  const messageOf = (more: Partial<Event> = {}) => formats.email(url, "", { ...event, reason, ...more }).body!;
  const decoded = (words: string) =>
    words.replace(/=\?utf-8\?B\?(.*?)\?=\s*/g, (_, word: string) => `${Buffer.from(word, "base64")}`);

  test("has in its headers nothing of a reason but base64, in words and lines as long as RFC 2047 and 2045 allow", () => {
    const message = messageOf();
    const [head = "", ...body] = message.split("\n\n");
    const [, subject = ""] = /^Subject: (.*(?:\n .*)*)$/m.exec(head)!;
    expect(head.replace(subject, "")).toBe(
      "To: team@example.org,\n ops@example.org\nSubject: \nDate: Sat, 28 Nov 2026 10:00:00 +0000\n" +
        "Message-ID: <0f871bf7e8c6aa690aa8b43232545fdc@pushgate.invalid>\nAuto-Submitted: auto-generated\n" +
        "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64",
    );
    expect(subject).toMatch(/^(=\?utf-8\?B\?[\w+/=]+\?=(\n |$))+$/);
    expect(decoded(subject)).toBe(`site: builds fail: ${reason}`);
    expect(body[0]!.split("\n")[0]).toHaveLength(76);
    const text = Buffer.from(body.join("\n\n"), "base64").toString();
    expect(text).toBe(["site: builds fail", "a".repeat(12), ...reason.split("\n"), event.site, ""].join("\r\n"));
    for (const lines of [message, messageOf({ reason: "😀".repeat(501) })])
      expect(Math.max(...lines.split("\n").map((line) => line.length))).toBeLessThanOrEqual(85);
  });

  test("of a reason that is a header as it is would have one more, and a body of the pusher's", () => {
    const names = (message: string) => message.split("\n\n")[0]!.match(/^[\w-]+(?=:)/gm);
    const raw = messageOf().replace(/^Subject: .*(\n .*)*$/m, (words) => decoded(words));
    expect(names(messageOf())).not.toContain("Bcc");
    expect(names(raw)).toContain("Bcc");
    expect(names(raw)).not.toContain("Message-ID");
  });
});

test("a secret that is the end of a URL is in no body, and leads to no other server", () => {
  for (const format of formatNames.filter((name) => name !== "email")) {
    const { url, body } = made(format);
    expect([new URL(url).host, JSON.stringify(body).includes("T0/x")]).toEqual(["chat.example.org", false]);
  }
});
