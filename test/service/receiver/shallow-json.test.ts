/** The receiver's parser: it agrees with JSON.parse on the first level. shallow-json.slow.test.ts has its time and memory. */
import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseShallow } from "../../../service/git-hosts/shallow-json.ts";
import { readBody } from "../../../service/receiver/body.ts";
import { pushPayload } from "../../fakes/deliveries.ts";

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
