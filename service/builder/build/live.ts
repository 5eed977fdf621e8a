/** What the generator prints, while it runs, in parts for the builder's journal: whole lines as text, few parts, a bounded sum. */
import { printableLines } from "../../printable.ts";
import { endOfFolders, mostFirst } from "./content.ts";

const most = 64 << 10; // characters of a build
const longest = 8_000; // characters of a part: journald cuts a line of 48 KiB
const every = 250; // milliseconds between two parts

/** `shows` gets the parts: what comes after the folders. */
export function live(shows: (output: string) => void) {
  const before = `${endOfFolders}\n`;
  let [first, waiting, begun, left] = ["", "", false, most];
  const pass = (isEnd = false): void => {
    let end = waiting.lastIndexOf("\n") + 1;
    if (isEnd || waiting.length - end > longest) end = waiting.length;
    for (let at = 0; at < end; at += longest) shows(printableLines(waiting.slice(at, Math.min(at + longest, end))));
    waiting = waiting.slice(end);
  };
  const timer = setInterval(pass, every);
  return {
    add(part: string): void {
      if (!begun && first.length < mostFirst) first += part;
      const at = begun ? -1 : first.indexOf(before);
      const more = begun ? part : at < 0 ? "" : first.slice(at + before.length);
      begun ||= at >= 0;
      waiting += more.slice(0, left);
      left -= Math.min(left, more.length);
    },
    end(): void {
      clearInterval(timer);
      pass(true);
    },
  };
}
