/**
 * A plugin of Stryker's for `--sample`: tries one in so many mutants and leaves out the others. Which ones is decided by a
 * hash of their place and text, so that every run with the same sources tries the same.
 */
import { createHash } from "node:crypto";
import { type CheckResult, CheckStatus } from "@stryker-mutator/api/check";
import type { Mutant } from "@stryker-mutator/api/core";
import { declareClassPlugin, PluginKind } from "@stryker-mutator/api/plugin";

const oneIn = Number(process.env.PUSHGATE_SAMPLE);

function isTried({ fileName, location: { start }, mutatorName, replacement }: Mutant): boolean {
  const file = fileName.replace(/.*\.stryker-tmp\/[^/]*\//, "");
  const mutant = JSON.stringify([file, start.line, start.column, mutatorName, replacement]);
  return createHash("sha256").update(mutant).digest().readUInt32BE() % oneIn === 0;
}

class Sample {
  async init(): Promise<void> {}

  async check(mutants: readonly Mutant[]): Promise<Record<string, CheckResult>> {
    return Object.fromEntries(
      mutants.map((mutant) => [
        mutant.id,
        isTried(mutant)
          ? { status: CheckStatus.Passed }
          : { status: CheckStatus.CompileError, reason: "not in the sample" },
      ]),
    );
  }

  async group(mutants: readonly Mutant[]): Promise<string[][]> {
    return [mutants.map(({ id }) => id)];
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.Checker, "sample", Sample)];
