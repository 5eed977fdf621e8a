/**
 * Checks .github/workflows, and those that docs/operating.md has, with actionlint, built from its Go module. The last line is
 * `N passed, N failed`.
 */
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { findGo } from "../test/engine/install-engine.ts";
import { typedIn } from "../test/hosts/documents.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const files = globSync(".github/workflows/*.yml", { cwd: root }).map((file) => readFileSync(`${root}${file}`, "utf8"));
const documented = typedIn("docs/operating.md").flatMap(({ text }) => (text.startsWith("# .github/") ? [text] : []));
const texts = [...files, ...documented];
const failed = texts.filter((input) => {
  const { status } = spawnSync(findGo("actionlint"), ["-C", `${root}.ci/actionlint`, "tool", "actionlint", "-"], {
    ...{ input, stdio: ["pipe", "inherit", "inherit"] },
    env: { ...process.env, GOTOOLCHAIN: "local" },
  });
  return status !== 0;
});
console.log(`${texts.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length > 0 ? 1 : 0;
