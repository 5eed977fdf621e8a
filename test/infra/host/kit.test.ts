/** How a layer's files are made of templates. Golden files and layers.test.ts have what kit.ts makes of the rest. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { template } from "../../../infra/host/kit.ts";

function filled(text: string, values: Parameters<typeof template>[2]): string {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-kit-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "unit"), text);
  return template(pathToFileURL(join(folder, "layer.ts")).href, "unit", values);
}

test("a line that is a placeholder goes when its value is empty, and any other line stays", () => {
  expect(filled("a @one@ b\n@two@\n@gone@\nend @gone@\n", { one: "1", two: "2\n3", gone: "" })).toBe(
    "a 1 b\n2\n3\nend \n",
  );
});

test("a placeholder without a value, and a value without a place, are mistakes", () => {
  expect(() => filled("@one@\n", {})).toThrow("unit: @one@ has no value");
  expect(() => filled("text\n", { one: "1", two: "" })).toThrow("unit has no place for one, two");
});

test("a value may hold what looks like a placeholder", () => {
  expect(filled("@path@ @path@\n", { path: "/srv/@web@" })).toBe("/srv/@web@ /srv/@web@\n");
});
