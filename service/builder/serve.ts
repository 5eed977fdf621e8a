/**
 * As long as markers are pending: takes them, runs, writes the result, and only then removes them. A failing builder
 * does not exit but pauses: systemd stops a path unit that starts a failing job again and again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { retireOut } from "./hugo.ts";
import { type Marker, newest, release, take } from "./markers.ts";
import type { Places } from "./places.ts";
import { currentRelease, prune, removeHalf } from "./releases.ts";
import { removeHalfCheckout, type Site } from "./repository.ts";
import { runOnce } from "./run.ts";
import { listed } from "./setback.ts";
import { type Entry, type Failing, Run, readStatus, writeStatus } from "./status.ts";

/** Milliseconds. The first pause doubles up to the longest; not even a new marker cuts one below `least`. */
type Pauses = { readonly first: number; readonly longest: number; readonly least: number };

const pauses: Pauses = { first: 5_000, longest: 15 * 60_000, least: 2_000 };

/** A burst of pushes delays a build by at most this many times the debounce. */
const mostDebounces = 5;

export type Journal = (entry: Entry) => void;

/** Removes what a kill, a power cut or a failed run left. */
export function removeLeftovers(places: Places): void {
  removeHalf(places);
  removeHalfCheckout(places);
  retireOut(places);
}

/** Returns when nothing is pending, or at the first failure where `pause` is null. */
export async function serve(site: Site, journal: Journal, pause: Pauses | null = pauses): Promise<void> {
  const { places, settings } = site;
  let failing = readStatus(places)?.failing;
  let length = pause?.first ?? 0;
  for (;;) {
    const debounce = await settle(places, settings.limits.debounceMilliseconds);
    const takenAt = Date.now();
    const { markers, stuck } = take(places);
    const batch = next(markers);
    if (batch.length === 0 && stuck.length === 0) return;

    const run = batch.length > 0 ? await runOnce(site, batch, debounce) : cannotTake(stuck);
    const good = run.last.result === "published" || run.last.result === "nothing";
    if (good) failing = undefined;
    else if (!once(batch)) failing = stillFailing(failing, length);
    report(site, run, failing, journal);
    if (good || once(batch)) release(batch);
    if (run.stay) await cleanUp(site, run.stay);

    if (good) length = pause?.first ?? 0;
    else if (!once(batch)) {
      if (!pause) return;
      await rest(places, length, pause.least, takenAt);
      length = Math.min(length * 2, pause.longest);
    }
  }
}

/** A rollback or an adoption runs alone, before the others and once: root reads its result. */
function next(markers: readonly Marker[]): readonly Marker[] {
  const first = markers.find(({ kind }) => kind === "rollback") ?? markers.find(({ kind }) => kind === "adopt");
  return first ? [first] : markers;
}

const once = ([first]: readonly Marker[]): boolean => first?.kind === "rollback" || first?.kind === "adopt";

/** Waits until no marker has come for `quiet`. Returns how long it waited. All in milliseconds. */
async function settle(places: Places, quiet: number): Promise<number> {
  const from = performance.now();
  for (;;) {
    const last = newest(places, true);
    const waited = performance.now() - from;
    // After a clock was set back the last marker may lie in the future.
    const since = Math.max(0, Date.now() - last);
    const left = last === 0 ? 0 : Math.min(quiet - since, mostDebounces * quiet - waited);
    if (left <= 0) return waited;
    await sleep(Math.ceil(left));
  }
}

/** Waits until the time is up or a new marker came. */
async function rest(places: Places, milliseconds: number, least: number, takenAt: number): Promise<void> {
  const until = performance.now() + milliseconds;
  await sleep(Math.min(least, milliseconds));
  // The file system's clock lags behind by a tick of the kernel, 10 ms at most.
  while (performance.now() < until && newest(places) < takenAt - 10) await sleep(Math.min(500, least));
}

const stillFailing = (before: Failing | undefined, pause: number): Failing => ({
  since: before?.since ?? new Date().toISOString(),
  attempts: (before?.attempts ?? 0) + 1,
  next: new Date(Date.now() + pause).toISOString(),
});

function cannotTake(stuck: readonly string[]): Run {
  const reason = `${listed(stuck)} is a folder with files in it, and a request is a file. Remove it.`;
  return new Run([], 0).end({ result: "failed", reason });
}

function report({ places, settings: { hook } }: Site, run: Run, failing: Failing | undefined, journal: Journal): void {
  const { last } = run;
  try {
    // What a failed run wrote may be all the room that status.json needs on a full disk.
    if (last.result === "failed") removeLeftovers(places);
  } catch {}
  try {
    writeStatus(places, hook, run, failing);
  } catch (error) {
    // What was published stays published, and the journal reports it.
    last.warnings.push(`status.json could not be written: ${(error as Error).message}`);
  }
  journal({ hook, ...last, release: currentRelease(places) ?? null, ...(failing && { failing }) });
}

/** No run depends on it: what fails here is done after the next publish. */
async function cleanUp(site: Site, stay: readonly string[]): Promise<void> {
  try {
    prune(site.places, stay);
    retireOut(site.places);
    await site.git(["gc", "--auto", "--quiet"]);
  } catch {}
}
