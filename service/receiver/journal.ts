/**
 * One JSON line per request on standard output, for `journalctl -o cat -u pushgate-receiver`. Never a body, a signature
 * or a secret: an entry has no field for one.
 */

export type Entry = {
  readonly delivery: string | null;
  readonly hook: string | null;
  /** The address the connection came from. */
  readonly source: string | null;
  /** What was answered; 499 where the sender left first (nginx's number for it); 0 where no answer was possible. */
  readonly status: number;
  readonly reason: string;
  /** Milliseconds from the first header to the answer. */
  readonly ms: number;
};

export type Journal = (entry: Entry) => void;

/** Characters of one value: a path or a header may be 8 KiB long. */
const longest = 200;

/** Controls, and what turns or hides text on a terminal: C0, C1, bidirectional and other formats, separators. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;

const clean = (value: unknown): unknown =>
  typeof value === "string" ? value.slice(0, longest).replace(unprintable, "") : value;

/** Without its line end. */
export const line = (entry: Entry): string => JSON.stringify(entry, (_, value) => clean(value));

export const standardOutput: Journal = (entry) => {
  process.stdout.write(`${line(entry)}\n`);
};
