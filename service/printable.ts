/** Text of others, for a terminal, a journal or a report: controls and text directions would change its surroundings. */

/** One line, with "?" for each character that is not printable, cut after `longest` characters. */
export function printable(text: string, longest = Number.POSITIVE_INFINITY): string {
  const clean = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "?");
  return clean.length > longest ? `${clean.slice(0, longest)}…` : clean;
}

/** Several lines, with their tabs. */
export const printableLines = (text: string): string =>
  text.replaceAll("\r\n", "\n").replace(/[^\t\n]+/g, (part) => printable(part));
