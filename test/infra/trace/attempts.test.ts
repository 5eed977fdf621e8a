/** The lines of a delivery in a host's logs, among those that strangers wrote. */
import { expect, test } from "vitest";
import { attempts, doubted, paired } from "../../../infra/trace/attempts.ts";
import type { Evidence } from "../../../infra/trace/evidence.ts";
import { verdict } from "../../../infra/trace/verdict.ts";

const id = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const [first, second] = ["2026-11-01T10:00:00.000Z", "2026-11-01T10:05:00.000Z"];
const sent = { status: "202", up_status: "202", up_connect: "0.000" };
const line = { ...sent, in_ranges: "1", limit: "PASSED", client: "192.0.2.1" };
const of =
  (source: string, fields: object) =>
  (time: string, change: object = {}) => ({
    ...{ time, source, text: JSON.stringify({ delivery: id, hook: "site", status: 202, ...fields, ...change }) },
  });
const nginx = of("nginx", line);
const receiver = of("receiver", { source: line.client, reason: "accepted" });
const names = (lines: Parameters<typeof attempts>[1]) =>
  attempts(id, lines).map((one) => verdict(one).outcomes.map(({ name }) => name));

test("a delivery that was sent twice is two attempts, each with its own lines", () => {
  const rejected = { status: "401", up_status: "401" };
  const lines = [nginx(first, rejected), receiver(first, { status: 401 }), nginx(second), receiver(second)];
  expect(names(lines)).toEqual([["signature"], ["accepted"]]);
  expect(attempts(id, lines).map(({ time, hook }) => `${time} ${hook}`)).toEqual([`${first} site`, `${second} site`]);
});

test("a source that has used up its rejections is told from one with many open requests", () => {
  const rejected = [nginx(first, { status: "429", up_status: "429" })];
  const told = (change: object) => names([...rejected, receiver(first, { status: 429, ...change })]);
  expect(told({ overBudget: true })).toEqual([["too many rejected requests"]]);
  expect(told({})).toEqual([["too many open requests"]]);
});

test("a receiver's line of another source does not stand for this delivery's", () => {
  const rejected = { status: "403", up_status: "504", up_connect: "-", in_ranges: "0" };
  const [own, other] = attempts(id, [nginx(second, rejected), receiver(first, { source: "203.0.113.9" })]);
  expect(own).toMatchObject({ nginx: { status: 403 }, receiver: "none" });
  expect(other).toMatchObject({ receiver: { source: "203.0.113.9" } });
});

test("a field of another type than the logs have takes the attempt's certainty, and throws nothing", () => {
  for (const value of [null, 1, {}, [], true])
    expect(() =>
      names([nginx(first, { status: value, up_status: value, client: value }), receiver(first, { source: value })]),
    ).not.toThrow();
});

test("what strangers wrote into fields and lines adds no attempt, and keeps no control character", () => {
  const quoted = JSON.stringify({ delivery: "another", ray: `{"delivery":"${id}","status":202}`, status: 202 });
  const hostile = [
    quoted,
    `{"delivery":"${id}","status":202,"delivery":"another"}`,
    `{"__proto__":{"delivery":"${id}","status":202}}`,
    `{"time":"${first}","delivery":"${id}`,
    `\u001b[2J{"delivery":"${id}"}\ufffd\ufffd`,
    `{"delivery":["${id}"],"status":202}`,
    `2026/11/01 10:00:00 [warn] ${id}`,
    ...[`"${id}"`, "null"],
  ].flatMap((text) => ["nginx", "receiver"].map((source) => ({ time: first, source, text })));
  hostile.push({ ...nginx(first), source: "guard" });
  const rejected = { status: "401", up_status: "401" };
  const own = [nginx(second, rejected), receiver(second, { status: 401, reason: "\u001b[31mred\u0007 \u202etxt" })];
  const alone = attempts(id, own);
  expect(attempts(id, [...hostile, ...own, ...hostile])).toEqual(alone);
  expect(alone).toMatchObject([{ receiver: { reason: "?[31mred? ?txt" } }]);
  expect(attempts(id, hostile)).toEqual([{ nginx: "none", receiver: "none" }]);
  expect(({} as Record<string, unknown>).delivery).toBeUndefined();
});

test("a line of both logs has one status, or the receiver's 499 where nginx answered for it", () => {
  const of = (change: Record<string, unknown>, status: number) =>
    attempts(id, [nginx(first, change), receiver(first, { status })]).length;
  expect(of({ status: 401, up_status: "401" }, 401)).toBe(1);
  expect(of({ status: 401, up_status: "401" }, 202)).toBe(2);
  expect(of({ status: 504, up_status: "504" }, 499)).toBe(1);
  // nginx's own 499: the receiver has another line, or none.
  expect(of({ status: 499, up_status: "-" }, 499)).toBe(2);
});

test("doubted() leaves what was found, and drops only a missing line of a log that may lack lines", () => {
  const [both, bare] = [attempts(id, [nginx(first), receiver(first)])[0]!, attempts(id, [receiver(first)])[0]!];
  const all = { nginx: true, receiver: true };
  expect(doubted(both, all)).toEqual(both);
  expect(Object.keys(doubted(bare, all))).toEqual(["time", "hook", "receiver"]);
  expect(doubted({ nginx: "none", receiver: "none" }, { nginx: false, receiver: true })).toEqual({ nginx: "none" });
});

const at = (seconds: number): string => new Date(Date.UTC(2026, 10, 23, 10) + seconds * 1000).toISOString();
const attempt = (seconds: number, status: number): Evidence => ({ time: at(seconds), nginx: { ...line, status } });
const entry = (seconds: number, status: number) => ({ time: at(seconds), status });
const logged = (status: number) => ({ receiver: { status, reason: "", source: null } });

type Row = [string, Parameters<typeof paired>[0], Evidence[], (number | undefined)[]];
const ended = (s: number): Row => [`it ended otherwise before its answer: ${s}`, [entry(0, s)], [attempt(5, 499)], [0]];
const three = [attempt(0, 403), attempt(30, 403), attempt(50, 202)];
test.each<Row>([
  ["each its status, the nearest in time", [entry(51, 202), entry(31, 403), entry(1, 403)], three, [2, 1, 0]],
  ["none goes to two", [entry(1, 403), entry(2, 403)], [attempt(0, 403)], [0, undefined]],
  ["without a time the status", [{ status: 202 }, { status: 403 }], [attempt(0, 403), attempt(9_000, 202)], [1, 0]],
  ["another status", [entry(0, 403)], [attempt(0, 202)], [undefined]],
  ["it reached no host", [entry(0, 403)], [{ nginx: "none", receiver: "none" }], [undefined]],
  ["a minute away", [entry(0, 403)], [attempt(60, 403)], [0]],
  ["more than a minute away", [entry(0, 403)], [attempt(61, 403)], [undefined]],
  ...[0, 502, 504, 520].map(ended),
  ["the receiver's line alone", [entry(0, 401)], [{ time: at(0), ...logged(401) }], [0]],
  [
    "the receiver's status and another of nginx",
    [entry(0, 499)],
    [{ ...attempt(0, 504), ...logged(499) }],
    [undefined],
  ],
  ["the same status first", [entry(2, 0), entry(3, 202)], [attempt(1, 499), attempt(2, 202)], [0, 1]],
  ["of those that ended otherwise the nearest", [entry(0, 0)], [attempt(40, 499), attempt(1, 499)], [1]],
])("an entry of the history gets the attempt that it is about: %s", (_, entries, attempts, found) => {
  expect(paired(entries, attempts)).toEqual(found.map((i) => (i === undefined ? i : attempts[i])));
});
