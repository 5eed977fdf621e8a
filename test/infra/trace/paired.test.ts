/** Which attempt in the hosts' logs belongs to which entry of the git host's delivery history. */
import { expect, test } from "vitest";
import type { Attempt } from "../../../infra/trace/attempts.ts";
import { paired } from "../../../infra/trace/paired.ts";

const at = (seconds: number): string => new Date(Date.UTC(2026, 10, 23, 10) + seconds * 1000).toISOString();
const line = { up_status: "", up_connect: "", in_ranges: "1", limit: "PASSED", client: "192.0.2.1" };
const attempt = (seconds: number, status: number): Attempt => ({ time: at(seconds), nginx: { ...line, status } });
const entry = (seconds: number, status: number) => ({ time: at(seconds), status });

test("each entry has the attempt with its status, nearest in time, and none goes to two", () => {
  const [first, second, third] = [attempt(0, 403), attempt(30, 403), attempt(50, 202)];
  expect(paired([entry(51, 202), entry(31, 403), entry(1, 403)], [first, second, third])).toEqual([
    third,
    second,
    first,
  ]);
  expect(paired([entry(1, 403), entry(2, 403)], [first])).toEqual([first, undefined]);
});

test("an entry of another status than every attempt reached no host", () => {
  expect(paired([entry(0, 403)], [attempt(0, 202)])).toEqual([undefined]);
  expect(paired([entry(0, 403)], [{ nginx: "none", receiver: "none" }])).toEqual([undefined]);
});

test("an attempt more than a minute away is another one", () => {
  expect(paired([entry(0, 403)], [attempt(59, 403)])).not.toEqual([undefined]);
  expect(paired([entry(0, 403)], [attempt(61, 403)])).toEqual([undefined]);
});

test.each([0, 502, 504, 520, 524])("an entry with %i may be about an attempt that ended otherwise", (status) => {
  const late = attempt(5, 499);
  expect(paired([entry(0, status)], [late])).toEqual([late]);
});

test("an attempt with the same status goes before one that ended otherwise", () => {
  const [late, accepted] = [attempt(1, 499), attempt(2, 202)];
  expect(paired([entry(2, 0), entry(3, 202)], [late, accepted])).toEqual([late, accepted]);
});

test("an entry without a time is paired by its status", () => {
  const [rejected, accepted] = [attempt(0, 401), attempt(9_000, 202)];
  expect(paired([{ status: 202 }, { status: 401 }], [rejected, accepted])).toEqual([accepted, rejected]);
});

test("a line of the receiver alone has its status", () => {
  const logged: Attempt = { time: at(0), receiver: { status: 401, reason: "no signature", source: null } };
  expect(paired([entry(0, 401)], [logged])).toEqual([logged]);
});

test("exactly a minute apart is still one, and of attempts that ended otherwise the nearest is taken", () => {
  expect(paired([entry(0, 403)], [attempt(60, 403)])).toEqual([attempt(60, 403)]);
  const [far, near] = [attempt(40, 499), attempt(3, 499)];
  expect(paired([entry(0, 0)], [far, near])).toEqual([near]);
});

test("an attempt with neither log has no status, and one with both has nginx's", () => {
  const unseen: Attempt = { time: at(0), nginx: "none", receiver: "none" };
  expect(paired([entry(0, 202)], [unseen])).toEqual([undefined]);
  const both: Attempt = { ...attempt(0, 504), receiver: { status: 499, reason: "", source: null } };
  expect(paired([entry(0, 504)], [both])).toEqual([both]);
  expect(paired([entry(0, 499)], [both])).toEqual([undefined]);
});
