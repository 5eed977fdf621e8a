/** A journal entry is one line of printable text with a bounded length, also where a sender chose its values. */
import { expect, onTestFinished, test, vi } from "vitest";
import { type JournalLine, line, openJournal } from "../../../service/journal.ts";

const entry = { delivery: "id", hook: "site", source: "192.0.2.1", status: 404, reason: "", ms: 1.5 };

test("a journal line is JSON without control characters, whatever a sender wrote, with 200 of each text", () => {
  const each = Array.from({ length: 0x7f - 0x20 }, (_, i) => String.fromCharCode(0x20 + i));
  for (const reason of [...each, 'a","status":202,"b":"', "\\", "ä"])
    expect(JSON.parse(line({ ...entry, reason }))).toEqual({ ...entry, reason });
  // printable.test.ts has all such characters.
  const written = { delivery: "a\r\nb", hook: "a\u009bb", source: "a\u202eb", reason: "a\u001b[31mb" };
  const printed = { delivery: "a??b", hook: "a?b", source: "a?b", reason: "a?[31mb" };
  expect(JSON.parse(line({ ...entry, ...written }))).toEqual({ ...entry, ...printed });
  const long = "x".repeat(200);
  for (const reason of [long, `${long}y`]) expect(JSON.parse(line({ ...entry, reason })).reason).toBe(long);
  const unknown = { ...entry, delivery: null, hook: null, source: null };
  expect(JSON.parse(line(unknown))).toEqual(unknown);
});

/** A journal, what it wrote, the statuses that it counted, and what it does at the process's exit. */
function opened() {
  const [writes, counted]: [string[], number[]] = [[], []];
  const on = vi.spyOn(process, "on").mockReturnValue(process);
  const journal = openJournal(
    (lines) => writes.push(lines),
    ({ status }) => counted.push(status),
  );
  const [event, exit] = on.mock.calls[0]!;
  on.mockRestore();
  expect(event).toBe("exit");
  const reasons = () =>
    writes
      .splice(0)
      .map((lines) => JSON.parse(`[${lines.trim().replaceAll("\n", ",")}]`).map(({ reason }: JournalLine) => reason));
  return { journal, writes, reasons, counted, exit };
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

test.each([202, 399, 500])(
  "each line of a %i is in the journal beside 100 rejections, and none is counted",
  (status) => {
    const { reasons } = flooded([...rejected(100, 401), ...rejected(150, status)]);
    vi.advanceTimersByTime(1001);
    expect(reasons()).toEqual(Array(250).fill("no"));
  },
);

test("the journal writes at the process's exit the lines that it holds, and how many requests have none", () => {
  const { journal, writes, reasons, exit } = opened();
  exit();
  for (const each of rejected(105, 401)) journal(each);
  expect(writes).toEqual([]);
  exit();
  expect(reasons()).toEqual([[...Array(100).fill("no"), "5 more requests were rejected within a second"]]);
});
