/** One rule for texts of others, in infra and service. */
import { expect, test } from "vitest";
import { printable, printableLines } from "../../service/printable.ts";

const controls = "\u0000\u001b\u007f\u0085\u009b\u202e\u2066\u200b\ufeff\u2028\u2029\r\ud800";

test("printable is one line without controls, text directions and separators, and is cut behind its longest", () => {
  expect(printable(`a${[...controls].join("b")}\t\nc`)).toBe(`a${Array(13).fill("?").join("b")}??c`);
  expect(printable("\u00a0ä\u{1f41f}")).toBe("\u00a0ä\u{1f41f}");
  expect([printable("abc", 3), printable("abcd", 3)]).toEqual(["abc", "abc…"]);
});

test("printableLines keeps tabs and line ends alone of these, and reads those of other systems", () => {
  expect(printableLines(`a${[...controls].join("b")}\t\nc\r\nd`)).toBe(`a${Array(13).fill("?").join("b")}\t\nc\nd`);
});
