/** A unified diff for people: of a changed file, from what the machine has to what is declared. Not for `patch`. */
import { printable } from "./report.ts";

type Line = { readonly mark: " " | "-" | "+"; readonly text: string };

const context = 2;
/** A preview is read by a person; what is longer than this is better read on the machine. */
const longest = 40;
/** The table of the comparison has this many cells at most; beyond it the whole block counts as replaced. */
const largest = 250_000;

/** `from` -> `to`, hunks without line numbers, control characters stripped, at most 40 lines and 200 columns. */
export function unified(from: string, to: string): string {
  const lines = compare(from.split("\n"), to.split("\n"));
  const near = lines.map((_, at) =>
    lines.slice(Math.max(0, at - context), at + context + 1).some((l) => l.mark !== " "),
  );
  const shown = lines.flatMap((line, at) => {
    if (near[at]) return [`${line.mark} ${printable(line.text).slice(0, 200)}`.trimEnd()];
    return near[at - 1] ? ["  …"] : [];
  });
  while (shown.at(-1) === "  …") shown.pop();
  const more = shown.length - longest;
  return (more > 0 ? [...shown.slice(0, longest), `  … ${more} more lines`] : shown).join("\n");
}

function compare(from: readonly string[], to: readonly string[]): Line[] {
  let head = 0;
  while (head < from.length && head < to.length && from[head] === to[head]) head++;
  let tail = 0;
  while (tail < Math.min(from.length, to.length) - head && from.at(-1 - tail) === to.at(-1 - tail)) tail++;
  const same = (text: string): Line => ({ mark: " ", text });
  return [
    ...from.slice(0, head).map(same),
    ...middle(from.slice(head, from.length - tail), to.slice(head, to.length - tail)),
    ...from.slice(from.length - tail).map(same),
  ];
}

/** Longest common subsequence, by the textbook table. */
function middle(from: readonly string[], to: readonly string[]): Line[] {
  const removed = (text: string): Line => ({ mark: "-", text });
  const added = (text: string): Line => ({ mark: "+", text });
  if (from.length * to.length > largest) return [...from.map(removed), ...to.map(added)];
  const width = to.length + 1;
  const common = new Uint16Array((from.length + 1) * width);
  for (let i = from.length - 1; i >= 0; i--)
    for (let j = to.length - 1; j >= 0; j--)
      common[i * width + j] =
        from[i] === to[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < from.length || j < to.length) {
    if (i < from.length && j < to.length && from[i] === to[j]) {
      lines.push({ mark: " ", text: from[i]! });
      i++;
      j++;
    } else if (j >= to.length || (i < from.length && common[(i + 1) * width + j]! >= common[i * width + j + 1]!))
      lines.push(removed(from[i++]!));
    else lines.push(added(to[j++]!));
  }
  return lines;
}
