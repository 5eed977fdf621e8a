/**
 * `npm test`: format, types, words, then every test that needs no booted host, with the time of each step.
 * `npm run check` is the same without the tests.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { keepCompiled } from "./engine/compile-cache.ts";

keepCompiled();

// Printed on standard error, so that the counts are the last line of standard output.
const report = (name: string, isGood: boolean, began: number) =>
  console.error(`${name}: ${isGood ? "" : "failed after "}${((performance.now() - began) / 1000).toFixed(1)} s`);

/** Beside each other. tsc's threads would take twice the seconds of a core in as long. */
const checks: [name: string, command: string, ...args: string[]][] = [
  ["format", "biome", "check", "--error-on-warnings"],
  ["types", "tsc", "--singleThreaded", "--incremental", "--tsBuildInfoFile", "node_modules/.cache/tsc.tsbuildinfo"],
  ["words", "node", "test/prose.ts"],
];
const good = await Promise.all(
  checks.map(async ([name, command, ...args]) => {
    const began = performance.now();
    const running = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
    const ended = once(running, "close");
    const [stdout, stderr] = await Promise.all([text(running.stdout), text(running.stderr)]);
    const [code] = await ended;
    process.stdout.write(stdout);
    process.stderr.write(stderr);
    report(name, code === 0, began);
    return code === 0;
  }),
);
if (good.includes(false)) {
  console.log(`\n0 passed, ${good.filter((each) => !each).length} failed`);
  process.exit(1);
}
if (process.argv[2] !== "check") {
  const began = performance.now();
  const args = ["run", "--project=quick", "--update=none", ...process.argv.slice(2)];
  const { status } = spawnSync("vitest", args, { stdio: "inherit" });
  report("tests", status === 0, began);
  process.exit(status ?? 1);
}
