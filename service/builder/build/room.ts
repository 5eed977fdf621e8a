/** Frees the disk for the next run, so that a site takes no more than its shares. */
import { existsSync, lstatSync, writeFileSync } from "node:fs";
import { ifThere, readText, remove } from "../files.ts";
import { makeOpen } from "../places.ts";
import { currentRelease, prune, releases } from "../release/releases.ts";
import { failed } from "../run/setback.ts";
import type { Run } from "../run/status.ts";
import { type BuildContext, type CloneFault, discardClone, lastHead, pruneClone } from "../source/repository.ts";
import { setAside } from "./build.ts";
import { measure, needRoom, shares } from "./disk.ts";
import { TooMuch } from "./disk-watch.ts";

/** Before a run: nothing where the last one has made room for it. To measure five releases of 1,000 pages takes 0.35 s. */
export async function haveRoom(context: BuildContext): Promise<void> {
  const { places, settings } = context;
  const isMade = readText(places.roomFor) === `${settings.limits.releaseBytes}`;
  remove(places.roomFor);
  if (isMade) needRoom(places.site);
  else await makeRoom(context);
}

/** For the next run. After a power cut the note may be there although a run has removed it: the disk watch then ends the run. */
export async function makeRoomAfter(context: BuildContext): Promise<void> {
  await makeRoom(context);
  writeFileSync(context.places.roomFor, `${context.settings.limits.releaseBytes}`);
}

/** Removes a large cache and what Git LFS no longer needs, and old releases until two shares are free. Throws Setback on a full disk. */
export async function makeRoom(context: BuildContext): Promise<void> {
  const { places } = context;
  const { releaseBytes } = context.settings.limits;
  const large = shares.ofCache * releaseBytes;
  if ((await measure(places.cache)).bytes > large) {
    setAside(places, places.cache);
    makeOpen(places.cache);
  }
  // A checkout on the disk has the files themselves. Until then each failed run would bring all of them again.
  if ((await measure(places.lfs)).bytes > (existsSync(places.checkedOut) ? large : releaseBytes)) remove(places.lfs);
  // A build may write anything into it.
  if ((ifThere(() => lstatSync(places.stats))?.blocks ?? 0) * 512 > large) remove(places.stats);
  const isOver = async () =>
    (await measure(places.work)).bytes + (await measure(places.releases)).bytes > shares.beforeRun * releaseBytes;
  const current = currentRelease(places);
  const stay = releases(places);
  const kept = () => (current === undefined ? stay : [current, ...stay]);
  while (stay.length > 0 && (await isOver())) {
    stay.pop();
    prune(places, kept());
  }
  // A clone that cannot be pruned in the room that is left is removed, and fetched again.
  await pruneClone(context).catch(() => discardClone(places));
  needRoom(places.site);
}

/** Removes the clone where git itself finds it broken, or, once for each head, where it may hold what earlier pushes left. */
export async function makeAnew(context: BuildContext, fault: CloneFault | TooMuch, run: Run): Promise<void> {
  const { places, git } = context;
  if (fault instanceof TooMuch) {
    const head = run.head ?? (await lastHead(context));
    if (head === null || readText(places.madeAnew) === head) throw fault;
    setAside(places);
    run.last.warnings.push(`the clone is made anew, as earlier pushes may have filled it: ${fault.message}`);
  } else {
    const fsck = await git(["fsck", "--connectivity-only", "--no-dangling", "--no-progress"]);
    if (fsck.code === 0) throw failed(fault.message);
    run.last.warnings.push(`the clone was broken and is made anew: ${fault.message}`);
  }
  discardClone(places);
  await makeRoom(context);
}
