/** Prepares what a program needs before it opens a lab. */
import { findEngine, installEngine } from "../engine/install-engine.ts";
import { type Release, releases } from "./lab/image.ts";
import { labIsMissing } from "./lab/lab.ts";
import { step } from "./lab/process.ts";

export const isRelease = (word: string): word is Release => (releases as readonly string[]).includes(word);

/** Builds Pulumi's engine if it is missing: four minutes, once. */
export async function engineReady(): Promise<void> {
  if (!findEngine()) await step("build the engine", async () => void (await installEngine()));
}

/** Exits with status 2 and prints the reason if this computer cannot run a lab or the release is unknown. */
export async function ready(program: string, release: string): Promise<Release> {
  const fault = isRelease(release) ? labIsMissing() : `${release} is none of ${releases.join(", ")}`;
  if (fault !== undefined) {
    console.error(`${program}: ${fault}`);
    process.exit(2);
  }
  await engineReady();
  return release as Release;
}
