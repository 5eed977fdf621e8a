/**
 * The receiver's and the builder's program. esbuild makes each in every run, sendBundle sends it as a file whose name holds
 * its hash, and the host installs only a file with that hash: neither a cut connection nor another file becomes a program.
 */
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import type { HostLayer } from "../../apply/layer.ts";
import { sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { layerOf } from "../kit.ts";
import { paths, units } from "../paths.ts";

/** `file`: relative to infra/, as it is part of an input that must be equal on every computer. `sha256`: hex. */
export type Bundle = { readonly file: string; readonly sha256: string };

/** The layer of a program's name declares the units that run it. `sound`: property and value while they stay up. */
const programs = {
  receiver: { sound: "ActiveState=active" },
  // A builder ends where it cannot wait, and starts again for the next push.
  builder: { sound: "Result=success" },
} as const;
export type Program = keyof typeof programs;

/** A builder exists only where a hook has a site. */
export type Bundles = { readonly receiver: Bundle; readonly builder?: Bundle };

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
  const hasSites = sitesOf(settings).length > 0;
  const [receiver, builder] = await Promise.all([buildProgram("receiver"), hasSites && buildProgram("builder")]);
  return { receiver, ...(builder && { builder }) };
}

export function programLayer(program: Program, settings: Settings, { sha256 }: Pick<Bundle, "sha256">): HostLayer {
  const { sound } = programs[program];
  const { incoming, lib, [program]: path } = paths;
  const installed = [paths.receiver, paths.builder];
  const running = program === "receiver" ? [units.receiver] : sitesOf(settings).map(({ name }) => units.build(name));
  return layerOf(import.meta.url, `${program}-program`, {
    values: { program, path, sha256, running, sound, installed, incoming, lib },
    // No globs: an apply removes what they match, and a program cannot be rendered again. `retire` removes it.
    facts: [
      {
        name: `${path} is`,
        read: `sum_of "$path"; stat -c '%a %U:%G' "$path" 2>/dev/null`,
        want: `${sha256}\n644 root:root`,
      },
    ],
  });
}
