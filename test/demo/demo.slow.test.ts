/** `npm run demo` with a page, and without the tools for one. Its rows: demo.test.ts. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { cannotPublish } from "./publish.ts";

const demo = (args: string[] = [], env = process.env) =>
  spawnSync(process.execPath, [new URL("../demo.ts", import.meta.url).pathname, ...args], { encoding: "utf8", env });

test("the demo ends with a published page", ({ skip }) => {
  skip(cannotPublish() !== undefined, cannotPublish());
  const { status, stdout, stderr } = demo();
  expect(status, stderr).toBe(0);
  expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
  expect([..."123456789"].filter((number) => !new RegExp(`^${number} [A-Za-z]`, "m").test(stdout))).toEqual([]);
  const end = stdout.slice(stdout.indexOf("9 builder"));
  expect(end).toMatch(/a push with a site +202 accepted\n.* published, .*\n +the page shows +revision 1\n/);
  expect(end).toMatch(/changes layouts +202 accepted\n.* published, [\s\S]*?\n +the page shows +revision 2\n/);
  expect(end).toMatch(/README\.md +202 accepted\n.* nothing, .*only\n? *README\.md.*\n +the page shows +revision 2\n/);
});

test("the demo prints what it lacks for a page, after all layers", () => {
  const { status, stdout, stderr } = demo([], { ...process.env, PATH: "/nonexistent" });
  expect(status, stderr).toBe(0);
  expect(stdout).toContain(
    "  No page is built: git and openssl and hugo not installed: apt-get install git\n  openssl hugo\n\nLayers 1 to 8 do as declared",
  );
});
