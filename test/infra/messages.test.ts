/**
 * Every text that pushgate can show, on one page: test/golden/messages.txt. The page holds every text of the product's
 * sources that has more than one word, and the messages of its scripts; `npm run fix` rewrites it.
 */
import { globSync, readFileSync } from "node:fs";
import { extname } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";

const root = new URL("../../", import.meta.url).pathname;

/** The messages of a script: quoted words after say, fail, echo, printf, print, close, finish. */
const printed =
  /\b(?:say|fail|echo|print|close|finish|reject|cannot_look)\b[^"'\n]*(?:"((?:[^"\\]|\\.)*)"|'([^'\n]*)')/g;

/** Texts of a module, in the order of its source; an inserted value shows as "…". */
function textsOf(source: string): string[] {
  const texts: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) return;
    if (ts.isStringLiteralLike(node)) texts.push(node.text);
    else if (ts.isTemplateExpression(node))
      texts.push([node.head.text, ...node.templateSpans.map(({ literal }) => literal.text)].join("…"));
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile("module.ts", source, ts.ScriptTarget.Latest));
  return texts;
}

function messagesOf(file: string): string[] {
  const text = readFileSync(`${root}${file}`, "utf8");
  const found = [".ts", ".cjs"].includes(extname(file))
    ? textsOf(text)
    : [...text.matchAll(printed)].map(([, double, single]) => double ?? single ?? "");
  return found.map((one) => one.replace(/\s+/g, " ").trim()).filter((one) => /[a-z]{2,} [a-z]/i.test(one));
}

test("messages.txt matches the messages in the sources", async () => {
  const files = globSync("{infra,service}/**/*.{ts,sh,pl,cjs}", { cwd: root }).sort();
  const page = files.flatMap((file) => {
    const messages = [...new Set(messagesOf(file))];
    return messages.length === 0 ? [] : [`${file}`, ...messages.map((one) => `  ${one}`), ""];
  });
  await expect(`${page.join("\n")}`).toMatchFileSnapshot("../golden/messages.txt");
});
