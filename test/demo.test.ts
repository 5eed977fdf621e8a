/** The demo's own promise: a row a layer, each as declared, and an exit code that says when one is not. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";

const demo = (...args: string[]) =>
  spawnSync(process.execPath, [new URL("demo.ts", import.meta.url).pathname, ...args], { encoding: "utf8" });

test("--json prints one array with a row for each of layers 2 to 8, all as declared", () => {
  const { status, stdout, stderr } = demo("--json");
  expect(status, stderr).toBe(0);
  const rows = JSON.parse(stdout) as Record<string, unknown>[];
  expect(rows.map(({ layer }) => String(layer).slice(0, 1))).toEqual(["2", "3", "4", "5", "6", "7", "8"]);
  for (const row of rows) {
    expect(Object.keys(row)).toEqual(["layer", "declaredIn", "attack", "how", "with", "without"]);
    expect(row).toMatchObject({ how: expect.stringMatching(/^(real|evaluated)$/) });
    expect(row.with).not.toEqual(row.without);
  }
});
