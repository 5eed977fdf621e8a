/**
 * The disk that a site may take: four times the largest release. Hugo's output, the release made of it and the published
 * one are a share each; the fourth is for clone, checkout, cache and the former releases, which go where it is too small.
 */
import { measure, needRoom } from "./disk.ts";
import { retire } from "./hugo.ts";
import { makeCache } from "./places.ts";
import { currentRelease, prune, releases, sizeOf } from "./releases.ts";
import { type BuildContext, discardClone, pruneClone } from "./repository.ts";

/** Before a run: two shares are free afterwards, or nothing is left to remove. Throws Setback on a full disk. */
export async function makeRoom(context: BuildContext): Promise<void> {
  const { places, settings } = context;
  const { limits } = settings;
  const { cache, work } = places;
  if ((await measure(cache)).bytes > limits.releaseBytes / 4) {
    retire(places, cache);
    makeCache(places);
  }
  const others = (await measure(work)).bytes;
  const current = currentRelease(places);
  const stay = releases(places);
  const kept = () => (current === undefined ? stay : [current, ...stay]);
  while (stay.length > 0 && others + sizeOf(places, kept()) > 2 * limits.releaseBytes) stay.pop();
  prune(places, kept());
  // Where it can't be pruned in the room that is left, it is fetched again.
  await pruneClone(context).catch(() => discardClone(places));
  needRoom(places.site);
}
