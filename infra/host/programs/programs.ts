/**
 * The programs of receiver, builder and reporter. esbuild makes each in every run, sendBundle sends it as a file whose name holds
 * its hash, and the host installs only a file with that hash: neither a cut connection nor another file becomes a program.
 */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { isReported, sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { layerOf } from "../kit.ts";
import { paths, units } from "../paths.ts";

/** `file`: relative to infra/, as it is part of an input that must be equal on every computer. `sha256`: hex. */
export type Bundle = { readonly file: string; readonly sha256: string };

/**
 * `isNeeded`: whether a host has it. `running`: the units that a new program restarts, which the layer of the program's name
 * declares. `sound`: property and value while they stay up.
 */
const programs = {
  receiver: { isNeeded: () => true, running: () => [units.receiver], sound: "ActiveState=active" },
  builder: {
    isNeeded: (settings: Settings) => sitesOf(settings).length > 0,
    running: (settings: Settings) => sitesOf(settings).map(({ name }) => units.build(name)),
    // A builder ends after its run.
    sound: "Result=success",
  },
  // It ends once nothing waits, and fails where a recipient rejects a result: the next result starts the new program.
  reporter: {
    isNeeded: (settings: Settings) => sitesOf(settings).some(isReported),
    running: () => [],
    sound: "Result=success",
  },
} as const;
export type Program = keyof typeof programs;
const names = Object.keys(programs) as Program[];

export const isNeeded = (program: Program, settings: Settings): boolean => programs[program].isNeeded(settings);

/** Of the programs that the hosts need. */
export type Bundles = { readonly [program in Program]?: Bundle };

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** What Debian 12's node runs; CommonJS, as Express loads modules with `require` at run time. */
export const bundling = { bundle: true, platform: "node", target: "node18", format: "cjs" } as const;

/** The same source gives the same bytes, on any computer and in any folder. */
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
  return { file: `../dist/${name}`, sha256 };
}

export async function buildPrograms(settings: Settings): Promise<Bundles> {
  const needed = names.filter((program) => isNeeded(program, settings));
  const built = await Promise.all(needed.map(async (program) => [program, await buildProgram(program)] as const));
  return Object.fromEntries(built);
}

export function programLayer(program: Program, settings: Settings, { sha256 }: Pick<Bundle, "sha256">) {
  const { sound } = programs[program];
  const running = programs[program].running(settings);
  const { incoming, lib, [program]: path } = paths;
  const installed = names.map((name) => paths[name]);
  const read = `sum_of "$path"; stat -c '%a %U:%G' "$path" 2>/dev/null`;
  return layerOf(import.meta.url, `${program}-program`, {
    values: { program, path, sha256, running, sound, installed, incoming, lib },
    // No globs: an apply removes what they match, and a program cannot be rendered again. `retire` removes it.
    facts: [{ name: `${path} is`, read, want: `${sha256}\n644 root:root` }],
  });
}
