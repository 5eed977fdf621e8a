/** The programs. esbuild makes each in every run, and the host installs only a file with its hash. */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { Bundle } from "../../apply/ship.ts";
import { isReported, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { layerOf } from "../kit.ts";
import { paths, units } from "../paths.ts";

export const programNames = ["receiver", "builder", "reporter"] as const;
export type Program = (typeof programNames)[number];

export const isNeeded = (program: Program, settings: Settings): boolean =>
  program === "receiver" || sitesOf(settings).some((hook) => program === "builder" || isReported(hook));

/** The units that a new program restarts. A reporter fails where a recipient rejects a result: the next one starts it. */
const running: Record<Program, (settings: Settings) => string[]> = {
  receiver: () => [units.receiver],
  builder: (settings) => sitesOf(settings).map(({ name }) => units.build(name)),
  reporter: () => [],
};

export type Bundles = { readonly [program in Program]?: Bundle };

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** What Debian 12's node runs; CommonJS, as Express loads modules with `require` at run time. */
export const bundling = { bundle: true, platform: "node", target: "node18", format: "cjs" } as const;

export async function buildProgram(program: Program): Promise<Bundle> {
  const built = await build({
    absWorkingDir: root,
    entryPoints: [`service/${program}/main.ts`],
    ...bundling,
    legalComments: "inline",
    logLevel: "silent",
    write: false,
  });
  const bytes = built.outputFiles[0]!.contents;
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const name = `${program}-${sha256.slice(0, 16)}.cjs`;
  mkdirSync(`${root}dist`, { recursive: true });
  // A preview may run beside an up: the file is complete under its name, or missing.
  const scratch = `${root}dist/.${name}.${process.pid}`;
  writeFileSync(scratch, bytes);
  renameSync(scratch, `${root}dist/${name}`);
  return { file: `../dist/${name}`, sha256, bytes: bytes.length };
}

export async function buildPrograms(settings: Settings): Promise<Bundles> {
  const needed = programNames.filter((program) => isNeeded(program, settings));
  const built = await Promise.all(needed.map(async (program) => [program, await buildProgram(program)] as const));
  return Object.fromEntries(built);
}

export function programLayer(program: Program, settings: Settings, { sha256 }: Pick<Bundle, "sha256">) {
  const { incoming, lib, [program]: path } = paths;
  const read = `sum_of "$path"; stat -c '%a %U:%G' "$path" 2>/dev/null`;
  return layerOf(import.meta.url, `${program}-program`, {
    values: { program, path, sha256, running: running[program](settings), incoming, lib },
    // No globs: an apply removes what they match, and a program cannot be rendered again. `retire` removes it.
    facts: [{ name: `${path} is`, read, want: `${sha256}\n644 root:root` }],
  });
}
