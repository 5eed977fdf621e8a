/** A journal entry is one line of printable text with a bounded length, also where a sender chose its values. */
import { execFileSync } from "node:child_process";
import { expect, onTestFinished, test, vi } from "vitest";
import { type JournalLine, line, openJournal } from "../../../service/journal.ts";
import { type Delivery, delivery } from "../../fakes/deliveries.ts";
import { head, limits, receiver } from "./harness.ts";

const entry = { delivery: "id", hook: "site", source: "192.0.2.1", status: 404, reason: "", ms: 1.5 };

test("a journal line holds its fields in a fixed order", () => {
  expect(line({ ...entry, reason: "no hook" })).toBe(
    '{"delivery":"id","hook":"site","source":"192.0.2.1","status":404,"reason":"no hook","ms":1.5}',
  );
});

test.each([
  ["line ends", "a\r\nb"],
  ["NUL and escapes", "a\u0000\u001b[31mb\u007f"],
  ["C1 controls", "a\u0085\u009bb"],
  ["direction overrides", "a\u202e\u2066b\u2069"],
  ["separators of lines", "a\u2028b\u2029"],
  ["zero width", "a\u200b\ufeffb"],
  ["half of a pair", "a\ud800b"],
])("a journal line does not contain %s", (_, reason) => {
  const { reason: printed } = JSON.parse(line({ ...entry, reason }));
  expect(printed.replace("[31m", "")).toMatch(/^a\?+b\??$/);
});

test("a journal line is JSON whatever characters its texts have, and has null for what is unknown", () => {
  const each = Array.from({ length: 0x7f - 0x20 }, (_, i) => String.fromCharCode(0x20 + i));
  for (const reason of [...each, 'a","status":202,"b":"', "\\", "ä"])
    expect(JSON.parse(line({ ...entry, reason }))).toEqual({ ...entry, reason });
  const unknown = { ...entry, delivery: null, hook: null, source: null };
  expect(JSON.parse(line(unknown))).toEqual(unknown);
});

test("a journal line holds 200 characters of a longer text", () => {
  const long = "x".repeat(200);
  expect(JSON.parse(line({ ...entry, reason: long })).reason).toBe(long);
  expect(JSON.parse(line({ ...entry, reason: `${long}y` })).reason).toBe(long);
});

const without = (header: string, sent: Delivery = delivery()): Delivery => {
  const { [header]: _, ...headers } = sent.headers;
  return { ...sent, headers };
};
const tooLong = Buffer.alloc(limits.bodyBytes + 1, " ");

test.each<[status: number, sent: Delivery, reason: string]>([
  [404, delivery({ path: "/webhook/other" }), "no hook at /webhook/other"],
  [405, delivery({ method: "GET" }), "the method is GET, not POST"],
  [
    415,
    delivery({ headers: { "content-type": "text/plain" } }),
    "the content type is text/plain. Set application/json at the git host.",
  ],
  [415, without("content-type"), "the content type is missing. Set application/json at the git host."],
  [415, delivery({ headers: { "content-encoding": "gzip" } }), "the content encoding is gzip"],
  [413, delivery({ body: tooLong }), "65537 bytes are declared, 65536 allowed"],
  [401, delivery({ signature: null }), "X-Hub-Signature-256 is missing. Set the hook's secret at the git host."],
  [401, delivery({ signature: "sha256=" }), "X-Hub-Signature-256 is not sha256= and 64 hexadecimal digits"],
  [
    401,
    delivery({ secret: "another-secret-0123456789-abcdefghij" }),
    "the signature does not match: the git host's secret differs, or the body was altered",
  ],
  [400, delivery({ body: Buffer.from("[]") }), "the body is not a JSON object"],
  [400, delivery({ body: Buffer.from('"text"') }), "the body is not a JSON object"],
  [400, delivery({ body: Buffer.from("null") }), "the body is not a JSON object"],
  [400, delivery({ body: Buffer.from("{}") }), "the push names no ref"],
  [200, without("x-github-event"), "ignored: event missing is not a push"],
  [202, delivery(), "accepted"],
])("the journal's line of a %i has its reason, its hook and its time: %#", async (status, sent, reason) => {
  const running = await receiver();
  const began = performance.now();
  expect((await running.send(sent)).status).toBe(status);
  const took = performance.now() - began;
  const hook = status === 404 ? null : "site";
  expect(running.journal).toMatchObject([{ status, reason, hook, delivery: sent.headers["x-github-delivery"] }]);
  const { ms } = running.journal[0]!;
  // Most answers take less than the 50 µs that the journal rounds to 0; an accepted one waits for the disk.
  expect(ms).toBeGreaterThanOrEqual(status === 202 ? 0.1 : 0);
  expect(ms).toBeLessThanOrEqual(took + 0.1);
  expect(String(ms)).toMatch(/^\d+(\.\d)?$/);
  await running.stop();
});

test("the journal's line of a chunked body over the limit names the limit", async () => {
  const running = await receiver();
  const sent = without("content-length", delivery({ body: tooLong }));
  const size = `${tooLong.length.toString(16)}\r\n`;
  expect((await running.raw(head(sent, "transfer-encoding: chunked"), size, tooLong)).status).toBe(413);
  expect(running.journal[0]?.reason).toBe("the body is larger than 65536 bytes");
  await running.stop();
});

test("the journal does not contain a path's query, which may hold a token", async () => {
  const running = await receiver();
  await running.send(delivery({ path: "/webhook/site?token=hidden" }));
  expect(running.journal[0]?.reason).toBe("no hook at /webhook/site");
  await running.stop();
});

test("a header with escape sequences stays one line of text in the journal", async () => {
  const running = await receiver();
  const sent = delivery({ headers: { "content-type": 'text/\u001b]0;owned\u0007 {"a":1}' } });
  await running.raw(head(sent), sent.body);
  await running.send(delivery({ event: 'x","status":202,"y":"' }));
  for (const each of running.journal) expect(line(each)).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
  expect(running.journal.at(-1)).toMatchObject({ status: 200, reason: expect.stringContaining('x","status":202') });
  await running.stop();
});

/** A journal, what it wrote, the statuses that it counted, and what it does at the process's exit. */
function opened() {
  const [writes, counted]: [string[], number[]] = [[], []];
  const before = process.listeners("exit");
  const journal = openJournal(
    (lines) => writes.push(lines),
    ({ status }) => counted.push(status),
  );
  const [exit, ...others] = process.listeners("exit").filter((listener) => !before.includes(listener));
  expect(others).toEqual([]);
  process.off("exit", exit!);
  const reasons = () =>
    writes.splice(0).map((lines) =>
      lines
        .trim()
        .split("\n")
        .map((each) => JSON.parse(each).reason),
    );
  return { journal, writes, reasons, counted, exit: () => exit!(0) };
}

/** A journal that got these entries at once, with timers that a test advances. */
function flooded(entries: readonly JournalLine[]) {
  vi.useFakeTimers({ toFake: ["setTimeout", "setImmediate"] });
  onTestFinished(() => void vi.useRealTimers());
  const { reasons, ...own } = opened();
  for (const each of entries) own.journal(each);
  return { ...own, reasons: () => reasons().flat() };
}

test("the lines of one turn of the event loop are one write", async () => {
  const { journal, writes, counted } = opened();
  journal({ ...entry, status: 401 });
  journal(entry);
  expect([writes, counted]).toEqual([[], [401, 404]]);
  await new Promise((resolve) => setImmediate(resolve));
  journal(entry);
  await new Promise((resolve) => setImmediate(resolve));
  expect(writes).toEqual([`${line({ ...entry, status: 401 })}\n${line(entry)}\n`, `${line(entry)}\n`]);
});

const rejected = (count: number, status: number) =>
  Array.from({ length: count }, () => ({ ...entry, status, reason: "no" }));

test.each([400, 499])(
  "of rejected requests, here with %i, the journal writes 100 lines a second and how many more there were",
  (status) => {
    const { journal, reasons, counted } = flooded(rejected(102, status));
    expect(counted).toHaveLength(102);
    vi.advanceTimersByTime(999);
    expect(reasons()).toEqual(Array(100).fill("no"));
    journal({ ...entry, status });
    vi.advanceTimersByTime(2);
    expect(reasons()).toEqual(["3 more requests were rejected within a second"]);
    journal({ ...entry, status, reason: "of the next second" });
    vi.advanceTimersByTime(1001);
    expect(reasons()).toEqual(["of the next second"]);
  },
);

test.each([200, 202, 399, 500, 503])(
  "each line of a %i is in the journal, however many requests are rejected",
  (status) => {
    const { reasons } = flooded([...rejected(1000, 401), ...rejected(150, status)]);
    vi.advanceTimersByTime(1001);
    expect(reasons()).toEqual([...Array(250).fill("no"), "900 more requests were rejected within a second"]);
  },
);

test("without a line nothing is written, at the process's exit either", () => {
  const { writes, exit } = opened();
  exit();
  expect(writes).toEqual([]);
});

test("the journal writes at the process's exit the lines that it holds, and how many requests have none", () => {
  const { journal, writes, reasons, exit } = opened();
  for (const each of rejected(105, 401)) journal(each);
  expect(writes).toEqual([]);
  exit();
  expect(reasons()).toEqual([[...Array(100).fill("no"), "5 more requests were rejected within a second"]]);
});

test("the journal does not count omitted lines where it has all of them: 100 rejections in a second", () => {
  const { reasons } = flooded(rejected(100, 401));
  vi.advanceTimersByTime(1_001);
  expect(reasons()).toEqual(Array(100).fill("no"));
});

test("the rejections of a second have one timer", () => {
  for (const count of [1, 5]) {
    flooded(rejected(count, 401));
    // And one that writes their lines.
    expect(vi.getTimerCount()).toBe(2);
  }
});

test("the journal writes the lines that it holds when the process exits", async () => {
  const source = new URL("../../../service/journal.ts", import.meta.url).href;
  const script = `import { openJournal } from ${JSON.stringify(source)};
openJournal((lines) => process.stdout.write(lines))(${JSON.stringify(entry)});
process.exit(0);`;
  const stdout = execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
  expect(stdout).toBe(`${line(entry)}\n`);
});
