/** Frees the disk before a run, so that a site takes no more than its shares. */
import { makeCache } from "../places.ts";
import { currentRelease, prune, releases, sizeOf } from "../release/releases.ts";
import { type BuildContext, discardClone, pruneClone } from "../source/repository.ts";
import { setAside } from "./build.ts";
import { measure, needRoom, shares } from "./disk.ts";

/** Removes a large cache, and old releases until two shares are free. Throws Setback on a full disk. */
export async function makeRoom(context: BuildContext): Promise<void> {
  const { places } = context;
  const { releaseBytes } = context.settings.limits;
  if ((await measure(places.cache)).bytes > shares.ofCache * releaseBytes) {
    setAside(places, places.cache);
    makeCache(places);
  }
  const others = (await measure(places.work)).bytes;
  const current = currentRelease(places);
  const stay = releases(places);
  const kept = () => (current === undefined ? stay : [current, ...stay]);
  while (stay.length > 0 && others + sizeOf(places, kept()) > shares.beforeRun * releaseBytes) stay.pop();
  prune(places, kept());
  // A clone that cannot be pruned in the room that is left is removed, and fetched again.
  await pruneClone(context).catch(() => discardClone(places));
  needRoom(places.site);
}
