/**
 * The programs a machine runs: built in this process from source at each run, sent as a file whose name holds its hash,
 * and installed under a fixed path. The machine takes one only with that hash, so neither a cut connection nor another
 * file of that name can become the receiver or the builder. The megabyte is in no state.
 */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import type { HostLayer } from "../../apply/layer.ts";
import type { Settings } from "../../config/settings.ts";
import { sitesOf } from "../../config/sites.ts";
import { layerScript } from "../kit.ts";
import { paths, units } from "../paths.ts";

/**
 * `file`: relative to infra/, where program and plugin run: it is part of a command's input, which must be equal on every
 * machine. `sha256`: hex, of its bytes.
 */
export type Bundle = { readonly file: string; readonly sha256: string };

/** `sound`: property and value of a unit that stays up with a program it was just restarted with. */
const programs = {
  receiver: {
    /** The layer that sends it, and the layer whose units run it. */
    layer: "receiver-program",
    formerly: "bundle",
    ranBy: "receiver",
    path: paths.receiver,
    unitsOf: (_: Settings): string[] => [units.receiver],
    sound: "ActiveState=active",
  },
  builder: {
    layer: "builder-program",
    formerly: "program",
    ranBy: "builder",
    path: paths.builder,
    unitsOf: (settings: Settings): string[] => sitesOf(settings).map(({ name }) => units.build(name)),
    // It ends where nothing is to be built.
    sound: "Result=success",
  },
} as const;
export type Program = keyof typeof programs;
/** The builder only where a hook has a site. */
export type Bundles = { readonly receiver: Bundle; readonly builder?: Bundle };

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** What Debian 12's node runs; CommonJS, as Express asks for modules by `require` at run time. */
export const bundling = { bundle: true, platform: "node", target: "node18", format: "cjs" } as const;

/** The same source gives the same bytes, on any machine and in any folder. */
export function buildProgram(program: Program): Bundle {
  const built = buildSync({
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
  // A preview may run beside an up: the file is whole under its name, or not there.
  const scratch = `${root}dist/.${name}.${process.pid}`;
  writeFileSync(scratch, bytes);
  renameSync(scratch, `${root}dist/${name}`);
  return { file: `../dist/${name}`, sha256 };
}

export const buildPrograms = (settings: Settings): Bundles => ({
  receiver: buildProgram("receiver"),
  ...(sitesOf(settings).length > 0 && { builder: buildProgram("builder") }),
});

export function bundle(program: Program, settings: Settings, { sha256 }: Pick<Bundle, "sha256">): HostLayer {
  const { layer, formerly, ranBy, path, unitsOf, sound } = programs[program];
  return {
    name: layer,
    formerly,
    script: layerScript(import.meta.url, layer, {
      program,
      path,
      sha256,
      ran_by: ranBy,
      running: unitsOf(settings),
      sound,
      installed: [paths.receiver, paths.builder],
      incoming: paths.incoming,
      lib: paths.lib,
      state: paths.state,
    }),
    files: [],
    // No globs: what they matched could not be rendered again, only sent. `retire` removes it.
    owns: [],
    activate: "activate",
    restore: "restore",
    facts: [
      {
        name: `${path} is`,
        read: `sum_of "$path"; stat -c '%a %U:%G' "$path" 2>/dev/null`,
        want: `${sha256}\n644 root:root`,
      },
    ],
    retire: "retire",
    timeout: 60,
  };
}
