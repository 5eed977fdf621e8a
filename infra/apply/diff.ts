/** The difference between two texts, for a person who reads a preview. Not for `patch`. */
import { diffArrays } from "diff";
import { printable } from "./report.ts";

const context = 2;
/** Lines of a preview; more are better read on the host. */
const longest = 40;
/** Beyond this number of changed lines the whole text counts as replaced: at most 0.1 s for two texts of 64 KiB. */
const maxEditLength = 1_000;

/** `from` -> `to`: hunks without line numbers, control characters stripped, at most 40 lines and 200 columns. */
export function unified(from: string, to: string): string {
  const lines = compare(from.split("\n"), to.split("\n"));
  const near = lines.map((_, at) =>
    lines.slice(Math.max(0, at - context), at + context + 1).some(({ mark }) => mark !== " "),
  );
  const shown = lines.flatMap(({ mark, text }, at) => {
    if (near[at]) return [`${mark} ${printable(text).slice(0, 200)}`.trimEnd()];
    return near[at - 1] ? ["  …"] : [];
  });
  if (shown.at(-1) === "  …") shown.pop();
  const more = shown.length - longest;
  return (more > 0 ? [...shown.slice(0, longest), `  … ${more} more lines`] : shown).join("\n");
}

function compare(from: string[], to: string[]) {
  const parts = diffArrays(from, to, { maxEditLength }) ?? [
    { value: from, removed: true, added: false },
    { value: to, removed: false, added: true },
  ];
  return parts.flatMap(({ value, removed, added }) =>
    value.map((text) => ({ mark: removed ? "-" : added ? "+" : " ", text })),
  );
}
