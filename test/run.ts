/**
 * `npm test`: format, types, words, then every test that needs no booted host, with the time of each step.
 * `npm run check` is the same without the tests.
 */
import { spawnSync } from "node:child_process";
import { keepCompiled } from "./engine/compile-cache.ts";

keepCompiled();

const steps: [name: string, command: string, ...args: string[]][] = [
  ["format", "biome", "check", "--error-on-warnings"],
  ["types", "tsc"],
  ["words", "node", "test/prose.ts"],
];
if (process.argv[2] !== "check")
  steps.push(["tests", "vitest", "run", "--project=quick", "--update=none", ...process.argv.slice(2)]);

for (const [name, command, ...args] of steps) {
  const started = performance.now();
  const { status } = spawnSync(command, args, { stdio: "inherit" });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  if (status !== 0) {
    if (name !== "tests") console.log(`\n0 passed, 1 failed`);
    console.error(`${name}: failed after ${seconds} s`);
    process.exit(1);
  }
  // Printed on standard error, so that the counts are the last line of standard output.
  console.error(`${name}: ${seconds} s`);
}
