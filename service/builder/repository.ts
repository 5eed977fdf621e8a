/** The clone: made, fetched, compared, checked out. The builder removes a broken clone and fetches it again. */
import { chmodSync, lstatSync, readdirSync, readFileSync, renameSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { ifThere, isUnder, remove, syncFolder, walk } from "./files.ts";
import type { Git } from "./git.ts";
import { lastLine, remoteFault } from "./git-faults.ts";
import type { Places } from "./places.ts";
import { diskFull, failed, listed, rejected } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

export type Site = { readonly settings: BuilderSettings; readonly places: Places; readonly git: Git };

/** The only ref: where the branch was at the last fetch. */
const head = "refs/pushgate/head";

/** An error of git that a broken clone may have caused. */
export class CloneFault extends Error {}

const isThere = ({ clone }: Places): boolean => ifThere(() => lstatSync(join(clone, ".git", "HEAD"))) !== undefined;

async function makeClone({ places, git, settings }: Site): Promise<void> {
  if (isThere(places)) return;
  discard(places);
  const half = `${places.clone}.new`;
  const init = await git(["init", "--quiet", "--template=", half], places.work);
  if (init.code !== 0) throw failed(remoteFault(init, settings) ?? `git can't make a clone: ${lastLine(init.stderr)}`);
  // hugo's account reads the files beside it.
  chmodSync(join(half, ".git"), 0o700);
  renameSync(half, places.clone);
}

export function discard({ checkedOut, clone }: Places): void {
  for (const path of [checkedOut, clone, `${clone}.new`]) remove(path);
}

/** Removes what a killed git left: locks, temporary packs, and the files of a checkout that did not end. */
export function removeHalfCheckout({ clone, checkedOut }: Places): void {
  const git = join(clone, ".git");
  const left = ifThere(() => walk(git))?.files.filter((path) => /\.lock$|(^|\/)gc\.pid$|\/tmp_/.test(path)) ?? [];
  for (const path of left) remove(join(git, path));
  if (ifThere(() => lstatSync(checkedOut))) return;
  for (const name of ifThere(() => readdirSync(clone)) ?? []) if (name !== ".git") remove(join(clone, name));
  remove(join(git, "index"));
}

/** Fetches the branch with its whole history, and returns the commit of its head. Throws Setback, CloneFault. */
export async function fetchHead(site: Site): Promise<string> {
  const { settings, places, git } = site;
  await makeClone(site);
  const refspec = `+refs/heads/${settings.branch}:${head}`;
  const fetch = await git(["fetch", "--quiet", "--no-tags", "--force", "--", settings.repository, refspec]);
  if (fetch.code !== 0) {
    const fault = remoteFault(fetch, settings);
    throw fault ? failed(fault) : new CloneFault(`git can't fetch: ${lastLine(fetch.stderr)}`);
  }
  const commit = /^[0-9a-f]{40,64}/.exec(readFileSync(join(places.clone, ".git", "FETCH_HEAD"), "utf8"))?.[0];
  if (commit === undefined) throw new CloneFault("git fetched nothing");
  return commit;
}

export async function lastHead({ git, places }: Site): Promise<string | null> {
  if (!isThere(places)) return null;
  const { code, stdout } = await git(["rev-parse", "--verify", "--quiet", `${head}^{commit}`]);
  return code === 0 ? stdout.trim() : null;
}

export type Changes = { readonly paths: readonly string[] } | { readonly unknown: string };

/** The paths in which two commits differ, or why they are unknown. */
export async function changes({ git }: Site, from: string, to: string): Promise<Changes> {
  // At once: each takes 5 ms, most of it the start of a process.
  const [ancestor, diff] = await Promise.all([
    git(["merge-base", "--is-ancestor", from, to]),
    git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", from, to]),
  ]);
  const short = from.slice(0, 12);
  if (diff.cut) return { unknown: "too many files changed to compare" };
  if (ancestor.code === 1) return { unknown: `the history was rewritten: ${short} is no ancestor of the head` };
  if (ancestor.code !== 0 || diff.code !== 0) return { unknown: `the published commit ${short} is not in the clone` };
  return { paths: diff.stdout.split("\0").filter(Boolean) };
}

/** Checks a commit out without its links, and returns their names. Rejects a commit that tracks the content. */
export async function checkOut(site: Site, commit: string): Promise<readonly string[]> {
  const { settings, places, git } = site;
  remove(places.checkedOut);
  syncFolder(places.work);
  const read = await git(["read-tree", "--reset", "-u", commit]);
  if (read.code !== 0) throw checkoutFault(places, read.stderr);
  if (settings.submodules) await updateSubmodules(site);
  const stage = ["ls-files", "-z", "--stage", ...(settings.submodules ? ["--recurse-submodules"] : [])];
  const tracked = await git(stage);
  if (tracked.code !== 0 || tracked.cut) throw new CloneFault(`git can't list the files: ${lastLine(tracked.stderr)}`);
  const lines = tracked.stdout.split("\0");
  const pathOf = (line: string): string => line.slice(line.indexOf("\t") + 1);
  const links = lines.filter((line) => line.startsWith("120000 ")).map(pathOf);
  // A link named content, to a writer's own folder, is left out as any other link.
  const content = lines.map(pathOf).filter((path) => isUnder(path, "content") && !path.endsWith("/.gitkeep"));
  const owned = content.filter((path) => !(path === "content" && links.includes(path)));
  if (owned.length > 0)
    throw rejected(
      `the commit tracks ${listed(owned, 3)}, but the content is in ${settings.content} and belongs to its writers. ` +
        "Run git rm -r --cached content, and add content to .gitignore.",
    );
  for (const link of links) remove(join(places.clone, link));
  return links;
}

/** git gives the reason for some failed writes only, and a full disk is not among them. */
function checkoutFault({ site }: Places, stderr: string): Error {
  const said = lastLine(stderr);
  if (/No space left on device/.test(stderr)) return failed(diskFull);
  if (!/unable to write /.test(stderr)) return new CloneFault(`git can't check the commit out: ${said}`);
  const { bavail, bsize } = statfsSync(site);
  return failed(
    `git can't write the commit's files, with ${Math.floor((bavail * bsize) / (1 << 20))} MiB free on the disk. Free ` +
      `space, or look in dmesg for a fault of the disk. (git: ${said})`,
  );
}

/** The repository names the submodules' addresses; git's environment and the firewall limit which of them are reached. */
async function updateSubmodules({ git, settings }: Site): Promise<void> {
  const steps = [
    ["submodule", "--quiet", "sync", "--recursive"],
    ["submodule", "--quiet", "update", "--init", "--recursive", "--force"],
    // A removed submodule leaves its folder.
    ["clean", "-ffdxq"],
  ];
  for (const step of steps) {
    const done = await git(step);
    if (done.code !== 0) throw failed(`a submodule: ${remoteFault(done, settings) ?? lastLine(done.stderr)}`);
  }
}
