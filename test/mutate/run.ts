/**
 * `npm run mutate`: changes the sources in one place at a time and runs the tests, to find what no test notices.
 * - `npm run mutate -- service/receiver infra/apply/reconcile.ts` changes these only,
 * - `npm run mutate -- --changed` only lines that differ from main,
 * - without arguments it changes everything, which takes hours.
 * `--sample 300` tries the same 300 mutants of each area in every run, and stores nothing. `--quick` leaves out mutants of
 * constants, each of which needs all tests of its folder. Results are kept in node_modules/.cache/mutate: the next run
 * repeats what changed since.
 */
import { execFileSync } from "node:child_process";
import { relative } from "node:path";
import { parseArgs } from "node:util";
import { Stryker } from "@stryker-mutator/core";
import { keepCompiled } from "../engine/compile-cache.ts";
import { type Area, areaOf, areas } from "./areas.ts";
import { runByHand } from "./run-by-hand.ts";
import { isWritable } from "./wall.ts";

keepCompiled();

const { values: options, positionals: folders } = parseArgs({
  options: {
    changed: { type: "boolean" },
    quick: { type: "boolean" },
    sample: { type: "string" },
  },
  allowPositionals: true,
});
const { sample } = options;
if (sample !== undefined && !/^[1-9]\d*$/.test(sample))
  throw new Error(`--sample is "${sample}". Use a whole number, such as 300 for so many mutants of each area.`);
if (sample !== undefined) process.env.PUSHGATE_SAMPLE = sample;

const git = (...command: string[]) => execFileSync("git", command, { encoding: "utf8" });

/** A file, with the lines to mutate where not all are: `infra/apply/reconcile.ts:3-8`. */
type Place = string;
const fileOf = (place: Place) => place.replace(/:.*/, "");

/** The lines of the working tree that main does not have. */
function changed(): Place[] {
  let file = "";
  return git("diff", "-U0", git("merge-base", "main", "HEAD").trim())
    .split("\n")
    .flatMap((line) => {
      file = /^\+\+\+ b\/(.*)/.exec(line)?.[1] ?? file;
      const [, first, count = "1"] = /^@@ -\S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
      return first && Number(count) > 0 ? [`${file}:${first}-${Number(first) + Number(count) - 1}`] : [];
    });
}

function places(): Place[] {
  if (options.changed) return changed();
  return git("ls-files", "--", ...folders)
    .trim()
    .split("\n");
}

async function mutate({ name, tests, score }: Area, mutated: Place[]): Promise<boolean> {
  process.env.PUSHGATE_TESTS = tests.join(" ");
  console.log(`\n${name}: ${mutated.length} places, tests of ${tests.join(", ")}`);
  const results = await new Stryker({
    mutate: mutated,
    testRunner: "vitest",
    plugins: ["@stryker-mutator/vitest-runner", import.meta.resolve("./sample.ts")],
    reporters: ["progress-append-only"],
    vitest: { pool: "forks", configFile: "test/mutate/vitest.config.ts", related: false },
    disableTypeChecks: false,
    checkers: sample === undefined ? [] : ["sample"],
    concurrency: 2,
    // On a busy computer: a test that is merely late would count as one that noticed.
    timeoutMS: 20_000,
    dryRunTimeoutMinutes: 15,
    // A mutant that is left out counts as one with a result.
    incremental: sample === undefined,
    incrementalFile: `node_modules/.cache/mutate/${name}.json`,
    ignoreStatic: options.quick === true,
    warnings: false,
  }).runMutationTest();

  const count = (...statuses: string[]) => results.filter(({ status }) => statuses.includes(status)).length;
  const noticed = count("Killed", "Timeout");
  const missed = results.filter(({ status }) => status === "Survived" || status === "NoCoverage");
  const of = noticed + missed.length;
  const percent = of === 0 ? 100 : (100 * noticed) / of;
  if (missed.length > 0) console.log(`\n${name}: no test notices`);
  for (const { fileName, location, mutatorName, replacement } of missed)
    console.log(
      `${relative(process.cwd(), fileName)}:${location.start.line}:${location.start.column} ${mutatorName} ${JSON.stringify(replacement)}`,
    );
  console.log(
    `${name}: ${noticed} of ${of} mutants noticed, ${percent.toFixed(1)} % (wanted: ${score}), ${count("Timeout")} of them by a time limit`,
  );
  return percent >= score;
}

if (isWritable(".")) throw new Error("A mutant could remove files here. Start it with `npm run mutate`.");
const wanted = places();
if (folders.length > 0 && wanted[0] === "")
  throw new Error(`No file is at ${folders.join(" ")}. Use paths such as infra/apply.`);
let failed = false;
for (const area of areas) {
  const mutated = wanted.filter((place) => areaOf(fileOf(place)) === area);
  if (mutated.length > 0 && !(await mutate(area, mutated))) failed = true;
}
if (!runByHand(wanted.map(fileOf))) failed = true;
process.exit(failed ? 1 : 0);
