/** The receiver's journal: one line of JSON for each request, printable and of bounded length. */

/** A line of `journalctl -o cat -u pushgate-receiver`. */
export type Entry = {
  readonly delivery: string | null;
  readonly hook: string | null;
  readonly source: string | null; // the address that the connection came from
  readonly status: number; // 499 where the sender left before the answer, as in nginx's log; 0 without an answer
  readonly reason: string;
  readonly ms: number; // from the request's headers to the answer
};

export type Journal = (entry: Entry) => void;

/** Controls, text directions and separators, which change or hide text on a terminal. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;
/** As JSON. Most texts are plain, and JSON.stringify takes several times as long for a line of them. */
function quoted(text: string | null): string {
  if (text !== null && text.length <= 200 && /^[ !#-[\]-~]*$/.test(text)) return `"${text}"`;
  return JSON.stringify(text?.slice(0, 200).replace(unprintable, "") ?? null);
}
export function line({ delivery, hook, source, status, reason, ms }: Entry): string {
  const texts = `"delivery":${quoted(delivery)},"hook":${quoted(hook)},"source":${quoted(source)}`;
  return `{${texts},"status":${status},"reason":${quoted(reason)},"ms":${ms}}`;
}

/**
 * Writes the lines of one turn of the event loop at once: under a flood a write for each would cost a third more.
 * `count` gets each entry as it comes.
 */
export function openJournal(write: (lines: string) => void, count: Journal = () => {}): Journal {
  let lines = "";
  const flush = () => {
    if (lines !== "") write(lines);
    lines = "";
  };
  process.on("exit", flush);
  return (entry) => {
    count(entry);
    if (lines === "") setImmediate(flush);
    lines += `${line(entry)}\n`;
  };
}
