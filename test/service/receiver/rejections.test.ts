/** One row for each reason to reject a delivery: the answer, the journal's line and an empty spool. */
import { createHmac } from "node:crypto";
import { STATUS_CODES } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Delivery, delivery, pushPayload, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { head, limits, type Running, receiver } from "./harness.ts";

let running: Running;
beforeAll(async () => {
  // More than the table has rows: limiter.test.ts has the budget.
  running = await receiver({ limit: { rejectionsPerMinute: 10_000 } });
});
afterAll(() => running.stop());

const good = secrets.site.current;
const body = Buffer.from(JSON.stringify(pushPayload()));
const hex = sign(body, good);
const sha1 = { "x-hub-signature": `sha1=${createHmac("sha1", good).update(body).digest("hex")}` };
const altered = Buffer.from(body);
altered[10] = altered[10]! ^ 1;
const another = "another-secret-0123456789-abcdefghij";
const noJson = Buffer.from("no JSON");

const unsigned = (headers = {}) => delivery({ body, signature: null, headers });
const typed = (type: string) => delivery({ headers: { "content-type": type } });
const { "content-type": _, ...untyped } = delivery().headers;
const missing = "X-Hub-Signature-256 is missing. Set the hook's secret at the git host.";
const empty = missing.replace("missing", "empty");
const instead = (came: string) =>
  `X-Hub-Signature-256 is missing, and ${came} came in its place. Update the git host, or correct hooks[].gitHost.`;
const noSecret = {
  ...{ "x-gitea-signature": "", "x-gogs-signature": "", "x-hub-signature": "sha1=", "x-hub-signature-256": "sha256=" },
};
const mismatch = "the signature does not match: the git host's secret differs, or the body was altered";
const malformed = "X-Hub-Signature-256 is not sha256= and 64 hexadecimal digits";
const isType = (type: string) => `the content type is ${type}. Set application/json at the git host.`;

type Row = readonly [name: string, status: number, reason: string, sent: Delivery];
const rows: readonly Row[] = [
  ["an unknown hook", 404, "no hook at /webhook/other", delivery({ path: "/webhook/other" })],
  // A token in a query is not logged.
  ["a query", 404, "no hook at /webhook/site with a query", delivery({ path: `/webhook/site?token=${good}` })],
  ["GET", 405, "the method is GET, not POST", delivery({ method: "GET" })],

  // GitHub signs a form's bytes, and Gitea the JSON in it.
  ["a form", 415, isType("application/x-www-form-urlencoded"), typed("application/x-www-form-urlencoded")],
  ["a type that starts so", 415, isType("application/jsonp"), typed("application/jsonp")],
  ["a type that ends so", 415, isType("x-application/json"), typed("x-application/json")],
  ["an empty type", 415, isType(""), typed("")],
  ["no content type", 415, isType("missing"), { ...delivery(), headers: untyped }],
  // It can grow to a thousand times its size.
  ["a gzipped body", 415, "the content encoding is gzip", delivery({ headers: { "content-encoding": "gzip" } })],

  ["no signature", 401, missing, unsigned()],
  ["the right SHA-1 alone", 401, instead("X-Hub-Signature"), unsigned(sha1)],
  ["Gitea's own header alone", 401, instead("X-Gitea-Signature"), unsigned({ "x-gitea-signature": hex.slice(7) })],
  ["GitLab's secret token", 401, instead("X-Gitlab-Token"), unsigned({ "x-gitlab-token": good })],
  ["what Gitea sends without a secret", 401, empty, unsigned(noSecret)],
  ["a malformed signature", 401, malformed, delivery({ signature: hex.slice(7) })],
  ["another secret", 401, mismatch, delivery({ secret: another })],
  ["another secret and the right SHA-1", 401, mismatch, delivery({ body, secret: another, headers: sha1 })],
  ["the secret of another hook of the same repository", 401, mismatch, delivery({ secret: secrets.docs.current })],
  ["both secrets as the file has them", 401, mismatch, delivery({ secret: `${good}\n${secrets.site.previous}` })],
  ["one bit of the body altered", 401, mismatch, delivery({ body: altered, signature: hex })],
  ["an ignored event, wrongly signed", 401, mismatch, delivery({ event: "ping", secret: another })],
  ["no JSON, wrongly signed", 401, mismatch, delivery({ body: noJson, secret: another })],
  ["no JSON, correctly signed", 400, "the body is not a JSON object", delivery({ body: noJson })],
];

describe("the receiver rejects and does not spool", () => {
  test.each(rows)("%s: %i", async (_, status, reason, sent) => {
    const before = running.journal.length;
    const answer = await running.send(sent);
    const served = { "x-served-by": "pushgate-receiver", ...(status === 405 && { allow: "POST" }) };
    const said = { status: STATUS_CODES[status], ...(status === 401 && { reason }) };
    expect(answer).toEqual({ status, headers: expect.objectContaining(served), body: `${JSON.stringify(said)}\n` });
    // A redirect would look delivered.
    expect(answer.headers.location).toBeUndefined();
    expect(running.spooled()).toEqual([]);
    const [line, ...more] = running.journal.slice(before);
    const hook = status === 404 ? null : "site";
    const delivery = sent.headers["x-github-delivery"];
    expect(line).toEqual({ delivery, hook, source: "127.0.0.1", status, reason, ms: expect.any(Number) });
    expect(more).toEqual([]);
    expect(String(line!.ms)).toMatch(/^\d+(\.\d)?$/);
  });

  // Express, Node's URL and a prototype's properties would find some of them.
  test.each(
    (
      "/ /webhook/ /webhook/constructor /webhook/__proto__ /webhook/site/ /webhook/site? /webhook/Site /WEBHOOK/site " +
      "/webhook/%73ite /webhook%2fsite /webhook/site%00 /webhook/%252e%252e/site /webhook/..%2fsite " +
      "/webhook/../webhook/site //webhook//site /webhook/% http://hooks.example.org/webhook/site " +
      "http://hooks.example.org?x http://?x http://[::1 * /webhook/site#x"
    ).split(" "),
  )("a delivery to %s: 404", async (path) => {
    const { status, headers } = await running.send(delivery({ path }));
    expect([status, headers["x-served-by"], running.spooled()]).toEqual([404, "pushgate-receiver", []]);
  });

  test("two signature headers that are both right: 401", async () => {
    const answer = await running.raw(head(delivery({ body }), `x-hub-signature-256: ${hex}`), body);
    expect([answer.status, running.spooled()]).toEqual([401, []]);
  });

  test("and no line of the journal holds a secret, a signature or a body", () => {
    const text = JSON.stringify(running.journal);
    for (const hidden of [good, secrets.site.previous, secrets.docs.current, hex.slice(7), "Codertocat"])
      expect(text).not.toContain(hidden);
    expect(body.toString()).toContain("Codertocat");
  });
});

describe("before it has the body, the receiver reports of two faults the one that is cheaper to find:", () => {
  const huge = { "content-length": String(limits.bodyBytes + 1) };
  const form = { "content-type": "text/plain" };
  test.each([
    ["path before method", 404, delivery({ path: "/x", method: "GET" })],
    ["method before content type", 405, delivery({ method: "GET", headers: form })],
    ["content type before length", 415, delivery({ headers: { ...form, ...huge } })],
    ["length before signature", 413, delivery({ headers: huge, signature: null })],
    ["an absent signature", 401, delivery({ signature: null })],
  ])("%s: %i", async (_, status, sent) => {
    const answer = await running.raw(head(sent));
    expect([answer.status, answer.headers.connection]).toEqual([status, "close"]);
  });
});
