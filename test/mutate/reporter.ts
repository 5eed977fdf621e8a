/** A plugin of Stryker's: prints each mutant that no test noticed as soon as it is known. */
import type { MutantResult } from "@stryker-mutator/api/core";
import { PluginKind } from "@stryker-mutator/api/plugin";

const onMutantTested = ({ status, fileName, location, mutatorName, replacement }: MutantResult): void => {
  if (status === "Survived" || status === "NoCoverage")
    console.log(`${status}: ${fileName}:${location.start.line} ${mutatorName}: ${JSON.stringify(replacement)}`);
};

export const strykerPlugins = [{ kind: PluginKind.Reporter, name: "as-found", value: { onMutantTested } }];
