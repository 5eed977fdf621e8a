/** Frees the disk after a run, for the next one, so that a site takes no more than its shares. */
import { existsSync, lstatSync, writeFileSync } from "node:fs";
import { ifThere, readText, remove } from "../files.ts";
import { makeOpen } from "../places.ts";
import { currentRelease, prune, releases } from "../release/releases.ts";
import { type BuildContext, discardClone, pruneClone } from "../source/repository.ts";
import { setAside } from "./build.ts";
import { measure, needRoom, shares } from "./disk.ts";

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
