/** The programs. esbuild makes each in every run, and the host installs only a file with its hash. */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type Sent, sentFile } from "../../apply/dist.ts";
import { sitesOf } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { paths } from "../paths.ts";

export const programNames = ["receiver", "builder", "fetcher", "reporter"] as const;
export type Program = (typeof programNames)[number];

/** Empty for a probe, which knows none. */
export type ProgramHashes = { readonly [program in Program]?: Pick<Sent, "sha256"> };
export type Bundles = { readonly [program in Program]?: Sent };

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** What Debian 12's node runs; CommonJS, as Express loads modules with `require` at run time. */
export const bundling = { bundle: true, platform: "node", target: "node18", format: "cjs" } as const;

export async function buildProgram(program: Program): Promise<Sent> {
  const built = await build({
    absWorkingDir: root,
    entryPoints: [`service/${program}/main.ts`],
    ...bundling,
    legalComments: "inline",
    logLevel: "silent",
    write: false,
  });
  return sentFile(program, "cjs", built.outputFiles[0]!.contents);
}

export async function buildPrograms(settings: Settings): Promise<Bundles> {
  const needed = programNames.filter((program) => program === "receiver" || sitesOf(settings).length > 0);
  const built = await Promise.all(needed.map(async (program) => [program, await buildProgram(program)] as const));
  return Object.fromEntries(built);
}

export const programsFact = (names: readonly Program[]): string => `the ${names.join(", ")} in ${paths.lib}`;

/** The parts of a layer that installs these programs. */
export function programsOf(names: readonly Program[], made: ProgramHashes) {
  // A layer that leaves sends none.
  const programs = names.map((name) => [paths[name], made[name]?.sha256 ?? "none"] as const);
  const values = { programs: programs.map((pair) => pair.join(":")), incoming: paths.incoming };
  const all = programs.map(([path]) => path).join(" ");
  const want = [
    ...programs.map(([path, sha256]) => `${sha256}  ${path}`),
    ...programs.map(([path]) => `${path} 644 root:root`),
  ];
  const facts = [{ name: programsFact(names), read: `sha256sum ${all}; modes ${all}`, want: want.join("\n") }];
  // No globs: an apply removes what they match, and a program cannot be rendered again. `retire` removes it.
  return { values, facts, shared: ["programs/programs.sh"] };
}
