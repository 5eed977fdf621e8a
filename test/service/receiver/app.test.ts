/** The answers, spool files and journal lines for accepted and for ignored deliveries, and for failures of the host. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { delivery, from, pingPayload, pushPayload, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { type Running, receiver } from "./harness.ts";

let running: Running;
beforeEach(async () => {
  running = await receiver();
});
afterEach(() => running.stop());

test("the receiver accepts GitHub's own push and writes one spool file for it", async () => {
  const sent = delivery();
  const answer = await running.send(sent);
  expect(answer.status).toBe(202);
  const id = sent.headers["x-github-delivery"]!;
  expect(JSON.parse(answer.body)).toEqual({ status: "accepted", delivery: id });
  const { before, after } = pushPayload() as { before: string; after: string };
  expect(running.spooled()).toEqual([
    [
      `site/${id}.json`,
      {
        delivery: id,
        hook: "site",
        event: "push",
        ref: "refs/heads/main",
        before,
        after,
        received: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      },
    ],
  ]);
  expect(running.journal).toEqual([
    { delivery: id, hook: "site", source: "127.0.0.1", status: 202, reason: "accepted", ms: expect.any(Number) },
  ]);
});

test("every answer carries X-Served-By, and no header names Express", async () => {
  for (const sent of [
    delivery(),
    delivery({ signature: null }),
    delivery({ path: "/" }),
    delivery({ event: "ping" }),
  ]) {
    const { headers } = await running.send(sent);
    expect(headers["x-served-by"]).toBe("pushgate-receiver");
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["x-powered-by"]).toBeUndefined();
    expect(headers.etag).toBeUndefined();
  }
});

test("the receiver accepts the previous secret as well as the current one, and its journal says so", async () => {
  const signed = ", signed with the previous secret";
  for (const [event, status, reason] of [
    ["push", 202, "accepted"],
    ["ping", 200, "ignored: ping"],
  ] as const)
    for (const [secret, by] of [
      [secrets.site.current, ""],
      [secrets.site.previous, signed],
    ] as const) {
      expect((await running.send(delivery({ event, secret }))).status).toBe(status);
      expect(running.journal.at(-1)!.reason).toBe(reason + by);
    }
});

test("the receiver rejects a delivery that is signed with another hook's secret", async () => {
  expect((await running.send(delivery({ hook: "docs", secret: secrets.site.current }))).status).toBe(401);
  expect((await running.send(delivery({ hook: "docs", secret: secrets.docs.current }))).status).toBe(202);
  expect(running.spooled().map(([name]) => name.split("/")[0])).toEqual(["docs"]);
});

test("the receiver verifies the bytes as sent, with their white space, emoji, order of keys and escapes", async () => {
  const bytes = ' {"z" : "🚀 \\u00e9",\n\t"ref":"refs/heads/main" , "a":1.0}\n';
  expect((await running.send(delivery({ body: Buffer.from(bytes) }))).status).toBe(202);
  const tidied = Buffer.from(JSON.stringify(JSON.parse(bytes)));
  const sent = delivery({ body: Buffer.from(bytes), signature: sign(tidied, secrets.site.current) });
  expect((await running.send(sent)).status).toBe(401);
});

test("the receiver accepts a push of 2048 commits, GitHub's maximum, where bodyBytes allows it", async () => {
  const big = await receiver({ limit: { bodyBytes: 5 << 20 } });
  const { commits = [] } = pushPayload() as { commits?: unknown[] };
  const payload = {
    ...pushPayload(),
    commits: Array.from({ length: 2048 }, () => commits[0] ?? { id: "0".repeat(40) }),
  };
  const sent = delivery({ payload });
  expect(sent.body.length).toBeGreaterThan(100_000);
  expect((await big.send(sent)).status).toBe(202);
  await big.stop();
});

test("the receiver accepts Forgejo's delivery, which carries GitHub's headers and Forgejo's", async () => {
  const body = Buffer.from(JSON.stringify({ ref: "refs/heads/main", before: "a".repeat(40), after: "b".repeat(40) }));
  const hex = sign(body, secrets.docs.current).slice("sha256=".length);
  const sent = delivery({
    hook: "docs",
    secret: secrets.docs.current,
    body,
    headers: {
      "x-forgejo-event": "push",
      "x-forgejo-signature": hex,
      "x-gitea-event": "push",
      "x-gitea-signature": hex,
      "x-gogs-event": "push",
      "x-gogs-signature": hex,
      "x-hub-signature": `sha1=${"0".repeat(40)}`,
      authorization: "Bearer another-secret",
    },
  });
  expect((await running.send(sent)).status).toBe(202);
});

describe("the receiver answers 200 with the reason, and spools nothing, for", () => {
  const zeros = "0".repeat(40);
  test.each([
    ["a ping", delivery({ event: "ping", payload: pingPayload() }), "ping"],
    ["another event", delivery({ event: "issues", payload: { action: "opened" } }), "event issues is not a push"],
    ["no event", delivery({ headers: { "x-github-event": "" } }), "event  is not a push"],
    ["another branch", delivery({ payload: pushPayload("next") }), "refs/heads/next is not the branch main"],
    [
      "a branch whose name ends with the hook's branch",
      delivery({ payload: pushPayload("x/main") }),
      "refs/heads/x/main is not the branch main",
    ],
    ["a tag with the branch's name", delivery({ payload: { ...pushPayload(), ref: "refs/tags/main" } }), "tag main"],
    ["a deletion", delivery({ payload: { ...pushPayload(), deleted: true } }), "deletion of main"],
    [
      "a deletion that only the commit id shows",
      delivery({ payload: { ...pushPayload(), after: zeros } }),
      "deletion of main",
    ],
  ])("%s", async (_, sent, reason) => {
    const answer = await running.send(sent);
    expect([answer.status, JSON.parse(answer.body)]).toEqual([200, { status: "ignored", reason }]);
    expect(running.spooled()).toEqual([]);
    expect(running.journal.map((entry) => entry.reason)).toEqual([`ignored: ${reason}`]);
  });
});

test.each([
  ["content-type", "application/json; charset=utf-8"],
  ["content-type", "Application/JSON"],
  ["content-type", "application/json \t;charset=utf-8"],
  ["content-encoding", "Identity"],
])("the receiver accepts a delivery with %s: %s", async (name, value) => {
  expect((await running.send(delivery({ headers: { [name]: value } }))).status).toBe(202);
});

test("the receiver keeps a commit id of 40 or 64 hexadecimal digits, and null in place of anything else", async () => {
  const kept = ["0".repeat(40), "9a".repeat(32), `0${"a".repeat(38)}0`];
  const others = ["a".repeat(39), "a".repeat(41), "a".repeat(63), "a".repeat(65), "A".repeat(40), "g".repeat(40)];
  for (const id of [...kept, ...others]) {
    const sent = delivery({ payload: { ...pushPayload(), before: id } });
    expect((await running.send(sent)).status).toBe(202);
    const name = `site/${sent.headers["x-github-delivery"]}.json`;
    expect(running.spooled().find(([file]) => file === name)?.[1].before, id).toBe(kept.includes(id) ? id : null);
  }
});

test("a commit id that begins and ends with zeros is no deletion; one of 64 zeros is", async () => {
  const after = (id: string) => running.send(delivery({ payload: { ...pushPayload(), after: id } }));
  expect((await after(`0${"a".repeat(38)}0`)).status).toBe(202);
  expect(JSON.parse((await after("0".repeat(64))).body)).toEqual({ status: "ignored", reason: "deletion of main" });
});

test("the answer quotes 255 characters of a ref", async () => {
  for (const [prefix, reason] of [
    ["refs/tags/", `tag ${"x".repeat(255)}`],
    ["", `${"x".repeat(255)} is not the branch main`],
  ]) {
    const sent = delivery({ payload: { ...pushPayload(), ref: `${prefix}${"x".repeat(300)}` } });
    expect(JSON.parse((await running.send(sent)).body)).toEqual({ status: "ignored", reason });
  }
});

test("the receiver charges a sender's faults to its hook, and neither unknown paths nor the host's own faults", async () => {
  const charged: string[] = [];
  let entered: () => (() => void) | string = () => () => {};
  const spool = () => Promise.reject(new Error("full"));
  const counting = await receiver({
    spool,
    limiter: { longestBody: 1 << 20, enter: () => entered(), rejected: (_, hook) => charged.push(hook) * 0 },
  });
  const status = async (sent = delivery()) => (await counting.send(sent)).status;
  expect(await status(delivery({ path: "/" }))).toBe(404);
  expect(await status()).toBe(503);
  entered = () => "no place";
  expect(await status()).toBe(429);
  entered = () => {
    throw new TypeError();
  };
  expect(await status()).toBe(500);
  expect(charged).toEqual([]);
  expect(await status(delivery({ signature: null }))).toBe(401);
  expect(await status(delivery({ method: "GET", hook: "docs" }))).toBe(405);
  expect(charged).toEqual(["site", "docs"]);
  await counting.stop();
});

test("a redelivery replaces its waiting spool file", async () => {
  const sent = delivery();
  await running.send(sent);
  await running.send(sent);
  expect(running.spooled()).toHaveLength(1);
});

test("the receiver replaces a delivery id that cannot be a file's name", async () => {
  for (const id of ["../../../etc/passwd", "a/b", "", ".", "..", "x".repeat(65), "a b", "é", "a.json"]) {
    const answer = await running.send(delivery({ headers: { "x-github-delivery": id } }));
    expect(answer.status).toBe(202);
    expect(JSON.parse(answer.body).delivery).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  }
  expect(running.spooled().map(([name]) => name.replace(/[0-9a-f-]{36}/, "id"))).toEqual(Array(9).fill("site/id.json"));
});

test("the receiver keeps a delivery id of 64 characters", async () => {
  const id = `A-z0${"9".repeat(60)}`;
  expect(JSON.parse((await running.send(delivery({ headers: { "x-github-delivery": id } }))).body).delivery).toBe(id);
});

test("a payload's names reach no prototype, and the spool file holds null for an invalid commit id", async () => {
  const body = Buffer.from(
    '{"__proto__":{"deleted":true,"polluted":1},"constructor":{"prototype":{"polluted":1}},' +
      '"ref":"refs/heads/main","before":"--upload-pack=evil","after":["x"]}',
  );
  expect((await running.send(delivery({ body }))).status).toBe(202);
  expect(running.spooled()[0]?.[1]).toMatchObject({ before: null, after: null });
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test("the receiver rejects a payload whose ref is only in __proto__", async () => {
  expect((await running.send(delivery({ body: Buffer.from('{"__proto__":{"ref":"refs/heads/main"}}') }))).status).toBe(
    400,
  );
});

test("the receiver answers 503 with Retry-After while the disk is full, and accepts the next delivery afterwards", async () => {
  let full = true;
  const spool = async () => {
    if (full) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  };
  const failing = await receiver({ spool });
  const answer = await failing.send(delivery());
  expect([answer.status, answer.headers["retry-after"], answer.body]).toEqual([
    503,
    "30",
    '{"status":"Service Unavailable"}\n',
  ]);
  expect(failing.journal[0]?.reason).toMatch(/^not spooled: ENOSPC/);
  full = false;
  expect((await failing.send(delivery())).status).toBe(202);
  await failing.stop();
});

test("an unexpected exception is a 500 without its message, and the receiver continues", async () => {
  const broken = await receiver({
    limiter: {
      longestBody: 1 << 20,
      enter: () => {
        throw new TypeError("found at a secret in a message");
      },
      rejected: () => {
        throw new RangeError("found at a secret in a message");
      },
    },
  });
  const answer = await broken.send(delivery());
  expect([answer.status, answer.body]).toEqual([500, '{"status":"Internal Server Error"}\n']);
  expect(answer.headers["x-served-by"]).toBe("pushgate-receiver");
  expect(broken.journal[0]?.reason).toMatch(/^unhandled TypeError at .+app\.test\.ts:\d+:\d+\)?$/);
  expect(JSON.stringify(broken.journal)).not.toContain("a secret in a message");
  expect((await broken.send(delivery({ path: "/" }))).status).toBe(404);
  // The budget, which the checks before Express use.
  expect((await broken.send(delivery({ signature: null }))).status).toBe(500);
  expect(broken.journal[2]?.reason).toMatch(/^unhandled RangeError at .+app\.test\.ts:\d+:\d+\)?$/);
  expect((await broken.send(delivery({ path: "/" }))).status).toBe(404);
  await broken.stop();
});

test("the journal's source is the connection's address, not one from a header", async () => {
  const claims = {
    "x-forwarded-for": from.stranger,
    forwarded: `for=${from.stranger}`,
    "cf-connecting-ip": from.stranger,
  };
  await running.send(delivery({ headers: { ...claims, "x-real-ip": from.stranger } }));
  expect(running.journal[0]?.source).toBe("127.0.0.1");
});
