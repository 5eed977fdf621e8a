/** Values as a shell reads them, by a real shell. */
import { spawnSync } from "node:child_process";
import { pathToFileURL } from "node:url";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { call, scriptBeside, variables, word } from "../../../infra/apply/shell.ts";
import { Root } from "../host/namespace.ts";

const text = fc.string({ unit: "binary", maxLength: 60 }).filter((one) => !one.includes("\0") && one.isWellFormed());
const hostile = ["it's", "$(id)", "`id`", "a b", 'a"b', "a\\b", "a\nb", "*", "", "plain"];
const values = [...hostile, ...fc.sample(text, { seed: 1, numRuns: 40 })];

test("each value of a call and of a word reaches the shell as one word, unchanged", () => {
  const show = "show() { printf '<%s>' \"$@\"; }\n";
  for (const called of [call("show", ...values), `show ${values.map(word).join(" ")}`])
    expect(spawnSync("sh", ["-s"], { input: show + called, encoding: "utf8" }).stdout).toBe(
      values.map((value) => `<${value}>`).join(""),
    );
});

test("a list is a variable of words with blanks between them", () => {
  expect(variables({ port: 8443, hosts: ["a", "b"] })).toBe("port='8443'\nhosts='a b'");
});

test("a script that is sent has no line that is a comment, all others as they are, and one text for all hosts", () => {
  const root = new Root();
  root.write("a.sh", "#!/bin/sh\n#\n  # indented\na # of a line\n\nb=#c\n");
  const read = () => scriptBeside(pathToFileURL(root.at("beside.ts")).href, "a.sh");
  const sent = read();
  root.remove();
  expect(sent).toBe("a # of a line\n\nb=#c\n");
  expect(read()).toBe(sent);
});
