/** One row for each reason to reject a delivery. Each row asserts the answer, the journal and an empty spool. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Delivery, delivery, pushPayload, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { chunk, head, limits, type Running, receiver } from "./harness.ts";

let running: Running;
beforeAll(async () => {
  // More than the table has rows: limits.test.ts tests the budget.
  running = await receiver({ limit: { rejectionsPerMinute: 10_000 } });
});
afterAll(() => running.stop());

const good = secrets.site.current;
const body = Buffer.from(JSON.stringify(pushPayload()));
const altered = Buffer.from(body);
altered[10] = altered[10]! ^ 1;
const spaces = Buffer.alloc(limits.bodyBytes + 1, " ");

/** A valid push of exactly this many bytes. */
function padded(bytes: number): Buffer {
  const text = JSON.stringify({ ref: "refs/heads/main", pad: "" });
  return Buffer.from(text.replace('"pad":""', `"pad":"${"x".repeat(bytes - text.length)}"`));
}

type Row = readonly [name: string, status: number, sent: Delivery];
const signed = (text: string | Buffer) => delivery({ body: Buffer.from(text) });
const bySignature = (signature: string | null): Delivery => delivery({ body, signature });
const hex = sign(body, good);

const rows: readonly Row[] = [
  // Method and path: the receiver compares the path byte by byte.
  ["another path", 404, delivery({ path: "/" })],
  ["an unknown hook", 404, delivery({ path: "/webhook/other" })],
  ["a hook with the name of a prototype's property", 404, delivery({ path: "/webhook/constructor" })],
  ["__proto__", 404, delivery({ path: "/webhook/__proto__" })],
  ["a trailing slash", 404, delivery({ path: "/webhook/site/" })],
  ["a query", 404, delivery({ path: "/webhook/site?x=1" })],
  ["an empty query", 404, delivery({ path: "/webhook/site?" })],
  ["capitals", 404, delivery({ path: "/webhook/Site" })],
  ["capitals before the name", 404, delivery({ path: "/WEBHOOK/site" })],
  ["an escaped letter", 404, delivery({ path: "/webhook/%73ite" })],
  ["an escaped slash", 404, delivery({ path: "/webhook%2fsite" })],
  ["an escaped NUL", 404, delivery({ path: "/webhook/site%00" })],
  ["a doubled escape", 404, delivery({ path: "/webhook/%252e%252e/site" })],
  ["dots", 404, delivery({ path: "/webhook/../webhook/site" })],
  ["doubled slashes", 404, delivery({ path: "//webhook//site" })],
  ["a broken escape", 404, delivery({ path: "/webhook/%" })],
  ["an absolute address", 404, delivery({ path: "http://hooks.example.org/webhook/site" })],
  ["an absolute address without a path", 404, delivery({ path: "http://hooks.example.org?x" })],
  ["an address that is only a query, which Express cannot parse", 404, delivery({ path: "http://?x" })],
  ["a broken address", 404, delivery({ path: "http://[::1" })],
  ["an asterisk", 404, delivery({ path: "*" })],
  ["a fragment", 404, delivery({ path: "/webhook/site#x" })],
  ...["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"].map(
    (method): Row => [`${method}, correctly signed`, 405, delivery({ method })],
  ),

  // Content type.
  ["a form, correctly signed", 415, delivery({ headers: { "content-type": "application/x-www-form-urlencoded" } })],
  ["plain text, correctly signed", 415, delivery({ headers: { "content-type": "text/plain" } })],
  ["a type that starts with application/json", 415, delivery({ headers: { "content-type": "application/jsonp" } })],
  ["a type that ends with application/json", 415, delivery({ headers: { "content-type": "x-application/json" } })],
  ["an empty content type", 415, delivery({ headers: { "content-type": "" } })],
  ["a gzipped body, correctly signed", 415, delivery({ headers: { "content-encoding": "gzip" } })],

  // Size.
  ["one byte over the limit, correctly signed", 413, signed(padded(limits.bodyBytes + 1))],
  ["spaces over the limit", 413, signed(spaces)],

  // Signature.
  ["no signature", 401, bySignature(null)],
  ["an empty signature header", 401, bySignature("")],
  ["the prefix alone", 401, bySignature("sha256=")],
  ["the hex alone", 401, bySignature(hex.slice("sha256=".length))],
  ["capital hex", 401, bySignature(`sha256=${hex.slice("sha256=".length).toUpperCase()}`)],
  ["a capital prefix", 401, bySignature(hex.replace("sha256", "SHA256"))],
  ["63 digits", 401, bySignature(hex.slice(0, -1))],
  ["65 digits", 401, bySignature(`${hex}0`)],
  ["no hex digit", 401, bySignature(`sha256=${"g".repeat(64)}`)],
  ["all zeros", 401, bySignature(`sha256=${"0".repeat(64)}`)],
  ["two signatures in one header", 401, bySignature(`${hex}, ${hex}`)],
  ["SHA-1 under the new name", 401, bySignature(`sha1=${"0".repeat(40)}`)],
  [
    "the old SHA-1 header alone",
    401,
    delivery({ signature: null, headers: { "x-hub-signature": `sha1=${"0".repeat(40)}` } }),
  ],
  ["Gitea's own header alone", 401, delivery({ signature: null, headers: { "x-gitea-signature": hex.slice(7) } })],
  ["GitLab's plain token", 401, delivery({ signature: null, headers: { "x-gitlab-token": good } })],
  ["signed with an empty secret", 401, bySignature(sign(body, ""))],
  ["signed with another secret", 401, delivery({ body, secret: "another-secret-0123456789-abcdefghij" })],
  ["signed with another hook's secret", 401, delivery({ body, secret: secrets.docs.current })],
  [
    "signed with both secrets as the file has them",
    401,
    delivery({ body, secret: `${good}\n${secrets.site.previous}` }),
  ],
  ["one bit of the body altered", 401, delivery({ body: altered, signature: hex })],
  ["a good signature over no body", 401, delivery({ body: Buffer.alloc(0), signature: hex })],
  ["a ping without a signature", 401, delivery({ event: "ping", signature: null })],
  ["an ignored event, wrongly signed", 401, delivery({ event: "issues", secret: "x".repeat(40) })],

  // A JSON object.
  ["an empty body, correctly signed", 400, signed("")],
  ["no JSON, correctly signed", 400, signed("ref=refs/heads/main")],
  ["a list, correctly signed", 400, signed('[{"ref":"refs/heads/main"}]')],
  ["a list in a ping, correctly signed", 400, delivery({ event: "ping", body: Buffer.from("[]") })],
  ["null, correctly signed", 400, signed("null")],
  ["text, correctly signed", 400, signed('"refs/heads/main"')],
  ["a deep list, correctly signed", 400, signed("[".repeat(60_000))],
  ["a byte order mark, correctly signed", 400, signed('\ufeff{"ref":"refs/heads/main"}')],
  ["a push without a ref, correctly signed", 400, signed("{}")],
  ["a push whose ref is an object, correctly signed", 400, signed('{"ref":{"toString":"refs/heads/main"}}')],
];

/** Node's names of the statuses: the whole text of a rejection. */
const names: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  404: "Not Found",
  405: "Method Not Allowed",
  413: "Payload Too Large",
  415: "Unsupported Media Type",
};

describe("the receiver rejects and does not spool", () => {
  test.each(rows)("%s: %i", async (_, status, sent) => {
    const lines = running.journal.length;
    const answer = await running.send(sent);
    expect(answer.status).toBe(status);
    expect(answer.headers["x-served-by"]).toBe("pushgate-receiver");
    expect(answer.body).toBe(sent.method === "HEAD" ? "" : `${JSON.stringify({ status: names[status] })}\n`);
    expect(answer.headers.allow).toBe(status === 405 ? "POST" : undefined);
    expect(running.spooled()).toEqual([]);
    expect(running.journal.length).toBe(lines + 1);
    expect(running.journal.at(-1)).toMatchObject({ status, source: "127.0.0.1" });
  });

  test("two signature headers that are both right: 401", async () => {
    const sent = delivery({ body });
    const answer = await running.raw(head(sent, `x-hub-signature-256: ${hex}`), body);
    expect([answer.status, running.spooled()]).toEqual([401, []]);
  });

  test("a wrong signature beside the right one: 401", async () => {
    const sent = delivery({ body, signature: null });
    const zeros = `x-hub-signature-256: sha256=${"0".repeat(64)}`;
    for (const both of [
      [zeros, `x-hub-signature-256: ${hex}`],
      [`x-hub-signature-256: ${hex}`, zeros],
      ["x-hub-signature-256:", `x-hub-signature-256: ${hex}`],
    ]) {
      const answer = await running.raw(head(sent, ...both), body);
      expect([answer.status, running.spooled()]).toEqual([401, []]);
    }
  });

  test("a chunked push without a signature: 401", async () => {
    const answer = await running.raw(chunkedHead({ body, signature: null }), chunk(body), "0\r\n\r\n");
    expect([answer.status, running.spooled()]).toEqual([401, []]);
  });
});

describe("of two faults the receiver reports the one that is cheaper to find:", () => {
  const huge = { "content-length": String(limits.bodyBytes + 1) };
  const form = { "content-type": "text/plain" };
  test.each<Row>([
    ["path before method", 404, delivery({ path: "/x", method: "GET" })],
    ["method before content type", 405, delivery({ method: "GET", headers: form })],
    ["content type before length", 415, delivery({ headers: { ...form, ...huge } })],
    ["length before signature header", 413, delivery({ headers: huge, signature: null })],
    ["signature header before the body", 401, delivery({ body: Buffer.from("no JSON"), signature: null })],
    ["signature before JSON", 401, delivery({ body: Buffer.from("no JSON"), secret: "x".repeat(40) })],
    ["signature before the event", 401, delivery({ event: "ping", secret: "x".repeat(40) })],
    ["JSON before the event", 400, delivery({ event: "ping", body: Buffer.from("no JSON") })],
  ])("%s: %i", async (_, status, sent) => {
    expect((await running.send(sent)).status).toBe(status);
    expect(running.spooled()).toEqual([]);
  });
});

test("no rejection is a 403, so that each 403 comes from another layer", () => {
  expect(running.journal.map(({ status }) => status)).not.toContain(403);
  expect(rows.length).toBeGreaterThan(60);
});

test("no journal line of the table holds a secret, a signature or a body", () => {
  const text = JSON.stringify(running.journal);
  for (const hidden of [good, secrets.site.previous, secrets.docs.current, hex, hex.slice(7), "Codertocat"])
    expect(text).not.toContain(hidden);
  // Proves that the body holds the name that the journal does not.
  expect(body.toString()).toContain("Codertocat");
});

/** Headers of a chunked body, without a declared length. */
function chunkedHead(change: Parameters<typeof delivery>[0]): string {
  const { headers, ...rest } = delivery(change);
  const { "content-length": _, ...others } = headers;
  return head({ ...rest, headers: others }, "transfer-encoding: chunked");
}
