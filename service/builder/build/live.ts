/** What the generator prints, while it runs, in parts for the builder's journal: whole lines as text, few parts, a bounded sum. */
import { printableLines } from "../../printable.ts";
import { firstLine } from "./content.ts";

const most = 64 << 10; // characters of a build
const longest = 8_000; // characters of a part: journald cuts a line of 48 KiB
const every = 250; // milliseconds between two parts

/** `shows` gets the parts. */
export function live(shows: (output: string) => void) {
  let [waiting, left] = ["", most];
  const pass = (isEnd = false): void => {
    let end = waiting.lastIndexOf("\n") + 1;
    if (isEnd || waiting.length - end > longest) end = waiting.length;
    for (let at = 0; at < end; at += longest) shows(printableLines(waiting.slice(at, Math.min(at + longest, end))));
    waiting = waiting.slice(end);
  };
  const timer = setInterval(pass, every);
  return {
    add(part: string): void {
      // The unit writes it at once, so that it comes in one part.
      const more = part.replace(firstLine, "");
      waiting += more.slice(0, left);
      left -= Math.min(left, more.length);
    },
    end(): void {
      clearInterval(timer);
      pass(true);
    },
  };
}
