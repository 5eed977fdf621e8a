/** Prepares what a program needs before it opens a lab. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findEngine, installEngine } from "../engine/install-engine.ts";
import { type Release, releases } from "./lab/image.ts";
import { labIsMissing } from "./lab/lab.ts";
import { run, step } from "./lab/process.ts";

export const isRelease = (word: string): word is Release => (releases as readonly string[]).includes(word);

/** Builds Pulumi's engine if it is missing: four minutes, once. */
export async function engineReady(): Promise<void> {
  if (!findEngine()) await step("build the engine", async () => void (await installEngine()));
}

const root = new URL("../..", import.meta.url).pathname;

/** Fills npm's cache with what `npm ci` of this project reads, because a lab has no network. */
export async function npmReady(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-packages-"));
  for (const name of ["package.json", "package-lock.json", ".npmrc"]) cpSync(join(root, name), join(folder, name));
  // With --prefix npm would also look for the computer's own settings elsewhere.
  const words = ["-C", folder, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"];
  await step("fill npm's cache", () => run("env", words, { timeout: 300_000 }));
  rmSync(folder, { recursive: true });
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
