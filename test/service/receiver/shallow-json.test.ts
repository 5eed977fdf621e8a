/** The receiver's parser: it agrees with JSON.parse on the first level. shallow-json.slow.test.ts has its time and memory. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseShallow } from "../../../service/git-hosts/shallow-json.ts";
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
    { seed: 1, numRuns: 300 },
  );
  const push = JSON.stringify(pushPayload());
  expect(parse(push)).toEqual(shallow(JSON.parse(push)));
  // GitHub's largest push.
  expect(parse(JSON.stringify({ commits: Array(2048).fill({ added: ["a"], id: "1" }) }))).toEqual({ commits: [] });
});

test("the parser rejects any JSON without its last byte, and what JSON.parse rejects on the first level", () => {
  void fc.assert(
    fc.property(fc.object(), (value) => {
      const text = JSON.stringify(value);
      expect(() => parse(text.slice(0, -1))).toThrow(SyntaxError);
    }),
    { seed: 1, numRuns: 30 },
  );
  for (const text of ' { } ]{ {"a":1,} {"a":[} {"a":[}} {"a"} {"a":1}{ {"a":"\\"} {}[] []]] "'.split(" "))
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
  for (const open of [1, 100_000]) expect(() => parse("[".repeat(open))).toThrow("a bracket has no pair");
  expect(parse("[".repeat(100_000) + "]".repeat(100_000))).toEqual([[]]);
  // For each level that it reads.
  const ofLevels = (count: number) => parseShallow(Buffer.from(`[[[${Array(count).fill(1).join()}]]]`), 3);
  expect(ofLevels(2_999)).toEqual([[Array(2_999).fill(1)]]);
  expect(() => ofLevels(3_000)).toThrow("more than 3000 fields");
});
