/** A builder in this process or as the real bundle, on a site in a folder of its own. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assetExtensions, buildPaths } from "../../../infra/config/site-schema.ts";
import type { Ended } from "../../../service/builder/child.ts";
import { remove } from "../../../service/builder/files.ts";
import { makePlaces, type Places, placesOf } from "../../../service/builder/places.ts";
import { draft, type Files, seal } from "../../../service/builder/release/releases.ts";
import { buildPending, removeLeftovers } from "../../../service/builder/run/build-pending.ts";
import { pausesOf } from "../../../service/builder/run/pauses.ts";
import type { RunLine, Status } from "../../../service/builder/run/status.ts";
import type { Builder, BuilderSettings } from "../../../service/builder/settings.ts";
import { gitOf } from "../../../service/builder/source/git.ts";
import type { BuildContext } from "../../../service/builder/source/repository.ts";
import { type GitHost, startGitHost } from "../../fakes/git-host.ts";
import type { Files as PushedFiles } from "../../fakes/git-repository.ts";
import { missing } from "../../infra/host/namespace.ts";
import { anywhere, both, bundled, type Rewrite, replaced } from "../bundles.ts";
import { startFakeFetcher } from "./build/fake-fetcher.ts";
import { type Chosen, startFakeHugo } from "./build/fake-hugo.ts";
import { siteFiles, writeContent } from "./hugo-site.ts";

/** Why no site can be built here, and what to do; undefined if one can. */
export const cannotBuild = missing("git", "git-lfs", "hugo", "openssl");

export type Bench = Awaited<ReturnType<typeof benchIn>>;

/** Mounts a tmpfs there. False where it cannot, and the test is to be skipped: `cannotMount` is the reason. */
export function mountTmpfs(folder: string, options = "size=8m"): boolean {
  mkdirSync(folder, { recursive: true });
  return spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]).status === 0;
}
export const unmount = (folder: string) => void spawnSync("umount", [folder]);
export const cannotMount = "only root with CAP_SYS_ADMIN can mount";

/** A program in place of git: this script, and then the real one. Returns the PATH on which it is. */
export function gitAfter(script: string, site: Bench): string {
  const folder = join(site.folder, "bin");
  mkdirSync(folder);
  const text = `#!/bin/sh\nPATH=\${PATH#*:}\n${script}\nexec git "$@"\n`;
  writeFileSync(join(folder, "git"), text, { mode: 0o755 });
  return `${folder}:${site.builder.path}`;
}

/** What the builder's functions take, with the real git but for one command of it, which ends like this. */
export function withCommand(site: Bench, command: string, ended: Partial<Ended> = {}): BuildContext {
  const context = contextOf(site);
  const end = { code: 128, stdout: "", stderr: "", cut: false, late: false, ...ended };
  return { ...context, git: async (args, ...more) => (args.includes(command) ? end : context.git(args, ...more)) };
}

export const refsOf = ({ places }: Pick<Bench, "places">): string[] =>
  execFileSync("git", ["-C", places.clone, "for-each-ref", "--format=%(refname)"], { encoding: "utf8" })
    .trim()
    .split("\n");

/** Makes so many folders with paths as long as a path may be. */
export function fill(folder: string, count: number): void {
  const deep = join(folder, ...Array(15).fill("d".repeat(250)));
  mkdirSync(deep, { recursive: true });
  for (let i = 0; i < count; i++) mkdirSync(join(deep, `${i}`));
}

/** Makes folders in each other until no path leads to the last, which can then not be read. Only `rm -rf` removes them. */
export function nest(folder: string): void {
  const deep = `chdir "${folder}"; for (1..40) { mkdir "d" x 200; chdir "d" x 200 or die }`;
  execFileSync("perl", ["-e", deep]);
}

/** How many timers keep this process from ending. Those of Vitest may end meanwhile. */
export const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

/** The id of a release that no build of a test makes. */
export const releaseId = (number: number): string => `${String(number).padStart(6, "0")}-aaaaaaaaaaaa`;
export const manifestOf = (release: string, files: Files = new Map()) => ({
  ...{ release, commit: "a".repeat(40), at: "2026-01-01T00:00:00.000Z", pages: 1, files },
  from: { folder: "" },
});
/** Makes finished releases without files. */
export function makeReleases(places: Places, ...numbers: readonly number[]): void {
  for (const release of numbers.map(releaseId)) {
    mkdirSync(places.release(release));
    draft(places, manifestOf(release));
    seal(places, release);
  }
}

let host: Promise<GitHost> | undefined;
/** One git host for each test file. */
export const gitHost = (): Promise<GitHost> => {
  host ??= startGitHost();
  return host;
};
export async function closeGitHost(): Promise<void> {
  const closed = host;
  host = undefined;
  await (await closed)?.close();
}

/** A part of the program that a test removes: a file below service/builder, these words in it, and others instead. */
export type Without = readonly [file: string, words: string, instead: string];

/** Bundles the builder that ends, whole or without a part. Returns the file. */
export async function bundledBuilder(folder: string, ...without: readonly Without[]): Promise<string> {
  const outfile = join(folder, `builder-${without.length}.cjs`);
  const left = new Set(without.map(([file]) => `builder/${file}`));
  const found: Rewrite = (at, text) => {
    left.delete(at);
    return text;
  };
  const parts = without.map(([file, ...words]) => both(found, replaced(`builder/${file}`, ...words)));
  await bundled("builder", outfile, [anywhere, ...parts].reduce(both));
  for (const file of left) throw new Error(`the builder has no module ${file}`);
  return outfile;
}

type Environment = Readonly<Record<string, string>>;

/** A builder that ends after a failed run, and leaves its markers to the next one. */
export const endsOnFailure: Without = ["run/pauses.ts", "rests: 45_000", "rests: 0"];

/** Runs the bundle without these parts, until its end or its first failure: `finish` has what it returns. */
export const runWithout = async (site: Bench, without: readonly Without[], env: Environment = {}) =>
  finish(site, start(site, await bundledBuilder(site.folder, endsOnFailure, ...without), env));

/** Starts the bundle on a site. */
export function start(site: Bench, bundle: string, extra: Environment = {}, ...args: readonly string[]): ChildProcess {
  const file = join(site.folder, "builder.json");
  writeFileSync(file, JSON.stringify(site.builder.settings));
  const env = { PATH: process.env.PATH, PUSHGATE_SETTINGS: file, GIT_SSL_CAINFO: site.builder.authorities, ...extra };
  return spawn(process.execPath, [bundle, ...args], { env, timeout: 120_000, stdio: ["ignore", "pipe", "pipe"] });
}

/** Waits until the program ends. Returns status.json, and what the program said. */
export async function finish(site: Bench, child: ChildProcess) {
  let said = "";
  for (const output of [child.stdout, child.stderr])
    output?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  const [code] = await once(child, "close");
  if (code !== 0) throw new Error(`the builder ended with ${code}: ${said}`);
  return { ...site.status(), said };
}

let counter = 0;
const nextName = () => `site-${++counter}`;

export type Change = Partial<BuilderSettings> & {
  /** The program in place of Hugo. */
  readonly hugo?: string;
  readonly chosen?: Chosen;
  readonly fetches?: Pick<BuilderSettings["fetcher"], "registries" | "node">;
  /** The repository has the content; there is no folder outside it. */
  readonly ownContent?: boolean;
  /** The folder that holds the site's own. */
  readonly parent?: string;
  readonly limit?: Partial<BuilderSettings["limits"]>;
};

/** A site of three pages, pushed as revision 1, with nothing published. */
export async function bench({ parent = tmpdir(), limit, ...own }: Change = {}): Promise<Bench> {
  const host = await gitHost();
  const name = nextName();
  host.repository(name).push(siteFiles(1));
  const folder = mkdtempSync(join(parent, "pushgate-builder-"));
  for (const place of ["spool", "requests", "root", "content"]) mkdirSync(join(folder, place));
  writeContent(join(folder, "content"));
  return benchIn(folder, host, name, {
    ...{ paths: buildPaths, folders: [], assets: assetExtensions, submodules: true, reconcileMinutes: 15 },
    limits: { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 30, ...limit },
    ...own,
  });
}

/** The same, with all revisions up to this one published. */
export async function published(revision: number, change: Change = {}): Promise<Bench> {
  const site = await bench(change);
  for (let now = 1; now <= revision; now += 1) {
    if (now > 1) site.repository.push(siteFiles(now));
    const { last } = await site.delivered();
    if (last.result !== "published") throw new Error(`revision ${now}: ${last.result}: ${last.reason}`);
  }
  return site;
}

/** A copy of a site and its repository, which is faster than publishing again. */
export async function copyOf({ folder, repository, builder }: Bench): Promise<Bench> {
  const host = await gitHost();
  const name = nextName();
  const copy = mkdtempSync(join(tmpdir(), "pushgate-builder-"));
  execFileSync("cp", ["-a", `${folder}/.`, copy]);
  execFileSync("cp", ["-a", repository.folder, join(host.folder, `${name}.git`)]);
  // They name the content folder, and another one would be built anew.
  const manifests = join(copy, "site/work/manifests");
  for (const name of readdirSync(manifests)) {
    const file = join(manifests, name);
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(folder, copy));
  }
  return benchIn(copy, host, name, builder.settings);
}

async function benchIn(
  folder: string,
  host: GitHost,
  name: string,
  {
    hugo,
    chosen,
    fetches = { registries: { go: "https://127.0.0.1:1", npm: "https://127.0.0.1:1" } },
    ownContent,
    ...own
  }: Omit<Change, "parent" | "limit"> &
    Pick<BuilderSettings, "paths" | "folders" | "assets" | "submodules" | "reconcileMinutes" | "limits">,
) {
  const at = (place: string) => join(folder, place);
  const settings: BuilderSettings = {
    ...own,
    generator: { socket: at("hugo.sock"), result: at("hugo.result") },
    fetcher: { socket: at("fetcher.sock"), result: at("fetcher.result"), ...fetches },
    ...{ hook: "site", repository: host.url(name), branch: "main" },
    ...{ spool: at("spool"), requests: at("requests"), rootRequests: at("root"), site: at("site") },
    ...(!ownContent && { content: at("content") }),
  };
  const builder: Builder = { settings, path: process.env.PATH ?? "", authorities: host.caFile };
  const places = placesOf(settings);
  const fake = await startFakeHugo(settings, hugo, chosen);
  const fetcher = await startFakeFetcher(settings);
  const journal: RunLine[] = [];
  const repository = host.repository(name);
  let delivery = 0;
  const deliver = () => writeFileSync(join(at("spool"), `delivery-${++delivery}.json`), "{}\n");
  const request = (folder: string, name: string) => {
    writeFileSync(at(".new"), "");
    renameSync(at(".new"), join(at(folder), name));
  };
  const status = () => JSON.parse(readFileSync(places.status, "utf8")) as Status;
  /** Pushes these files, of which a delivery arrives. Returns the commit. */
  const push = (files: PushedFiles): string => {
    const commit = repository.push(files);
    deliver();
    return commit;
  };
  /** As main.ts does, until nothing is pending or until the first failure, without pauses. Returns status.json. */
  const work = async (as = builder) => {
    makePlaces(places);
    removeLeftovers(places);
    const context = contextOf({ builder: as, places });
    let failed = false;
    const write = (entry: RunLine) => {
      failed ||= entry.failing !== undefined && !entry.trigger.some((name) => name.startsWith("rollback-"));
      journal.push(entry);
    };
    await buildPending(context, write, { ...pausesOf(as.settings), first: 0, least: 0 }, async () => !failed);
    return status();
  };
  return {
    ...{ folder, places, builder, journal, status, repository, deliver, push, work },
    content: at("content"),
    /** Of a member of the writers' group; the others are of root. */
    request: (name: string) => request("requests", name),
    tick: () => request("root", "tick"),
    scheduled: () => request("root", "schedule"),
    rollback: (release: string) => request("root", `rollback-${release}`),
    /** The same after a delivery, and after a push of these files. */
    delivered: (as = builder) => {
      deliver();
      return work(as);
    },
    pushed: (files: PushedFiles) => {
      push(files);
      return work();
    },
    /** As the web server reads it. */
    page: (path = "index.html") => readFileSync(join(places.current, path), "utf8"),
    published: () => (readdirSync(places.current, { recursive: true }) as string[]).sort(),
    remove: () => {
      fake.close();
      fetcher.close();
      remove(folder);
    },
  };
}

/** What the builder's own functions take. `limits`: others than the site's. */
export const contextOf = (
  { builder, places }: { readonly builder: Builder; readonly places: Places },
  limits: Partial<BuilderSettings["limits"]> = {},
): BuildContext => {
  const { settings } = builder;
  return { settings: { ...settings, limits: { ...settings.limits, ...limits } }, places, git: gitOf(builder) };
};
