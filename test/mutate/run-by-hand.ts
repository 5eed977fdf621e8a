/** Runs the mutants of by-hand.ts in a copy of the project, each with the one test file that has to fail. */
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { byHand } from "./by-hand.ts";

type Report = { testResults: { message: string; assertionResults: { status: string; fullName: string }[] }[] };

const allSkipped = "each of its tests lacks a tool or a right";

/** The first test of a file that fails, or why the file does. */
function failing(copy: string, test: string): string | undefined {
  const outputFile = join(copy, "report.json");
  rmSync(outputFile, { force: true });
  const config = test.startsWith("test/engine/") ? ["--config", "test/engine/vitest.config.ts"] : [];
  const report = ["--bail=1", "--update=none", "--reporter=json", `--outputFile=${outputFile}`];
  spawnSync("vitest", ["run", ...config, ...report, test], { cwd: copy, stdio: "ignore" });
  const { testResults }: Report = JSON.parse(readFileSync(outputFile, "utf8"));
  const results = testResults.flatMap(({ assertionResults }) => assertionResults);
  // A skipped test notices nothing.
  if (results.length > 0 && results.every(({ status }) => status === "skipped")) return allSkipped;
  return (
    results.find(({ status }) => status === "failed")?.fullName ?? testResults.find(({ message }) => message)?.message
  );
}

/** Returns whether each mutant of these files was noticed. */
export function runByHand(files: readonly string[]): boolean {
  const mutants = byHand.filter(([file]) => files.includes(file));
  if (mutants.length === 0) return true;
  const copy = mkdtempSync(join(tmpdir(), "pushgate-mutate-"));
  let noticed = 0;
  try {
    const tracked = execFileSync("git", ["ls-files", "-z"], { encoding: "utf8" }).split("\0").filter(Boolean);
    for (const file of tracked) cpSync(file, join(copy, file));
    symlinkSync(resolve("node_modules"), join(copy, "node_modules"));
    for (const test of new Set(mutants.map(([, , , test]) => test))) {
      const without = failing(copy, test);
      if (without !== undefined) {
        console.log(`${test} fails without a mutant, so its mutants are not tried: ${without}`);
        continue;
      }
      for (const [file, from, to] of mutants.filter((each) => each[3] === test)) {
        const text = readFileSync(file, "utf8");
        if (text.split(from).length !== 2)
          throw new Error(`${file} has this ${text.split(from).length - 1} times: ${from}`);
        writeFileSync(
          join(copy, file),
          text.replace(from, () => to),
        );
        const by = failing(copy, test);
        if (by !== undefined) noticed += 1;
        console.log(
          `${by === undefined ? "Survived" : "Noticed"}: ${file}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}: ${by ?? test}`,
        );
        cpSync(file, join(copy, file));
      }
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  console.log(`by hand: ${noticed} of ${mutants.length} mutants noticed`);
  return noticed === mutants.length;
}
