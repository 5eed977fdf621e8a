/** Values as a shell reads them, by a real shell. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { call, variables, word } from "../../../infra/apply/shell.ts";

const hostile = ["it's", "$(id)", "`id`", "a b", 'a"b', "a\\b", "a\nb", "*", ""];
const printed = (script: string) => spawnSync("sh", ["-c", script], { encoding: "utf8" }).stdout;

test("each value of a call and of a word reaches the shell as one word, unchanged", () => {
  expect(printed(`show() { printf '<%s>' "$@"; }\n${call("show", ...hostile)}`)).toBe(
    hostile.map((text) => `<${text}>`).join(""),
  );
  for (const text of ["plain", ...hostile]) expect(printed(`printf '<%s>' ${word(text)}`)).toBe(`<${text}>`);
});

test("a list is a variable of words with blanks between them", () => {
  expect(variables({ layer: "guard", port: 8443, hosts: ["a", "b"] })).toBe("layer='guard'\nport='8443'\nhosts='a b'");
});
