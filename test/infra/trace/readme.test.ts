import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { rejections } from "./readme.ts";

/** The table under this heading, to the empty line that ends it. */
const table = /(?<=`X-Served-By` of the answer:\n\n)\|[\s\S]*?(?=\n\n)/;

test("README's table of rejections is generated from the outcomes that trace concludes", async () => {
  const path = "../../../README.md";
  const readme = readFileSync(new URL(path, import.meta.url), "utf8");
  expect(readme).toMatch(table);
  await expect(readme.replace(table, rejections)).toMatchFileSnapshot(path);
});
