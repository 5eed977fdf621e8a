/**
 * The clone: made, fetched, compared, checked out. Its objects are never trusted to be whole: what git can't use is
 * thrown away and fetched again, as all of it is only a copy.
 */
import { chmodSync, lstatSync, readdirSync, readFileSync, renameSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { ifThere, isUnder, remove, syncFolder, walk } from "./files.ts";
import type { Git } from "./git.ts";
import type { Places } from "./places.ts";
import { lastLine, remoteFault } from "./remote.ts";
import { failed, listed, refused } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

export type Site = { readonly settings: BuilderSettings; readonly places: Places; readonly git: Git };

/** The only ref: where the branch was when it was last fetched. */
const head = "refs/pushgate/head";

/** git refused what only a broken clone makes it refuse. */
export class CloneFault extends Error {}

/** Locks that a killed git left: nobody else works in here. */
export function unlock({ clone }: Places): void {
  const git = join(clone, ".git");
  const locks = ifThere(() => walk(git, false))?.files.filter(({ path }) => /\.lock$|(^|\/)gc\.pid$|\/tmp_/.test(path));
  for (const { path } of locks ?? []) remove(join(git, path));
}

async function made({ places, git }: Site): Promise<void> {
  if (ifThere(() => readFileSync(join(places.clone, ".git", "HEAD")))) return;
  discard(places);
  const half = `${places.clone}.new`;
  remove(half);
  const init = await git(["init", "--quiet", "--template=", half], { cwd: places.work });
  if (init.missing) throw failed("git is not installed: apt-get install git");
  if (init.code !== 0) throw failed(`git can't make a clone: ${lastLine(init.stderr)}`);
  // Another user's hugo reads the files beside it.
  chmodSync(join(half, ".git"), 0o700);
  renameSync(half, places.clone);
}

/** The next fetch starts from nothing. */
export function discard(places: Places): void {
  remove(places.checkedOut);
  remove(places.clone);
}

/** Fetches the branch, whole history, and returns its head's commit. Throws Setback, CloneFault. */
export async function fetchHead(site: Site): Promise<string> {
  const { settings, places, git } = site;
  await made(site);
  const refspec = `+refs/heads/${settings.branch}:${head}`;
  const fetch = await git(["fetch", "--quiet", "--no-tags", "--force", "--", settings.repository, refspec]);
  if (fetch.code !== 0) {
    const fault = remoteFault(fetch, settings);
    if (fault) throw failed(fault);
    throw new CloneFault(`git can't fetch: ${lastLine(fetch.stderr)}`);
  }
  const commit = /^[0-9a-f]{40,64}/.exec(readFileSync(join(places.clone, ".git", "FETCH_HEAD"), "utf8"))?.[0];
  if (commit === undefined) throw new CloneFault("git fetched nothing");
  return commit;
}

/** The head as it was fetched last, without asking the remote. */
export async function lastHead({ git, places }: Site): Promise<string | null> {
  if (!ifThere(() => readFileSync(join(places.clone, ".git", "HEAD")))) return null;
  const { code, stdout } = await git(["rev-parse", "--verify", "--quiet", `${head}^{commit}`]);
  return code === 0 ? stdout.trim() : null;
}

/** Whether git finds fault with what it has. */
export async function isBroken({ git }: Site): Promise<boolean> {
  return (await git(["fsck", "--connectivity-only", "--no-dangling", "--no-progress"])).code !== 0;
}

export type Changes = { readonly paths: readonly string[] } | { readonly unknown: string };

/** The paths in which two commits differ, or why that can't be told. */
export async function changes({ git }: Site, from: string, to: string): Promise<Changes> {
  // At once: each takes 5 ms, most of it the start of a process.
  const [ancestor, diff] = await Promise.all([
    git(["merge-base", "--is-ancestor", from, to]),
    git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", from, to]),
  ]);
  const short = from.slice(0, 12);
  if (diff.cut) return { unknown: "too many files changed to look at" };
  if (ancestor.code === 1) return { unknown: `the history was rewritten: ${short} is no ancestor of the head` };
  if (ancestor.code !== 0 || diff.code !== 0) return { unknown: `the published commit ${short} is not in the clone` };
  return { paths: diff.stdout.split("\0").filter(Boolean) };
}

/**
 * Checks a commit out, without tracked links. Refuses one that tracks the content folder: whoever may push would own
 * what its owner writes. Returns the links that were left out.
 */
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
  const links: string[] = [];
  const content: string[] = [];
  for (const line of tracked.stdout.split("\0")) {
    const path = line.slice(line.indexOf("\t") + 1);
    const link = line.startsWith("120000 ");
    // A link of that name, to a writer's own folder, is left out as any other.
    if (isUnder(path, "content") && !path.endsWith("/.gitkeep") && !(link && path === "content")) content.push(path);
    else if (link) links.push(path);
  }
  if (content.length > 0)
    throw refused(
      `the commit tracks ${listed(content, 3)}: content lies in ${settings.content} and belongs to who writes it; ` +
        "git rm -r --cached content, and add it to .gitignore",
    );
  for (const link of links) remove(join(places.clone, link));
  return links;
}

/** git says why it can't write a file for some causes only, and a full disk is not among them. */
function checkoutFault({ site }: Places, stderr: string): Error {
  const said = lastLine(stderr);
  if (/No space left on device/.test(stderr)) return Object.assign(new Error(), { code: "ENOSPC" });
  if (!/unable to write /.test(stderr)) return new CloneFault(`git can't check the commit out: ${said}`);
  const { bavail, bsize } = statfsSync(site);
  return failed(
    `git can't write what the commit holds, with ${Math.floor((bavail * bsize) / (1 << 20))} MiB free on the disk: make ` +
      `room there, or see dmesg for what is wrong with it (git: ${said})`,
  );
}

/** Their addresses are the repository's to say; which transports they may name, and whose hosts are reached, is not. */
async function updateSubmodules({ git, settings }: Site): Promise<void> {
  const steps = [
    ["submodule", "--quiet", "sync", "--recursive"],
    ["submodule", "--quiet", "update", "--init", "--recursive", "--force"],
    // A submodule that went away leaves its folder.
    ["clean", "-ffdxq"],
  ];
  for (const step of steps) {
    const done = await git(step);
    if (done.code !== 0) throw failed(`a submodule: ${remoteFault(done, settings) ?? lastLine(done.stderr)}`);
  }
}

/** Removes the files and the index of a checkout that did not end; git does not know them. The objects stay. */
export function emptyHalf({ clone, checkedOut }: Places): void {
  if (ifThere(() => lstatSync(checkedOut))) return;
  for (const name of ifThere(() => readdirSync(clone)) ?? []) if (name !== ".git") remove(join(clone, name));
  remove(join(clone, ".git", "index"));
}

/** After a publish, as it may take a while. What it can't do now, it does next time. */
export async function tidy({ git }: Site): Promise<void> {
  await git(["gc", "--auto", "--quiet"]);
}
