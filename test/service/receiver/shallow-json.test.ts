/** The receiver's parser: it agrees with JSON.parse on the first level, and no body of a sender makes it slow or large. */
import { EventEmitter } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseShallow } from "../../../service/git-hosts/shallow-json.ts";
import { receiverMemoryMiB } from "../../../service/limits.ts";
import { readBody } from "../../../service/receiver/body.ts";
import { delivery, pushPayload } from "../../fakes/deliveries.ts";
import { example, secrets } from "../../fixtures.ts";
import { bundled, type Rewrite } from "../bundles.ts";
import { type Receiver, startReceiver } from "../receiver-process.ts";
import { hostileBodies } from "./hostile-bodies.ts";

const parse = (text: string) => parseShallow(Buffer.from(text));

/** What the receiver keeps of a value: nested lists and objects are empty. */
const shallow = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return value;
  const emptied = (inner: unknown) =>
    typeof inner !== "object" || inner === null ? inner : Array.isArray(inner) ? [] : {};
  if (Array.isArray(value)) return value.map(emptied);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, emptied(inner)]));
};

test("the parser returns the first level of any JSON as JSON.parse does, with empty nested values", () => {
  void fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), (text) => {
      expect(parse(text)).toEqual(shallow(JSON.parse(text)));
    }),
    { seed: 1, numRuns: 2_000 },
  );
  const push = JSON.stringify(pushPayload());
  expect(parse(push)).toEqual(shallow(JSON.parse(push)));
});

test("the parser rejects any JSON without its last byte, and what JSON.parse rejects on the first level", () => {
  void fc.assert(
    fc.property(fc.object(), (value) => {
      const text = JSON.stringify(value);
      expect(() => parse(text.slice(0, -1))).toThrow(SyntaxError);
    }),
    { seed: 1 },
  );
  for (const text of [
    "",
    "{",
    "}",
    "]{",
    '{"a":1,}',
    '{"a":[}',
    '{"a":[}}',
    '{"a"}',
    '{"a":1}{',
    '{"a":"\\"}',
    "{}[]",
    "[]]]",
    '"',
  ])
    expect(() => parse(text), text).toThrow(SyntaxError);
});

test("the parser reads a field however it is written, as JSON.parse does", () => {
  expect(parse('{"r\\u0065f" : "a", "ref":"b"}')).toEqual({ ref: "b" });
  expect(parse(' {"a":"]}\\\\","ref":"{[\\""}\n')).toEqual({ a: "]}\\", ref: '{["' });
  expect(Object.keys(parse('{"__proto__":{"ref":"x"},"z":1}') as object)).toEqual(["__proto__", "z"]);
});

test("the parser accepts 1,000 commas and nested values, and rejects one more", () => {
  const numbers = (count: number) => `[${Array(count).fill(1).join()}]`;
  expect(parse(numbers(1_001))).toHaveLength(1_001);
  expect(() => parse(numbers(1_002))).toThrow("more than 1000 fields");
  const nested = (count: number) => `[${Array(count).fill("[1,2]").join()}]`;
  expect(parse(nested(500))).toEqual(Array(500).fill([]));
  expect(() => parse(nested(501))).toThrow("more than 1000 fields");
  expect(() => parse("[")).toThrow("a bracket has no pair");
});

test("the parser accepts 1,000 commas and nested values for each level that it reads", () => {
  const ofLevels = (count: number) => parseShallow(Buffer.from(`[[[${Array(count).fill(1).join()}]]]`), 3);
  expect(ofLevels(2_999)).toEqual([[Array(2_999).fill(1)]]);
  expect(() => ofLevels(3_000)).toThrow("more than 3000 fields");
});

/** MemoryMax= of the receiver's unit with a body of 5 MiB. */
const limit = 352;
test("the receiver's unit has 352 MiB", () => expect(receiverMemoryMiB(example.limits)).toBe(limit));

describe("with signed bodies of 5 MB", () => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-shallow-"));
  const whole: Rewrite = (file, text) =>
    file === "git-hosts/shallow-json.ts" ? "export const parseShallow = (body) => JSON.parse(body.toString());" : text;
  const bundles = { without: join(folder, "without.cjs"), with: join(folder, "with.cjs") };
  let receiver: Receiver | undefined;
  beforeAll(() => Promise.all([bundled("receiver", bundles.with), bundled("receiver", bundles.without, whole)]));
  afterAll(() => rmSync(folder, { recursive: true }));

  const peakMiB = ({ pid }: Receiver) =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;

  /** Sends two of the body, and a good delivery for another hook while they are handled. */
  async function beside(bundle: string, body: Buffer) {
    receiver = await startReceiver(bundle, example);
    const bad = [0, 1].map(() => receiver!.deliver(delivery({ body })));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const began = performance.now();
    const good = await receiver.deliver(delivery({ hook: "docs", secret: secrets.docs.current }));
    const milliseconds = performance.now() - began;
    const answers = (await Promise.all(bad)).map(({ status }) => status);
    const peak = peakMiB(receiver);
    await receiver.stop();
    return { good: good.status, milliseconds, answers, peak };
  }
  test.each(Object.entries(hostileBodies(5 << 20)))(
    "%s: the receiver stays at half its memory, and delays another hook's delivery less than 3 s",
    { timeout: 120_000 },
    async (_, body) => {
      const { good, milliseconds, answers, peak } = await beside(bundles.with, body);
      expect(good).toBe(202);
      for (const status of answers) expect([200, 202, 400]).toContain(status);
      expect(peak).toBeLessThan(limit / 2);
      expect(milliseconds).toBeLessThan(3_000);
    },
  );

  test("nested brackets would take more than the receiver's MemoryMax with JSON.parse of the whole body", {
    timeout: 180_000,
  }, async () => {
    receiver = await startReceiver(bundles.without, example);
    const body = hostileBodies(5 << 20)["nested brackets"]!;
    // On a busy computer a delivery may end in a time-out, and the two need not be parsed one right after the other, so
    // that V8 collects what the first took: an attacker would send more.
    for (let round = 0; round < 8 && peakMiB(receiver) <= limit; round++)
      await Promise.allSettled([0, 1].map(() => receiver!.deliver(delivery({ body }))));
    expect(peakMiB(receiver)).toBeGreaterThan(limit);
    await receiver.stop();
  });
});

test("a body in chunks of one byte is held once, and as a list of chunks would take a hundred times its size", async () => {
  const bytes = 1 << 20;
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  /** MiB that are held: without a collection before it, the figure falls at any moment. */
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed / (1 << 20);
  };
  const chunk = (i: number) => Buffer.from([i & 0xff]);
  const before = heap();
  const req = new EventEmitter();
  const read = readBody(Object.assign(req, { headers: {} }) as unknown as IncomingMessage, bytes);
  for (let i = 0; i < bytes; i++) req.emit("data", chunk(i));
  req.emit("end");
  const body = (await read)!;
  expect([body.length, body[0], body[0x1234], body.at(-1)]).toEqual([bytes, 0, 0x34, 0xff]);
  const held = heap() - before;
  const list = Array.from({ length: bytes }, (_, i) => chunk(i));
  expect(heap() - before - held).toBeGreaterThan(held + 30);
  expect(list).toHaveLength(bytes);
});
