/**
 * What went wrong at other receivers of webhooks, and what an attacker tries: one test for each, named by what this
 * receiver does instead, against its bundle on the sockets that systemd passes. Each asserts the answer and that
 * nothing was spooled. `elsewhere` names the tests of other layers.
 */
import { spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Delivery, delivery, pingPayload, pushPayload, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { ActivatedReceiver } from "../activated-receiver.ts";
import { type Answer, chunk, dial, exchange, head } from "./harness.ts";

const receiver = new ActivatedReceiver();
const megabyte = 1 << 20;
beforeAll(async () => {
  receiver.limits.bodyBytes = megabyte;
  await receiver.start();
});
afterAll(() => receiver.remove());

const spooled = (): string[] => ["site", "docs"].flatMap((hook) => readdirSync(join(receiver.spool, hook)));

/** Sends a delivery, and asserts its status and that nothing was spooled. */
async function rejected(sent: Delivery, status: number): Promise<Answer> {
  const answer = await receiver.send(sent);
  expect([answer.status, spooled()]).toEqual([status, []]);
  expect(answer.headers["x-served-by"]).toBe("pushgate-receiver");
  return answer;
}
/** Sends these bytes, and asserts the status and that nothing was spooled. */
async function rejectedBytes(parts: readonly (string | Buffer)[], status: number): Promise<void> {
  const answer = await exchange(receiver.port, parts);
  expect([answer.status, spooled()]).toEqual([status, []]);
}
/** Sends a delivery, asserts that it alone was spooled, and takes it as the builder does. */
async function accepted(sent: Delivery): Promise<void> {
  expect((await receiver.send(sent)).status).toBe(202);
  expect(spooled()).toHaveLength(1);
  receiver.take();
}
/** A signed delivery that is answered with 200 and the reason, and not spooled. */
async function ignored(sent: Delivery, reason: string): Promise<void> {
  const { body } = await rejected(sent, 200);
  expect(JSON.parse(body)).toEqual({ status: "ignored", reason });
}

const good = secrets.site.current;
const push = Buffer.from(JSON.stringify(pushPayload()));
const right = sign(push, good);
const signature = (value: string | null) => delivery({ body: push, signature: value });
const text = (body: string, secret = good) => delivery({ body: Buffer.from(body), secret });
/** Headers of a chunked body. */
function chunkedHead(sent: Delivery): string {
  const { "content-length": _, ...headers } = sent.headers;
  return head({ ...sent, headers }, "transfer-encoding: chunked");
}
/** Runs the bundle with other settings, and returns its exit status and what it prints. */
function startedWith(change: Record<string, unknown>, secret = good) {
  const credentials = join(receiver.root, "credentials");
  const file = join(receiver.root, "other.json");
  const settings = JSON.parse(readFileSync(join(receiver.root, "receiver.json"), "utf8"));
  writeFileSync(file, JSON.stringify({ ...settings, listen: { host: "127.0.0.1", port: 0 }, ...change }));
  const before = readFileSync(join(credentials, "site"), "utf8");
  writeFileSync(join(credentials, "site"), secret);
  const env = { PATH: process.env.PATH, PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: credentials };
  const ended = spawnSync(process.execPath, [join(receiver.root, "receiver.cjs")], {
    env,
    encoding: "utf8",
    timeout: 60_000,
  });
  writeFileSync(join(credentials, "site"), before);
  return { status: ended.status, said: ended.stderr };
}

describe("the signature:", () => {
  test.each<[header: string, value: string | null]>([
    ["a missing header", null],
    ["an empty header", ""],
    ["`sha256=`, which Gitea sends without a secret", "sha256="],
    ["the first 20 characters of the right signature", right.slice(0, 20)],
    ["a signature that is one digit short", right.slice(0, -1)],
    ["two signatures in one header", `${right}, ${right}`],
    ["another prefix before the right digits", right.replace("sha256", "sha1")],
    ["the digits without a prefix", right.slice("sha256=".length)],
    ["a signature by the empty secret", sign(push, "")],
    ["a signature by a default secret, such as Probot's", sign(push, "development")],
    ["a signature by the secret of another hook of the same repository", sign(push, secrets.docs.current)],
  ])("the receiver rejects %s", async (_, value) => void (await rejected(signature(value), 401)));

  test("the receiver rejects a header that comes twice, both right", () =>
    rejectedBytes(
      [head(signature(null), `x-hub-signature-256: ${right}`, `x-hub-signature-256: ${right}`), push],
      401,
    ));

  test("the receiver rejects a downgrade to SHA-1, alone and beside a wrong SHA-256", async () => {
    const sha1 = `sha1=${createHmac("sha1", good).update(push).digest("hex")}`;
    await rejected(delivery({ body: push, signature: null, headers: { "x-hub-signature": sha1 } }), 401);
    const both = { body: push, signature: sign(push, "x".repeat(40)), headers: { "x-hub-signature": sha1 } };
    await rejected(delivery(both), 401);
  });

  test("a hook of GitHub rejects Gitea's delivery, which carries GitHub's headers", async () => {
    const headers = { "x-gitea-event": "push", "x-gitea-signature": right.slice(7), "x-gitea-delivery": "a" };
    await rejected(delivery({ body: push, signature: null, headers }), 401);
  });

  test("the receiver verifies the body's own bytes, not JSON that was parsed and written again", async () => {
    const pretty = Buffer.from(`${JSON.stringify(pushPayload(), null, 2)}\n`);
    await rejected(delivery({ body: pretty, signature: right }), 401);
    await accepted(delivery({ body: pretty }));
  });

  test("the receiver accepts emoji, escapes and white space, which rewritten JSON would change", async () => {
    await accepted(text('{ "ref" : "refs\\/heads\\/main", "é": "\\u00e9 👩‍💻 \\ud83d\\ude80" }\n\n'));
  });

  test("the receiver rejects a form, of which GitHub signs the bytes and Gitea the JSON in it", async () => {
    const form = Buffer.from(`payload=${encodeURIComponent(push.toString())}`);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    await rejected(delivery({ body: form, headers }), 415);
    await rejected(delivery({ body: form, signature: right, headers }), 415);
  });

  test("the receiver compares a signature in constant time, whatever the guess", () => {
    const text = (module: string) =>
      readFileSync(new URL(`../../../service/git-hosts/${module}`, import.meta.url), "utf8");
    // A difference of nanoseconds is in no test's reach.
    expect(text("hmac-signature.ts")).toContain("given.length === expected.length && timingSafeEqual(given, expected)");
    expect(text("standard-signature.ts")).toContain(".some((each) => isHmac(");
    expect(text("gitlab-signature.ts")).toContain("timingSafeEqual(sha256(secret), sha256(given))");
  });

  test("no answer and no line of the journal contains the expected signature", async () => {
    const answer = await rejected(signature(sign(push, "x".repeat(40))), 401);
    expect(JSON.stringify(answer) + receiver.journal).not.toContain(right.slice("sha256=".length));
  });
});

describe("before the signature is checked:", () => {
  test("the receiver parses no body before it has verified the signature", async () => {
    for (const body of ["[".repeat(200_000), '{"a":'.repeat(50_000), "\u0000", '{"ref":null}', "[]", '"'])
      await rejected(text(body, "x".repeat(40)), 401);
  });

  test("the receiver verifies the bytes of a body, not what a parser made of them", async () => {
    const other = Buffer.from(JSON.stringify(JSON.parse(push.toString()), null, 3));
    await rejected(delivery({ body: other, signature: right }), 401);
  });

  test("the receiver rejects a declared length of 26 MB, and an unsigned body without a length", async () => {
    await rejected(delivery({ headers: { "content-length": String(26 << 20) }, body: Buffer.alloc(0) }), 413);
    const unsigned = delivery({ signature: null });
    await rejectedBytes([chunkedHead(unsigned), chunk(Buffer.alloc(100_000))], 401);
  });

  test("the receiver rejects a compressed body, which can grow to a thousand times its size", async () => {
    const bomb = gzipSync(Buffer.alloc(20 * megabyte, "["));
    for (const encoding of ["gzip", "deflate", "br"])
      await rejected(delivery({ body: bomb, headers: { "content-encoding": encoding } }), 415);
  });

  test.each([
    "text/xml",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/vnd.api+json",
  ])(
    "the receiver rejects the content type %s",
    async (type) => void (await rejected(delivery({ headers: { "content-type": type } }), 415)),
  );

  test.each(["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])(
    "the receiver rejects the method %s",
    async (method) => void (await rejected(delivery({ method }), 405)),
  );
});

describe("the body's size:", () => {
  /** A valid push of exactly this many bytes. */
  const padded = (bytes: number) => {
    const empty = '{"ref":"refs/heads/main","pad":""}';
    return empty.replace('""', `"${"x".repeat(bytes - empty.length)}"`);
  };
  test("the receiver accepts a push of 457 kB, the largest seen: Express's default is 100 kB", () =>
    accepted(text(padded(457_000))));
  test("the receiver accepts a push of 2048 commits, the most that GitHub sends", () =>
    accepted(
      delivery({ payload: { ...pushPayload(), commits: Array(2048).fill({ id: "a".repeat(40), added: ["x"] }) } }),
    ));
  test("the receiver accepts a body at the limit, and rejects one byte more", async () => {
    await accepted(text(padded(megabyte)));
    await rejected(text(padded(megabyte + 1)), 413);
  });
  test("the receiver rejects a long body without a length, also where the signature is of its beginning", async () => {
    const sent = text(padded(megabyte + 1));
    await rejectedBytes([chunkedHead(sent), chunk(sent.body), "0\r\n\r\n"], 413);
    await rejectedBytes(
      [
        chunkedHead({
          ...sent,
          headers: { ...sent.headers, "x-hub-signature-256": sign(sent.body.subarray(0, megabyte), good) },
        }),
        chunk(sent.body),
        "0\r\n\r\n",
      ],
      413,
    );
  });
  test("the receiver spools nothing of an aborted body, and accepts the next delivery", async () => {
    const socket = await dial(receiver.port);
    socket.on("error", () => {});
    socket.write(head(delivery({ body: push })));
    socket.end(push.subarray(0, 100));
    await new Promise((resolve) => socket.resume().once("close", resolve));
    expect(spooled()).toEqual([]);
    await accepted(delivery());
  });
  test("the receiver rejects signed deep JSON that does not end, and accepts deep JSON that does", async () => {
    await rejected(text("[".repeat(500_000)), 400);
    await accepted(text(`{"ref":"refs/heads/main","deep":${"[".repeat(100_000)}${"]".repeat(100_000)}}`));
  });
});

describe("what a delivery means:", () => {
  const change = (more: Record<string, unknown>) => delivery({ payload: { ...pushPayload(), ...more } });
  test("the receiver answers a ping with 200", () =>
    ignored(delivery({ event: "ping", payload: pingPayload() }), "ping"));
  test("the receiver answers a push to another branch with 200", () =>
    ignored(delivery({ payload: pushPayload("next") }), "refs/heads/next is not the branch main"));
  test("the receiver ignores an event that it does not know, and goes on", async () => {
    await ignored(delivery({ event: "none-such", payload: { action: null } }), "event none-such is not a push");
    await accepted(delivery());
  });
  test("the receiver ignores the deletion of the branch, whose fields are null", () =>
    ignored(change({ deleted: true, after: "0".repeat(40), head_commit: null }), "deletion of main"));
  test("the receiver ignores a tag of the branch's name", () => ignored(change({ ref: "refs/tags/main" }), "tag main"));
  test.each<[ref: string, more: Record<string, unknown>, status: number]>([
    ["null", { ref: null }, 400],
    ["a list", { ref: ["refs/heads/main"] }, 400],
    ["in __proto__", { ref: undefined, ["__proto__"]: { ref: "refs/heads/main" } }, 400],
  ])(
    "the receiver rejects a push whose ref is %s",
    async (_, more, status) => void (await rejected(change(more), status)),
  );
  test("the receiver accepts null in place of commits, sender, repository and pusher", () =>
    accepted(change({ commits: null, sender: null, repository: null, pusher: null, head_commit: null })));
  test("the receiver accepts a delivery with the names of prototypes, and the next one", async () => {
    await accepted(
      text('{"ref":"refs/heads/main","__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
    );
    await accepted(delivery());
  });
  test.each(["--upload-pack=touch /tmp/x", "$(touch /tmp/x)", "`id`", "main; id", "main\u0000", "../../main"])(
    "the receiver ignores a push to the ref %j, and spools nothing",
    async (branch) => void (await rejected(delivery({ payload: pushPayload(branch) }), 200)),
  );
  test("the receiver stores no address of the payload", async () => {
    const metadata = "http://169.254.169.254/latest/meta-data/";
    const repository = { url: metadata, clone_url: metadata, hooks_url: metadata };
    expect((await receiver.send(change({ repository, compare: metadata }))).status).toBe(202);
    const [name] = readdirSync(join(receiver.spool, "site"));
    expect(readFileSync(join(receiver.spool, "site", name!), "utf8")).not.toContain("169.254");
    receiver.take();
  });
});

describe("paths, headers and logs:", () => {
  test.each([
    "..%2fsite",
    "%2e%2e/site",
    "%252e%252e%252fsite",
    "site%00",
    "site/",
    "site/..",
    "SITE",
    "constructor",
    "__proto__",
  ])(
    "the receiver finds no hook under the name %s",
    async (name) => void (await rejected(delivery({ path: `/webhook/${name}` }), 404)),
  );
  test("the receiver ignores and does not log a token in the query", async () => {
    await rejected(delivery({ path: `/webhook/site?token=${good}`, signature: null }), 404);
    expect(receiver.journal).not.toContain(good);
  });
  test("the receiver spools a delivery under an id of its own where the sender's could be a path", async () => {
    for (const id of ["../../docs/x", "..", "a/b", "x".repeat(300), ".hidden"]) {
      expect((await receiver.send(delivery({ headers: { "x-github-delivery": id } }))).status).toBe(202);
      expect(spooled()).toEqual([expect.stringMatching(/^[0-9a-f-]{36}\.json$/)]);
      receiver.take();
    }
  });
  test("the journal holds no controls of a terminal, which headers and fields can hold", async () => {
    await rejected(delivery({ headers: { "content-type": "a\u001b[2J" } }), 400);
    await rejected(delivery({ headers: { "content-type": "a\u009b31m" } }), 415);
    await rejected(delivery({ payload: pushPayload("a\r\nb\u001b[2J\u202e") }), 200);
    expect(receiver.journal).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    for (const line of receiver.journal.trim().split("\n")) expect(typeof JSON.parse(line).status).toBe("number");
  });
  test.each<[name: string, parts: () => (string | Buffer)[], status: number]>([
    ["a length and chunks", () => [head(delivery({ body: push }), "transfer-encoding: chunked"), push], 400],
    ["two lengths", () => [head(delivery({ body: push }), "content-length: 5"), push], 400],
    [
      "a length with a sign",
      () => [head(delivery({ body: push, headers: { "content-length": `+${push.length}` } })), push],
      400,
    ],
    ["a bare line feed", () => [head(delivery({ body: push })).replaceAll("\r\n", "\n"), push], 400],
    [
      "a space before the colon",
      () => [head(delivery({ body: push })).replace("content-type:", "content-type :"), push],
      400,
    ],
    ["an obsolete folded line", () => [head(delivery({ body: push }), "x: y\r\n z"), push], 400],
    ["a chunk whose length is no number", () => [chunkedHead(delivery({ body: push })), "zz\r\nnot a chunk\r\n"], 400],
  ])("the receiver rejects smuggling by %s", (_, parts, status) => rejectedBytes(parts(), status));
});

describe("a rejection:", () => {
  test("is answered with 4xx and no redirect, so that it does not look delivered", async () => {
    for (const sent of [signature(null), signature(sign(push, "x".repeat(40))), delivery({ path: "/webhook/site/" })]) {
      const { status, headers } = await receiver.send(sent);
      expect([status >= 400 && status < 500, headers.location]).toEqual([true, undefined]);
    }
    expect(spooled()).toEqual([]);
  });
});

describe("the budget of rejections:", () => {
  const limited = new ActivatedReceiver();
  beforeAll(async () => {
    limited.limits.rejectionsPerMinute = 3;
    await limited.start();
  });
  afterAll(() => limited.remove());

  test("a forged X-Forwarded-For is no other source, and a used-up budget keeps no good delivery out", async () => {
    const answers: number[] = [];
    for (let i = 0; i < 5; i++) {
      const forged = {
        "x-forwarded-for": `198.51.100.${i}`,
        "cf-connecting-ip": `198.51.100.${i}`,
        forwarded: `for=${i}`,
      };
      answers.push((await limited.send(delivery({ secret: "x".repeat(40), headers: forged }))).status);
    }
    expect(answers).toEqual([401, 401, 401, 429, 429]);
    expect(readdirSync(join(limited.spool, "site"))).toEqual([]);
    expect((await limited.send(delivery())).status).toBe(202);
  });
});

describe("settings:", () => {
  test("the receiver does not start with a missing or short secret", () => {
    for (const secret of ["", "\n", "development"])
      expect(startedWith({}, secret)).toMatchObject({ status: 78, said: expect.stringContaining("fewer than 32") });
  });
  test("the receiver does not start with an unknown git host", () => {
    const hooks = [{ name: "site", gitHost: "none-such", branch: "main" }];
    expect(startedWith({ hooks })).toMatchObject({ status: 78, said: expect.stringContaining("gitHost") });
  });
});

/** The test of another layer. Titles are the beginning of a test's or a describe's, or a row of its table. */
const elsewhere: readonly (readonly [mistake: string, file: string, title: string])[] = [
  [
    "a source outside the ranges, by its own address",
    "test/infra/host/proxy.test.ts",
    "a source outside the hook's ranges",
  ],
  [
    "a source outside the ranges, after an allowed one",
    "test/hosts/suite/matrix.test.ts",
    "a denied source gets in after an allowed one only if",
  ],
  [
    "an allowlist that is not enforced",
    "test/infra/host/guard.test.ts",
    "without enforcement every foreign source is named",
  ],
  [
    "an allowlist that sees the proxy in place of the sender",
    "test/infra/host/proxy.test.ts",
    "a delivery passes on both address families, and the receiver sees its source",
  ],
  ["a forged X-Forwarded-For on the way to the allowlist", "test/infra/host/proxy.test.ts", "a forged X-Forwarded-For"],
  ["an IPv6 source", "test/hosts/suite/up.test.ts", "the receiver accepts a signed push from GitHub over %s"],
  [
    "a bare IPv6 address that admits a /32",
    "test/infra/host/receiver.test.ts",
    "ranges are compared as systemd prints them",
  ],
  ["ranges that are out of date", "test/infra/networks.test.ts", "GitHub's list holds the three ranges of 2026-10-29"],
  ["a slow sender", "test/service/receiver/wire.test.ts", "that do not end their body receive 408"],
  ["a slow sender at nginx", "test/hosts/suite/flood.test.ts", "500 slow clients"],
  [
    "a rate by the wrong key at nginx",
    "test/infra/host/proxy.test.ts",
    "nginx counts no address of the git host, and with a rate by address it rejects pushes above it",
  ],
  [
    "a body over the limit at nginx",
    "test/hosts/suite/deliveries.test.ts",
    "one byte over the limit, without a length",
  ],
  [
    "smuggling on a kept connection to the receiver",
    "test/infra/host/proxy.test.ts",
    "one connection for each request",
  ],
  [
    "the deletion of a branch at Bitbucket, whose `new` is null",
    "test/service/git-hosts/git-hosts.test.ts",
    "what a push means at",
  ],
  ["smuggling on the way to nginx", "test/hosts/suite/deliveries.test.ts", "a length and chunks"],
  [
    "a push that starts one of several hooks of its repository",
    "test/hosts/suite/deliveries.test.ts",
    "two hooks of one repository and branch: each push starts both",
  ],
  [
    "Gitea's and Forgejo's delivery taken for GitHub's",
    "test/service/git-hosts/git-hosts.test.ts",
    "a delivery of %s is recognised, whatever other marks it carries",
  ],
  [
    "a replay, and a redelivery that is taken for one",
    "test/hosts/rebuild/faults.test.ts",
    "a redelivery after failed builds, under the same id, is accepted",
  ],
  [
    "a replay that publishes an old commit",
    "test/service/builder/run/replays.slow.test.ts",
    "the replay of an old delivery after a newer push",
  ],
  [
    "accepted work that is lost in a crash",
    "test/service/receiver/process.test.ts",
    "SIGKILL in a stream of deliveries",
  ],
  [
    "a spool file that is half written, or a link",
    "test/service/receiver/spool.test.ts",
    "the spool syncs the file before it renames it",
  ],
  [
    "a spool file that is exchanged while it is read",
    "test/service/builder/run/markers.test.ts",
    "what a member puts into the folder of requests",
  ],
  [
    "a push that is lost, or a second build, while a build runs",
    "test/service/builder/run/build-pending.test.ts",
    "the first push of a burst is built at once",
  ],
  [
    "a failed build that is reported as good",
    "test/service/builder/build/build.test.ts",
    "the reason names a failing template with Hugo's message",
  ],
  [
    "a failed build that is published",
    "test/service/builder/build/build.test.ts",
    "the gate rejects a build without layouts",
  ],
  [
    "a truncated list of files that starts no build",
    "test/service/builder/source/decide.test.ts",
    "unknown changes start a build",
  ],
  [
    "a secret in the environment, the arguments or the journal",
    "test/service/receiver/process.test.ts",
    "the journal, the arguments and the environment hold no secret",
  ],
  ["a secret in a unit, a file or the state", "test/hosts/suite/up.test.ts", "units and journal contain no secret"],
  [
    "an address of the cloud's metadata that a build reads",
    "test/hosts/rebuild/hostile.test.ts",
    "Hugo reads an address that the operator allows",
  ],
  ["a command that a repository's names lead to", "test/service/builder/source/git.test.ts", "a hostile repository"],
  [
    "a lock of builds that is not taken, or lies in the checkout",
    "test/hosts/rebuild/units.test.ts",
    "one builder runs for a site, however often it is started",
  ],
  [
    "builds without a bound at a time",
    "test/hosts/rebuild/measure.test.ts",
    "the newest of 200 pushes in a burst with one build at a time",
  ],
  [
    "a reload of the configuration that loses hooks",
    "test/hosts/suite/load.test.ts",
    "all of 2,000 deliveries while up changes a range, the program and nginx's configuration",
  ],
  [
    "a cache of deliveries that grows",
    "test/service/receiver/replays.slow.test.ts",
    "1,000 replays of one delivery are one spool entry",
  ],
  [
    "a request of the receiver to an address of the payload",
    "test/infra/host/receiver.test.ts",
    "exposure is at most 0.2, and each of these lines counts",
  ],
  [
    "an answer that waits for the build",
    "test/hosts/rebuild/measure.test.ts",
    "the builder adds at most three starts of Node to git and Hugo between the 202 and the page, and ends",
  ],
];

describe("held by another layer:", () => {
  test.each(elsewhere)("%s: %s", (_, file, title) => {
    const text = readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8");
    // As the name of a test, a group or a row, not in a comment.
    const quoted = text.split("\n").filter((line) => line.includes(title) && /^(?! *[/*]).*["`]/.test(line));
    expect(quoted.length).toBeGreaterThan(0);
  });
  test("each mistake is named once", () => {
    const named = elsewhere.map(([mistake]) => mistake);
    expect(new Set(named).size).toBe(named.length);
  });
});
