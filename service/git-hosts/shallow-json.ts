/**
 * Parses JSON without what nested values hold: `{"ref":"x","commits":[{…}]}` becomes `{ref: "x", commits: []}`. JSON.parse
 * of 5 MB of nested brackets, or of small objects of many shapes, takes up to 370 MB and more than a second, in which the
 * receiver serves no other hook. Here nested values cost one pass over the bytes, and no memory.
 */

/** Commas and nested values, for each level that is read; a push has about 20 of both in each. */
const mostInLevel = 1_000;

const [quote, backslash, comma] = [0x22, 0x5c, 0x2c];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Throws SyntaxError. Below `levels` it checks that strings and brackets end, and nothing else. */
export function parseShallow(bytes: Buffer, levels = 1): unknown {
  const shallow: Buffer[] = [];
  const most = mostInLevel * levels;
  let from = 0;
  let depth = 0;
  let found = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === quote) {
      for (at++; at < bytes.length && bytes[at] !== quote; at++) if (bytes[at] === backslash) at++;
    } else if (byte === openBrace || byte === openBracket) {
      if (++depth > levels + 1) continue;
      if (depth === levels + 1) shallow.push(bytes.subarray(from, at + 1));
      if (depth > 1) found++;
    } else if (byte === closeBrace || byte === closeBracket) {
      if (--depth === levels) from = at;
    } else if (byte === comma && depth <= levels) found++;
    if (found > most) throw new SyntaxError(`more than ${most} fields`);
  }
  if (depth !== 0) throw new SyntaxError("a bracket has no pair");
  return JSON.parse(Buffer.concat([...shallow, bytes.subarray(from)]).toString());
}
