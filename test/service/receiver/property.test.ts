/** Random requests, random bytes and every payload that GitHub publishes: 2xx only for signed ones, never a crash. */
import { createRequire } from "node:module";
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { decide } from "../../../service/git-hosts/payload.ts";
import { delivery, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { bySecrets, type Running, receiver } from "./harness.ts";

const examples: { name: string; examples: Record<string, unknown>[] }[] = createRequire(import.meta.url)(
  "@octokit/webhooks-examples",
);

let running: Running;
beforeAll(async () => {
  running = await receiver({ limit: { rejectionsPerMinute: 10_000 } });
});
afterAll(() => running.stop());

const printable = fc.string({ unit: "grapheme-ascii" }).map((text) => text.trim());
const body = fc.oneof(
  fc.json().map((text) => Buffer.from(text)),
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  fc.constant(Buffer.from('{"ref":"refs/heads/main"}')),
);

/** Parts of a delivery, each of them valid in most runs, so that an invalid part reaches its check. */
const request = fc.record({
  method: fc.oneof({ weight: 8, arbitrary: fc.constant("POST") }, fc.constantFrom("GET", "PUT", "HEAD", "post")),
  path: fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom("/webhook/site", "/webhook/docs") },
    fc.webPath(),
    fc.webUrl(),
    printable.map((text) => `/${text.replace(/\s/g, "")}`),
  ),
  type: fc.oneof({ weight: 8, arbitrary: fc.constant("application/json") }, printable),
  event: fc.oneof({ weight: 4, arbitrary: fc.constantFrom("push", "ping", "issues") }, printable),
  id: printable,
  body,
  signature: fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...[...bySecrets.values()].flat()) },
    fc.constant(""),
    printable,
  ),
  header: fc.oneof({ weight: 6, arbitrary: fc.constant(undefined) }, printable),
});

test("the receiver answers random requests with 2xx only where the hook's own secret signs the bytes", async () => {
  const statuses = new Set<number>();
  await fc.assert(
    fc.asyncProperty(request, async ({ method, path, type, event, id, body, signature, header }) => {
      const before = running.spooled().length;
      const sent = delivery({
        method,
        path,
        body,
        signature: header ?? sign(body, signature),
        headers: { "content-type": type, "x-github-event": event, "x-github-delivery": id },
      });
      const { status, headers } = await running.send(sent);
      statuses.add(status);
      expect(status).not.toBe(403);
      expect(status).not.toBe(500);
      expect(headers["x-served-by"]).toBe("pushgate-receiver");
      const own = bySecrets.get(path.slice("/webhook/".length)) ?? [];
      const signed = own.some((secret) => sent.headers["x-hub-signature-256"] === sign(body, secret));
      const ok = status >= 200 && status < 300;
      if (ok) expect(signed && method === "POST" && path.startsWith("/webhook/")).toBe(true);
      if (status !== 202) expect(running.spooled().length).toBe(before);
    }),
    { seed: 1, numRuns: 400 },
  );
  // Proves that the random requests reached every check.
  for (const reached of [200, 202, 400, 401, 404, 405, 415]) expect([...statuses]).toContain(reached);
});

test("the receiver never answers random bytes with 2xx and never crashes", async () => {
  const pieces = fc.array(
    fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      fc.constantFrom(
        ...[
          "POST /webhook/site HTTP/1.1\r\n",
          "host: x\r\n",
          "content-length: 5\r\n",
          "transfer-encoding: chunked\r\n",
        ],
        ...["content-type: application/json\r\n", `x-hub-signature-256: sha256=${"0".repeat(64)}\r\n`, "\r\n", "5\r\n"],
        ...[
          "0\r\n\r\n",
          "hello",
          "expect: 100-continue\r\n",
          "connection: upgrade\r\nupgrade: x\r\n",
          "POST ?x HTTP/1.1\r\n",
        ],
      ),
    ),
    { minLength: 1, maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(pieces, async (parts) => {
      // The last bytes end an incomplete request, so that the test does not wait for the timeout.
      const { status, headers } = await running.raw(...parts, "\r\n\r\n\u0000\r\n\r\n");
      expect(status === 0 || status >= 400 || status === 100).toBe(true);
      expect(status).not.toBe(403);
      if (status >= 400) expect(headers["x-served-by"]).toBe("pushgate-receiver");
    }),
    { seed: 1, numRuns: 300 },
  );
  expect((await running.send(delivery())).status).toBe(202);
});

test("of every payload that GitHub publishes, the receiver accepts pushes to the branch and ignores the others", async () => {
  let pushes = 0;
  for (const { name, examples: payloads } of examples) {
    for (const payload of payloads) {
      const branch = /^refs\/heads\/(.+)$/.exec(String(payload.ref))?.[1];
      const headers = { "x-github-event": name };
      const decision = decide(gitHosts.github.payload, headers, Buffer.from(JSON.stringify(payload)), branch ?? "main");
      const isPush = name === "push" && branch !== undefined && payload.deleted !== true;
      expect([name, "push" in decision]).toEqual([name, isPush]);
      if (isPush) pushes++;
    }
    const status = (await running.send(delivery({ event: name, payload: payloads[0], secret: secrets.site.previous })))
      .status;
    expect([200, 202, 413]).toContain(status);
  }
  expect(examples.length).toBeGreaterThan(50);
  expect(pushes).toBeGreaterThan(0);
});
