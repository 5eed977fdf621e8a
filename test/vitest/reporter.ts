/**
 * The end of the output of `npm test`: the seconds of each folder, skipped tests and the command that installs what they
 * need, one line for each failure (.ci/run repeats these at its end), then `N passed, N failed, N skipped`. With
 * NO_SKIPS=1 a skip counts as a failure, for hosts that must run everything.
 */
import { writeFileSync } from "node:fs";
import { stripVTControlCharacters } from "node:util";
import type { Reporter, TestModule } from "vitest/node";

/** The beginning and the end of a long message: an engine's output names its error near the end. */
function onOneLine(message: string): string {
  const line = stripVTControlCharacters(message)
    .trim()
    .replaceAll(/\s*\n\s*/g, " | ");
  return line.length <= 1_500 ? line : `${line.slice(0, 300)} ... ${line.slice(-1_200)}`;
}

/** Folders with the seconds that a worker spent on their files. Several workers run at once. */
function secondsOf(modules: readonly TestModule[]): [folder: string, seconds: number][] {
  const seconds = new Map<string, number>();
  for (const module of modules) {
    const folder = module.relativeModuleId.split("/").slice(0, -1).slice(0, 3).join("/");
    const { duration, collectDuration, environmentSetupDuration, prepareDuration, setupDuration } = module.diagnostic();
    const all = duration + collectDuration + environmentSetupDuration + prepareDuration + setupDuration;
    seconds.set(folder, (seconds.get(folder) ?? 0) + all / 1_000);
  }
  return [...seconds].sort(([, a], [, b]) => b - a);
}

export default class Summary implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const by = (state: string) => tests.filter((test) => test.result().state === state);
    const skipped = by("skipped");
    // A file that fails to load runs no test. It counts as one failure.
    const broken = modules.filter((module) => module.state() === "failed" && module.errors().length > 0);
    const noSkips = process.env.NO_SKIPS === "1";
    const folders = secondsOf(modules);
    if (folders.length > 1) {
      console.log("\nseconds of a worker, by folder:");
      for (const [folder, seconds] of folders) console.log(`${seconds.toFixed(1).padStart(7)} ${folder}`);
    }

    const reasons = new Map<string, string[]>();
    for (const test of skipped) {
      const result = test.result();
      const note = (result.state === "skipped" && result.note) || "no reason given";
      reasons.set(note, [...(reasons.get(note) ?? []), `${test.module.relativeModuleId}: ${test.fullName}`]);
    }
    for (const [note, names] of reasons) {
      console.log(`\nskipped ${names.length}: ${note}`);
      for (const name of names) console.log(`  ${name}`);
    }
    const packages = new Set(
      [...reasons.keys()].flatMap((note) => /apt-get install ([\w .+-]+)/.exec(note)?.[1]?.split(" ") ?? []),
    );
    if (packages.size > 0) console.log(`\nto run them: sudo apt-get install -y ${[...packages].sort().join(" ")}`);

    const release = process.env.PUSHGATE_RELEASE;
    const where = release ? `${release}: ` : "";
    const report = (name: string, found: { message?: string } | undefined): void =>
      console.log(`failed: ${where}${name}: ${onOneLine(found?.message ?? "?")}`);
    for (const module of broken) report(module.relativeModuleId, module.errors()[0]);
    for (const test of by("failed"))
      report(`${test.module.relativeModuleId}: ${test.fullName}`, test.result().errors?.[0]);
    for (const error of errors) report("outside a test", error as { message?: string });
    if (noSkips)
      for (const test of skipped) report(`${test.module.relativeModuleId}: ${test.fullName}`, { message: "skipped" });

    const passed = by("passed").length;
    const failed = by("failed").length + broken.length + errors.length + (noSkips ? skipped.length : 0);
    // test/hosts/run.ts adds up several runs.
    const file = process.env.PUSHGATE_COUNTS;
    if (file) writeFileSync(file, JSON.stringify({ passed, failed, skipped: noSkips ? 0 : skipped.length }));
    const counts = [`${passed} passed`, `${failed} failed`];
    if (!noSkips && skipped.length > 0) counts.push(`${skipped.length} skipped`);
    console.log(`\n${counts.join(", ")}`);
    if (failed > 0) process.exitCode = 1;
  }
}
