/** The answers, spool files and journal lines for accepted and for ignored deliveries, and for failures of the host. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { SpoolFault } from "../../../service/receiver/spool.ts";
import { delivery, pushPayload, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { hooks, type Running, receiver } from "./harness.ts";

let running: Running;
beforeEach(async () => {
  running = await receiver();
});
afterEach(() => running.stop());

test("the receiver accepts GitHub's own push and writes one spool file for it", async () => {
  const sent = delivery();
  const answer = await running.send(sent);
  const id = sent.headers["x-github-delivery"]!;
  expect([answer.status, JSON.parse(answer.body)]).toEqual([202, { status: "accepted", delivery: id }]);
  const length = String(answer.body.length);
  // No header names Express.
  expect(answer.headers).toEqual({
    ...{ "x-served-by": "pushgate-receiver", "content-type": "application/json", "content-length": length },
    ...{ date: expect.any(String), connection: "keep-alive", "keep-alive": "timeout=5" },
  });
  const { before, after } = pushPayload() as { before: string; after: string };
  const received = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
  const entry = { delivery: id, hook: "site", event: "push", ref: "refs/heads/main", before, after, received };
  expect(running.spooled()).toEqual([[`site/${id}.json`, entry]]);
  expect(running.journal).toEqual([
    { delivery: id, hook: "site", source: "127.0.0.1", status: 202, reason: "accepted", ms: expect.any(Number) },
  ]);
  // The disk takes longer than the 50 µs that the journal rounds to 0.
  expect(running.journal[0]!.ms).toBeGreaterThan(0);
});

test("the receiver accepts the previous secret as well as the current one, and its journal says so", async () => {
  for (const secret of [secrets.site.current, secrets.site.previous])
    for (const event of ["push", "ping"]) await running.send(delivery({ event, secret }));
  expect(running.journal.map(({ status, reason }) => `${status} ${reason}`)).toEqual([
    ...["202 accepted", "200 ignored: ping"],
    ...["202 accepted, signed with the previous secret", "200 ignored: ping, signed with the previous secret"],
  ]);
});

test("the receiver verifies the bytes as sent, with their white space, emoji, order of keys and escapes", async () => {
  const bytes = ' {"z" : "🚀 \\u00e9",\n\t"ref":"refs/heads/main" , "a":1.0}\n';
  expect((await running.send(delivery({ body: Buffer.from(bytes) }))).status).toBe(202);
  const tidied = Buffer.from(JSON.stringify(JSON.parse(bytes)));
  const sent = delivery({ body: Buffer.from(bytes), signature: sign(tidied, secrets.site.current) });
  expect((await running.send(sent)).status).toBe(401);
});

// git-hosts.test.ts has each reason.
test("the receiver answers 200 with the reason, and spools nothing, for a delivery that is not for its hook", async () => {
  const { status, body } = await running.send(delivery({ payload: pushPayload("next") }));
  const reason = "refs/heads/next is not the branch main";
  expect([status, JSON.parse(body), running.spooled()]).toEqual([200, { status: "ignored", reason }, []]);
  expect(running.journal.at(-1)?.reason).toBe(`ignored: ${reason}`);
});

test("a push to a branch that has a preview is in the spool of its builder, and in no other", async () => {
  const previews = { hook: "site-previews", branches: ["next"] };
  await using other = await receiver({ hooks: [{ ...hooks[0]!, previews }] });
  expect((await other.send(delivery({ payload: pushPayload("next") }))).status).toBe(202);
  expect(other.spooled().map(([path, { ref }]) => [path.replace(/\/.*/, ""), ref])).toEqual([
    ["site-previews", "refs/heads/next"],
  ]);
});

test.each([
  ["content-type", "application/json; charset=utf-8"],
  ["content-type", "Application/JSON"],
  ["content-type", "application/json \t;charset=utf-8"],
  ["content-encoding", "Identity"],
])("the receiver accepts a delivery with %s: %s", async (name, value) => {
  expect((await running.send(delivery({ headers: { [name]: value } }))).status).toBe(202);
});

test("the receiver charges a sender's faults to its hook, and neither unknown paths nor the host's own faults", async () => {
  const charged: string[] = [];
  let entered: () => (() => void) | string = () => () => {};
  const spool = () => Promise.reject(new Error("full"));
  await using counting = await receiver({
    spool,
    limiter: { longestBody: 1 << 20, enter: () => entered(), rejected: (_, hook) => charged.push(hook) * 0 },
  });
  const status = async (sent = delivery()) => (await counting.send(sent)).status;
  expect(await status(delivery({ path: "/" }))).toBe(404);
  expect(await status(delivery({ event: "ping" }))).toBe(200);
  expect(await status()).toBe(503);
  entered = () => "no place";
  const began = performance.now();
  // After 2 s without a place.
  expect(await counting.send(delivery())).toMatchObject({
    ...{ status: 429, headers: { "retry-after": "1" }, body: '{"status":"Too Many Requests"}\n' },
  });
  const took = performance.now() - began + 0.1; // the journal rounds to 0.1 ms
  expect(counting.journal.at(-1)).toMatchObject({ status: 429, reason: "no place" });
  expect(counting.journal.at(-1)!.ms).toBeGreaterThanOrEqual(2_000);
  expect(counting.journal.at(-1)!.ms).toBeLessThanOrEqual(took);
  expect(charged).toEqual([]);
  expect(await status(delivery({ signature: null }))).toBe(401);
  expect(await status(delivery({ method: "GET", hook: "docs" }))).toBe(405);
  expect(charged).toEqual(["site", "docs"]);
});

test("the receiver replaces a delivery id that cannot be a file's name", async () => {
  for (const id of ["../../docs/x", "a/b", "", ".", "..", "x".repeat(65), "a b", "é", ".hidden"]) {
    const answer = await running.send(delivery({ headers: { "x-github-delivery": id } }));
    expect(answer.status).toBe(202);
    expect(JSON.parse(answer.body).delivery).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  }
  expect(running.spooled().map(([name]) => name.replace(/[0-9a-f-]{36}/, "id"))).toEqual(Array(9).fill("site/id.json"));
  const longest = `A-z0${"9".repeat(60)}`;
  const { body } = await running.send(delivery({ headers: { "x-github-delivery": longest } }));
  expect(JSON.parse(body).delivery).toBe(longest);
});

test("the receiver answers 503 with Retry-After while the disk is full, and accepts the next delivery afterwards", async () => {
  let fault: Error | undefined = Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  const spool = async () => {
    if (fault) throw fault;
  };
  await using failing = await receiver({ spool });
  const { status, headers, body } = await failing.send(delivery());
  expect([status, headers["retry-after"], JSON.parse(body)]).toEqual([503, "30", { status: "Service Unavailable" }]);
  expect(failing.journal[0]?.reason).toMatch(/^not spooled: ENOSPC/);
  fault = new SpoolFault("the spool is full");
  expect((await failing.send(delivery())).status).toBe(503);
  expect(failing.journal[1]?.reason).toBe("not spooled: the spool is full");
  fault = undefined;
  expect((await failing.send(delivery())).status).toBe(202);
});

test("an unexpected exception is a 500 without its message, and the receiver continues", async () => {
  const failing = () => {
    throw new TypeError("found at a secret in a message");
  };
  // The budget is in the checks before Express.
  await using broken = await receiver({ limiter: { longestBody: 1 << 20, enter: failing, rejected: failing } });
  for (const sent of [delivery(), delivery({ signature: null })]) {
    const { status, headers, body } = await broken.send(sent);
    expect([status, JSON.parse(body)]).toEqual([500, { status: "Internal Server Error" }]);
    expect(headers["x-served-by"]).toBe("pushgate-receiver");
    expect(broken.journal.at(-1)?.reason).toMatch(/^unhandled TypeError at .+app\.test\.ts:\d+:\d+\)?$/);
    expect((await broken.send(delivery({ path: "/" }))).status).toBe(404);
  }
});
