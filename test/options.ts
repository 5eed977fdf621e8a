/** The options of `npm run <program>`. A wrong one, and one that npm has kept for itself, ends the program with 2. */
import { type ParseArgsConfig, parseArgs } from "node:util";
import { keptByNpm } from "../infra/cli/command.ts";

export function misused(program: string, says: string): never {
  console.error(`${program}: ${says}`);
  process.exit(2);
}

/** `more`: names of options that another program reads. */
export function optionsOf<const T extends ParseArgsConfig["options"] & {}>(program: string, options: T, more = "") {
  try {
    keptByNpm([...Object.keys(options), ...more.split(" ")], `npm run ${program} --`, process.env);
    return parseArgs({ options }).values;
  } catch (error) {
    return misused(program, (error as Error).message);
  }
}
