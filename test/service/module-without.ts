/** A module of service/ with words of its bundle replaced, to test what they protect from. */
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundling } from "../../infra/host/programs/programs.ts";

type Words = readonly [words: string, instead: string];

/** `folder`: where it is written. */
export async function moduleWithout<T>(module: string, folder: string, changes: readonly Words[]): Promise<T> {
  const entry = fileURLToPath(new URL(`../../service/${module}`, import.meta.url));
  let { text } = (await build({ ...bundling, entryPoints: [entry], write: false })).outputFiles[0]!;
  for (const [words, instead] of changes) {
    if (!text.includes(words)) throw new Error(`the bundle has no longer: ${words}`);
    text = text.replace(words, instead);
  }
  const file = join(folder, `without-${changes.length}-${Date.now()}.cjs`);
  writeFileSync(file, text);
  return createRequire(import.meta.url)(file);
}
