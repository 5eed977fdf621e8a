/** The clone: made, fetched, compared, checked out. The builder removes a broken clone and fetches it again. */
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isAmong } from "../../branches.ts";
import { publicDomains } from "../../git-hosts/repository.ts";
import { tried } from "../../tried.ts";
import { measure, onDisk } from "../build/disk.ts";
import type { Ended } from "../child.ts";
import { below, counting, eachName, few, isUnder, readText, remove, tooMany, walk } from "../files.ts";
import type { Places } from "../places.ts";
import { readManifest, releases } from "../release/releases.ts";
import { failed, listed, mebibytes, rejected, Setback, setbackOf } from "../run/setback.ts";
import type { BuilderSettings } from "../settings.ts";
import type { Git } from "./git.ts";
import { lastLine, remoteFault, submoduleFault } from "./git-faults.ts";

export type BuildContext = {
  readonly settings: BuilderSettings;
  readonly places: Places;
  readonly git: Git;
  /** Gets each `step` of a build when it begins, and what its unit prints as `output`. */
  readonly progress?: (entry: Readonly<Partial<Record<"hook" | "commit" | "step" | "output", string>>>) => void;
};

/** Where the branch was at the last fetch; and the branches that have previews. */
const head = "refs/pushgate/head";
const branches = "refs/pushgate/branches";

/** An error of git that a broken clone may have caused. */
export class CloneFault extends Error {}

/** Of a command that failed. `what`: of git, where neither the remote nor the disk is the cause. */
export function gitFault(ended: Ended, settings: BuilderSettings, what: string): Error {
  const fault = remoteFault(ended, settings);
  return fault ? failed(fault) : new CloneFault(`git cannot ${what}: ${lastLine(ended.stderr)}`);
}

async function makeClone({ places, git, settings }: BuildContext, format?: string): Promise<void> {
  if (existsSync(join(places.clone, ".git", "HEAD"))) return;
  discardClone(places);
  const half = `${places.clone}.new`;
  const how = format === undefined ? [] : [`--object-format=${format}`];
  const init = await git(["init", "--quiet", ...how, half], places.work);
  if (init.code !== 0) throw failed(remoteFault(init, settings) ?? `git cannot make a clone: ${lastLine(init.stderr)}`);
  // The generator's account reads the files beside .git.
  chmodSync(join(half, ".git"), 0o700);
  renameSync(half, places.clone);
}

export function discardClone({ checkedOut, clone, history, lfs }: Places): void {
  for (const path of [checkedOut, clone, `${clone}.new`, history, lfs]) remove(path);
}

/** Removes what a killed git left; temporary packs only with `objects`, since a look at all of them takes time. */
export function removeHalfCheckout(places: Places, objects = false): void {
  const { clone, checkedOut } = places;
  const git = join(clone, ".git");
  const skip = (path: string) => !objects && /(^|\/)objects$/.test(path);
  try {
    const left = walk(git, few(tooMany, skip)).files.filter((path) => /\.lock$|(^|\/)gc\.pid$|\/tmp_/.test(path));
    for (const path of left) remove(join(git, path));
    if (!existsSync(checkedOut)) removeCheckout(places);
  } catch (error) {
    if (error instanceof Setback) discardClone(places);
    else if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

function removeCheckout({ clone }: Places): void {
  for (const name of eachName(clone))
    if (name.toString() !== ".git") remove(Buffer.concat([Buffer.from(`${clone}/`), name]));
  remove(join(clone, ".git", "index"));
}

/** Of a pattern without `*` the branch need not exist. Requests for merging, which may be of a fork, are no branches. */
function refspecsOf({ branch, previews }: BuilderSettings): string[] {
  if (previews === undefined) return [`+refs/heads/${branch}:${head}`];
  const patterns = previews.branches.map((pattern) => (pattern.includes("*") ? pattern : `${pattern}*`));
  return [...patterns.map((pattern) => `+refs/heads/${pattern}:${branches}/${pattern}`), `^refs/heads/${branch}`];
}

/**
 * The heads of branches that have previews, those with the newest commits first. Of the site's own branch the clone has a
 * former head, where it had a preview before: git neither updates nor prunes what a negative refspec excludes.
 */
export async function branchHeads({ git, settings }: BuildContext) {
  const format = "--format=%(objectname) %(refname:lstrip=3)";
  const { code, stdout, stderr } = await git(["for-each-ref", "--sort=-committerdate", format, branches]);
  if (code !== 0) throw new CloneFault(`git cannot list the branches: ${lastLine(stderr)}`);
  const heads = [...stdout.matchAll(/^(\S+) (.+)$/gm)].map(([, commit = "", branch = ""]) => ({ branch, commit }));
  const { branch: own, previews } = settings;
  return heads.filter(({ branch }) => branch !== own && isAmong(branch, previews?.branches ?? []));
}

/** Fetches the branch with its whole history, and returns the commit of its head; "" for previews, of which it fetches all. Throws Setback, CloneFault. */
export async function fetchHead(context: BuildContext, format?: string): Promise<string> {
  const { settings, places, git } = context;
  await makeClone(context, format);
  // systemd starts the agent beside the builder. Its socket is there when it has the deploy key.
  const until = Date.now() + 10_000;
  while (settings.agent !== undefined && !existsSync(settings.agent) && Date.now() < until) await sleep(5);
  const what = [settings.repository, ...refspecsOf(settings)];
  const fetch = await git(["fetch", "--quiet", "--no-tags", "--force", "--prune", "--", ...what]);
  if (fetch.code !== 0) {
    // git fetches only into a clone whose commits have the same kind of ids.
    const [, server] = /^fatal: mismatched algorithms: client \w+; server (sha1|sha256)$/m.exec(fetch.stderr) ?? [];
    if (server !== undefined && format === undefined) {
      discardClone(places);
      return fetchHead(context, server);
    }
    throw gitFault(fetch, settings, "fetch");
  }
  if (settings.previews !== undefined) return "";
  return readFileSync(join(places.clone, ".git", "FETCH_HEAD"), "utf8").split("\t")[0]!;
}

/** The branch's head at the last fetch; null without one, or without a clone. */
export async function lastHead({ git }: BuildContext): Promise<string | null> {
  const { code, stdout } = await git(["rev-parse", "--verify", "--quiet", `${head}^{commit}`]);
  return code === 0 ? stdout.trim() : null;
}

/**
 * Rejects a commit that is larger than a release may be, before git compares it or checks it out: git holds all of its
 * paths in memory then, and 200 KiB of nested folders have 100 million of them. ls-tree prints them one by one.
 */
export async function admit({ git, settings: { limits } }: BuildContext, commit: string): Promise<void> {
  const list = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit];
  const { code, cut, stdout, stderr } = await git(list);
  if (!cut && code !== 0) throw new CloneFault(`git cannot list the commit: ${lastLine(stderr)}`);
  const fits = counting();
  let [bytes, isMany] = [0, cut];
  // Mode, type, name and size, which is a hyphen for a submodule; then the path, which may be long.
  for (let at = 0; at < stdout.length && !isMany; ) {
    const [tab, end] = [stdout.indexOf("\t", at), stdout.indexOf("\0", at)];
    bytes += onDisk(Number(stdout.slice(at, tab).split(/ +/)[3]) || 0);
    isMany = !fits(stdout.slice(tab + 1, end));
    at = end + 1;
  }
  if (isMany) throw rejected(`the commit ${commit.slice(0, 12)} has ${tooMany}. Remove files.`);
  if (bytes <= limits.releaseBytes) return;
  throw rejected(
    `the commit ${commit.slice(0, 12)} is too large: its files take ${mebibytes(bytes)} MiB on the disk, and may take ${mebibytes(limits.releaseBytes)}. Remove files, or raise hooks[].site.limits.releaseMiB.`,
  );
}

/** `folders`: those of the former commit. */
export type Changes =
  | { readonly paths: readonly string[]; readonly folders: ReadonlySet<string> }
  | { readonly unknown: string };

export async function changes({ git }: BuildContext, from: string, to: string): Promise<Changes> {
  // All at once: each takes 5 ms, most of it the start of a process.
  const [ancestor, diff, tree] = await Promise.all([
    git(["merge-base", "--is-ancestor", from, to]),
    git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", from, to]),
    git(["ls-tree", "-r", "-d", "-z", "--full-tree", "--name-only", from]),
  ]);
  const short = from.slice(0, 12);
  if (diff.cut) return { unknown: "too many files changed to compare" };
  if (ancestor.code === 1) return { unknown: `the history was rewritten: ${short} is no ancestor of the head` };
  if (ancestor.code !== 0 || diff.code !== 0) return { unknown: `the published commit ${short} is not in the clone` };
  // With a list that is cut short, or empty, more is built.
  return { paths: diff.stdout.split("\0").filter(Boolean), folders: new Set([".", ...tree.stdout.split("\0")]) };
}

/** Checks a commit out without its links, and returns what it has. Rejects a commit that tracks the content. */
export async function checkOut(context: BuildContext, commit: string) {
  const { places } = context;
  const isOther = existsSync(places.checkedOut);
  remove(places.checkedOut);
  await removeFormerModules(context, commit);
  try {
    return await checkOutOver(context, commit);
  } catch (error) {
    if (!isOther || setbackOf(error).result === "rejected") throw error;
    // What another commit left may be in the way: git fails where a submodule of a submodule has a new name.
    removeModules(places);
    return checkOutOver(context, commit);
  }
}

async function checkOutOver(context: BuildContext, commit: string) {
  const { settings, places, git } = context;
  // Git LFS has its server at the address of the repository.
  const read = await git(["-c", `remote.origin.url=${settings.repository}`, "read-tree", "--reset", "-u", commit]);
  if (read.code !== 0) throw gitFault(read, settings, "check the commit out");
  const list = async (...how: readonly string[]): Promise<string[]> => {
    const { code, cut, stdout, stderr } = await git(["ls-files", "-z", "--stage", ...how]);
    if (code !== 0 && !cut) throw new CloneFault(`git cannot list the files: ${lastLine(stderr)}`);
    const found = stdout.split("\0");
    const fits = counting();
    if (!cut && found.every((line) => fits(pathOf(line)))) return found;
    throw rejected(`the commit ${commit.slice(0, 12)} with its submodules has ${tooMany}. Remove files.`);
  };
  const pathOf = (line: string): string => line.slice(line.indexOf("\t") + 1);
  let lines = await list();
  const hasSubmodules = lines.some((line) => line.startsWith("160000 "));
  const modules = lines.find((line) => line.endsWith("\t.gitmodules"))?.split(" ")[1];
  if (settings.submodules && hasSubmodules) writeFileSync(modulesOf(places), modules ?? "");
  if (settings.submodules) await updateSubmodules(context, hasSubmodules);
  if (settings.submodules && hasSubmodules) lines = await list("--recurse-submodules");
  const links = lines.filter((line) => line.startsWith("120000 ")).map(pathOf);
  const files = lines.filter((line) => line.startsWith("100")).map(pathOf);
  // A link named content, to a writer's own folder, is left out as any other link.
  const top = join(settings.folder ?? "", "content");
  const content = lines.map(pathOf).filter((path) => isUnder(path, top) && !path.endsWith("/.gitkeep"));
  const owned = content.filter((path) => !(path === top && links.includes(path)));
  if (settings.content !== undefined && owned.length > 0)
    throw rejected(
      `the commit tracks ${listed(owned, 3)}, but the content is in ${settings.content} and belongs to its writers. Run git rm -r --cached ${top}, and add ${top} to .gitignore; or remove hooks[].site.content.`,
    );
  for (const link of links) remove(join(places.clone, link));
  if (settings.folder !== undefined) needFolder(places, settings.folder, commit, lines.map(pathOf));
  return { links, files };
}

/** Root mounts it, so no link may lead there. One that the commit lacks may still be there, with the build's stats. */
function needFolder({ clone }: Places, folder: string, commit: string, tracked: readonly string[]): void {
  const isThere = tried(() => below(clone, folder, () => true));
  if (isThere && tracked.some((path) => isUnder(path, folder))) return;
  throw rejected(`the commit ${commit.slice(0, 12)} has no folder ${folder}. Correct hooks[].site.folder.`);
}

/** Holds the commits of the releases, for a rollback. */
const kept = "refs/pushgate/kept";

/** Removes what forced pushes left, where that is a fifth of a clone that is larger than a release may be. */
export async function pruneClone({ git, places, settings: { limits } }: BuildContext): Promise<void> {
  const { bytes } = await measure(join(places.clone, ".git"));
  if (bytes <= limits.releaseBytes) return;
  const commits = releases(places).flatMap((id) => readManifest(places, id)?.commit ?? []);
  for (const commit of commits) await git(["update-ref", `${kept}/${commit}`, commit]);
  const { stdout } = await git(["for-each-ref", "--format=%(refname)", kept]);
  const former = stdout.split("\n").filter((ref) => ref !== "" && !commits.some((commit) => ref.endsWith(commit)));
  for (const ref of former) await git(["update-ref", "-d", ref]);
  const used = await git(["rev-list", "--disk-usage", "--objects", "--all"]);
  if (used.code !== 0 || Number(used.stdout) > 0.8 * bytes) return;
  await git(["reflog", "expire", "--expire=now", "--all"]);
  await git(["gc", "--quiet", "--prune=now"]);
}

/** The name of the .gitmodules whose submodules the clone keeps. */
const modulesOf = ({ clone }: Places) => join(clone, ".git", "pushgate-modules");

/** git never removes what it keeps of a submodule that left, and fails where another takes its place. */
async function removeFormerModules({ git, places, settings }: BuildContext, commit: string): Promise<void> {
  if (!existsSync(join(places.clone, ".git/modules"))) return;
  const { stdout } = await git(["rev-parse", "--verify", "--quiet", `${commit}:.gitmodules`]);
  if (!settings.submodules || stdout === "" || readText(modulesOf(places)) !== stdout.trim()) removeModules(places);
}

function removeModules(places: Places): void {
  remove(join(places.clone, ".git/modules"));
  removeCheckout(places);
}

/** What a public git host shows to all it shows over https without a key, which SSH requires. */
const overHttps = () =>
  Object.values(publicDomains).flatMap((host) =>
    [`git@${host}:`, `ssh://git@${host}/`].flatMap((from) => ["-c", `url.https://${host}/.insteadOf=${from}`]),
  );

/** git's environment and the egress table limit what the addresses in .gitmodules reach. */
async function updateSubmodules({ git, places, settings }: BuildContext, hasSubmodules: boolean): Promise<void> {
  const update = ["submodule", "--quiet", "update", "--init", "--recursive", "--force"];
  const steps = [
    // Relative addresses begin at this one. The clone's own configuration has it, as a submodule's begin at its own.
    [["config", "remote.origin.url", settings.repository]],
    [["submodule", "--quiet", "sync", "--recursive"]],
    // A deploy key may open more than its own repository.
    [...(settings.agent === undefined ? [] : [update]), [...overHttps(), ...update]],
  ];
  // A submodule that a commit removed leaves its folder.
  const clean = hasSubmodules || existsSync(join(places.clone, ".git/modules")) ? [[["clean", "-ffdxq"]]] : [];
  for (const [first = [], other] of [...(hasSubmodules ? steps : []), ...clean]) {
    let done = await git(first);
    if (other && /Could not read from remote repository/.test(done.stderr)) done = await git(other);
    if (done.code !== 0) throw failed(submoduleFault(done, settings));
  }
}
