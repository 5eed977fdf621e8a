/**
 * A plugin of Stryker's for `--sample`: tries so many mutants of an area, or all where it has fewer, and leaves out the
 * others. A hash of each mutant's place and text orders them, so that every run with the same sources
 * tries the same.
 */
import { createHash } from "node:crypto";
import { type CheckResult, CheckStatus } from "@stryker-mutator/api/check";
import type { Mutant } from "@stryker-mutator/api/core";
import { declareClassPlugin, PluginKind } from "@stryker-mutator/api/plugin";

const size = Number(process.env.PUSHGATE_SAMPLE);

function order({ fileName, location: { start }, mutatorName, replacement }: Mutant): string {
  const file = fileName.replace(/^.*\/(?=(infra|service)\/)/, "");
  const mutant = JSON.stringify([file, start.line, start.column, mutatorName, replacement]);
  return createHash("sha256").update(mutant).digest("hex");
}

class Sample {
  async init(): Promise<void> {}

  async check(mutants: readonly Mutant[]): Promise<Record<string, CheckResult>> {
    const ordered = mutants.map((mutant) => ({ id: mutant.id, by: order(mutant) }));
    const first = ordered.sort((one, other) => (one.by < other.by ? -1 : 1)).slice(0, size);
    const tried = new Set(first.map(({ id }) => id));
    const left: CheckResult = { status: CheckStatus.CompileError, reason: "not in the sample" };
    return Object.fromEntries(mutants.map(({ id }) => [id, tried.has(id) ? { status: CheckStatus.Passed } : left]));
  }

  /** All of an area in one group, so that one check chooses among them. */
  async group(mutants: readonly Mutant[]): Promise<string[][]> {
    return [mutants.map(({ id }) => id)];
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Checker, "sample", Sample)];
