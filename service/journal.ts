/** The receiver's journal: a bounded line of JSON a request; of a flood of rejections, the first of each second. */
import { printable } from "./printable.ts";

/** A line of `journalctl -o cat -u pushgate-receiver`. */
export type JournalLine = {
  readonly delivery: string | null;
  readonly hook: string | null;
  readonly source: string | null; // the address that the connection came from
  readonly status: number; // 499 where the sender left before the answer, as in nginx's log; 0 for a line of no answer
  readonly reason: string;
  readonly ms: number; // from the request's headers to the answer
  readonly overBudget?: true; // of a 429: in place of a rejection above rejectionsPerMinute
};

export type Journal = (entry: JournalLine) => void;

/** As JSON. Most texts are plain, and JSON.stringify takes several times as long for a line of them. */
function quoted(text: string | null): string {
  if (text !== null && text.length <= 200 && /^[ !#-[\]-~]*$/.test(text)) return `"${text}"`;
  return JSON.stringify(text === null ? null : printable(text.slice(0, 200)));
}

export function line({ delivery, hook, source, status, reason, ms, overBudget }: JournalLine): string {
  const texts = `"delivery":${quoted(delivery)},"hook":${quoted(hook)},"source":${quoted(source)}`;
  return `{${texts},"status":${status},"reason":${quoted(reason)},"ms":${ms}${overBudget ? ',"overBudget":true' : ""}}`;
}

/** Whether the sender is at fault: of many such answers the journal omits lines. It has each 5xx, the host's fault. */
export const isRejection = (status: number): boolean => status >= 400 && status < 500;

/** A second. journald drops lines, of accepted deliveries too, above 10,000 of a service in 30 s. */
const rejectionLines = 100;

/** Writes once in a turn of the event loop: a write a line would cost a third more. `count` gets each entry. */
export function openJournal(write: (lines: string) => void, count: Journal = () => {}): Journal {
  let lines = "";
  let rejections = 0; // of this second
  const flush = () => {
    if (lines !== "") write(lines);
    lines = "";
  };
  const add = (entry: JournalLine) => {
    if (lines === "") setImmediate(flush);
    lines += `${line(entry)}\n`;
  };
  const endSecond = () => {
    const more = rejections - rejectionLines;
    rejections = 0;
    if (more <= 0) return;
    const reason = `${more} more requests were rejected within a second`;
    add({ delivery: null, hook: null, source: null, status: 0, reason, ms: 1000 });
  };
  process.on("exit", () => {
    endSecond();
    flush();
  });
  return (entry) => {
    count(entry);
    if (isRejection(entry.status)) {
      if (rejections === 0) setTimeout(endSecond, 1000).unref();
      rejections += 1;
      if (rejections > rejectionLines) return;
    }
    add(entry);
  };
}
