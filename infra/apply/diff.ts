/** The difference between two texts, for a person who reads a preview. Not for `patch`. */
import { structuredPatch } from "diff";
import { printableLines } from "../../service/printable.ts";

const longest = 40; // lines of a preview
/** Beyond 1000 changed lines the whole text counts as replaced: at most 0.1 s for two texts of 64 KiB. */
const options = { context: 2, maxEditLength: 1_000 };

export function unified(from: string, to: string): string {
  const patch = structuredPatch("", "", `${from}\n`, `${to}\n`, "", "", options);
  const marked = (mark: string, text: string) => text.split("\n").map((line) => mark + line);
  const hunks = patch?.hunks ?? [{ lines: [...marked("-", from), ...marked("+", to)] }];
  const shown = hunks.flatMap(({ lines }, at) => [
    ...(at === 0 ? [] : ["  …"]),
    ...lines.map((line) => `${line[0]} ${printableLines(line.slice(1)).slice(0, 200)}`.trimEnd()),
  ]);
  const more = shown.length - longest;
  return (more > 0 ? [...shown.slice(0, longest), `  … ${more} more lines`] : shown).join("\n");
}
