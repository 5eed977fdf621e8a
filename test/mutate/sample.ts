/**
 * A plugin of Stryker's for `--sample`: tries so many mutants of an area, or all where it has fewer, and leaves out the
 * others. A hash of the seed and of each mutant's place and text orders them, so that every run with the same sources
 * tries the same.
 */
import { createHash } from "node:crypto";
import { type CheckResult, CheckStatus } from "@stryker-mutator/api/check";
import type { Mutant } from "@stryker-mutator/api/core";
import { declareClassPlugin, PluginKind } from "@stryker-mutator/api/plugin";

const size = Number(process.env.PUSHGATE_SAMPLE);
const seed = 1;

function order({ fileName, location: { start }, mutatorName, replacement }: Mutant): string {
  const file = fileName.replace(/.*\.stryker-tmp\/[^/]*\//, "");
  const mutant = JSON.stringify([seed, file, start.line, start.column, mutatorName, replacement]);
  return createHash("sha256").update(mutant).digest("hex");
}

/** The ids of those that are tried. */
export function sampled(mutants: readonly Mutant[], size: number): Set<string> {
  const ordered = mutants.map((mutant) => ({ id: mutant.id, by: order(mutant) }));
  return new Set(
    ordered
      .sort((one, other) => (one.by < other.by ? -1 : 1))
      .slice(0, size)
      .map(({ id }) => id),
  );
}

class Sample {
  async init(): Promise<void> {}

  async check(mutants: readonly Mutant[]): Promise<Record<string, CheckResult>> {
    const tried = sampled(mutants, size);
    const left: CheckResult = { status: CheckStatus.CompileError, reason: "not in the sample" };
    return Object.fromEntries(mutants.map(({ id }) => [id, tried.has(id) ? { status: CheckStatus.Passed } : left]));
  }

  /** All of an area in one group, so that one check chooses among them. */
  async group(mutants: readonly Mutant[]): Promise<string[][]> {
    return [mutants.map(({ id }) => id)];
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Checker, "sample", Sample)];
