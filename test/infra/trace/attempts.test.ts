/** The lines of a delivery in a host's logs, among those that strangers wrote. */
import { expect, test } from "vitest";
import { attempts, doubted, paired } from "../../../infra/trace/attempts.ts";
import type { Evidence } from "../../../infra/trace/evidence.ts";
import { verdict } from "../../../infra/trace/verdict.ts";

const id = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const [first, second] = ["2026-11-01T10:00:00.000Z", "2026-11-01T10:05:00.000Z"];
const nginx = (time: string, change: Record<string, unknown> = {}) => ({
  time,
  source: "nginx",
  text: JSON.stringify({
    ...{ delivery: id, hook: "site", client: "192.0.2.1", status: 202, up_status: "202", up_connect: "0.000" },
    ...{ in_ranges: "1", limit: "PASSED", ...change },
  }),
});
const receiver = (time: string, change: Record<string, unknown> = {}) => ({
  time,
  source: "receiver",
  text: JSON.stringify({ delivery: id, hook: "site", source: "192.0.2.1", status: 202, reason: "accepted", ...change }),
});
const names = (lines: Parameters<typeof attempts>[1]) =>
  attempts(id, lines).map((one) => verdict(one).outcomes.map(({ name }) => name));

test("a delivery that was sent twice is two attempts, each with its own lines", () => {
  const rejected = { status: 401, up_status: "401" };
  const lines = [
    nginx(first, rejected),
    receiver(first, { status: 401, reason: "the signature does not match" }),
    nginx(second),
    receiver(second),
  ];
  expect(names(lines)).toEqual([["signature"], ["accepted"]]);
  expect(attempts(id, lines).map(({ time, hook }) => [time, hook])).toEqual([
    [first, "site"],
    [second, "site"],
  ]);
});

test("a receiver's line of another source does not stand for this delivery's", () => {
  const stranger = receiver(first, { source: "203.0.113.9" });
  const [own, other] = attempts(id, [
    nginx(second, { status: 403, up_status: "504", up_connect: "-", in_ranges: "0" }),
    stranger,
  ]);
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
    `{"constructor":{"prototype":{"delivery":"${id}"}}}`,
    `["delivery","${id}"]`,
    `{"time":"${first}","delivery":"${id}`,
    `\u001b[2J{"delivery":"${id}"}\ufffd\ufffd`,
    `{"delivery":["${id}"],"status":202}`,
    `{"delivery":{"toString":"${id}"},"status":202}`,
    `2026/11/01 10:00:00 [warn] ${id}`,
    ...[`"${id}"`, "null"],
  ].flatMap((text) => ["nginx", "receiver"].map((source) => ({ time: first, source, text })));
  hostile.push({ ...nginx(first), source: "guard" });
  const rejected = { status: 401, up_status: "401" };
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
const line = { up_status: "", up_connect: "", in_ranges: "1", limit: "PASSED", client: "192.0.2.1" };
const attempt = (seconds: number, status: number): Evidence => ({ time: at(seconds), nginx: { ...line, status } });
const entry = (seconds: number, status: number) => ({ time: at(seconds), status });

test("each entry has the attempt with its status, nearest in time, and none goes to two", () => {
  const [first, second, third] = [attempt(0, 403), attempt(30, 403), attempt(50, 202)];
  expect(paired([entry(51, 202), entry(31, 403), entry(1, 403)], [first, second, third])).toEqual([
    ...[third, second, first],
  ]);
  expect(paired([entry(1, 403), entry(2, 403)], [first])).toEqual([first, undefined]);
  // Without a time, by the status alone.
  expect(paired([{ status: 202 }, { status: 403 }], [first, attempt(9_000, 202)])).toEqual([
    attempt(9_000, 202),
    first,
  ]);
});

const logged: Evidence = { time: at(0), receiver: { status: 401, reason: "no signature", source: null } };
const both: Evidence = { ...attempt(0, 504), receiver: { status: 499, reason: "", source: null } };
type Row = [string, ReturnType<typeof entry>, Evidence, boolean];
const ended = (s: number): Row => [`that nginx ended before its answer: ${s}`, entry(0, s), attempt(5, 499), true];
test.each<Row>([
  ["of another status", entry(0, 403), attempt(0, 202), false],
  ["that reached no host", entry(0, 403), { nginx: "none", receiver: "none" }, false],
  ["a minute away", entry(0, 403), attempt(60, 403), true],
  ["more than a minute away", entry(0, 403), attempt(61, 403), false],
  ...[0, 502, 504, 520].map(ended),
  ["with a line of the receiver alone", entry(0, 401), logged, true],
  ["with the receiver's status and another of nginx", entry(0, 499), both, false],
])("whether an entry is about an attempt %s", (_, one, of, is) => {
  expect(paired([one], [of])).toEqual([is ? of : undefined]);
});

test("an attempt with the same status goes before one that ended otherwise, and of these the nearest", () => {
  const [late, accepted] = [attempt(1, 499), attempt(2, 202)];
  expect(paired([entry(2, 0), entry(3, 202)], [late, accepted])).toEqual([late, accepted]);
  expect(paired([entry(0, 0)], [attempt(40, 499), late])).toEqual([late]);
});
