/** Checks .github/workflows with actionlint, built from its Go module. The last line is `N passed, N failed`. */
import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { findGo } from "../test/engine/install-engine.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const files = globSync(".github/workflows/*.yml", { cwd: root }).map((file) => `${root}${file}`);
const failed = files.filter((file) => {
  const { status } = spawnSync(findGo("actionlint"), ["-C", `${root}.ci/actionlint`, "tool", "actionlint", file], {
    stdio: "inherit",
    env: { ...process.env, GOTOOLCHAIN: "local" },
  });
  return status !== 0;
});
console.log(`${files.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length > 0 ? 1 : 0;
