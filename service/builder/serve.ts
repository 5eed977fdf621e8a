/**
 * As long as anything is pending: take it, run, say what came of it, and only then let go of what asked. While it fails
 * it stays, and tries again after growing pauses, which a new marker cuts short: a path unit that starts a failing job
 * again and again is stopped by systemd, and then misses pushes.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Builder } from "../settings.ts";
import { currentRelease } from "./current.ts";
import { heldHead } from "./held.ts";
import { retireOut } from "./hugo.ts";
import type { Journal } from "./journal.ts";
import { type Marker, newest, release, take } from "./markers.ts";
import type { Places } from "./places.ts";
import { prune, removeHalf } from "./release.ts";
import { Report } from "./report.ts";
import { emptyHalf, type Site, tidy, unlock } from "./repository.ts";
import { run } from "./run.ts";
import { listed } from "./setback.ts";
import { type Failing, readStatus, writeStatus } from "./status.ts";

/** Milliseconds. The first pause doubles up to the longest; not even a new marker cuts one below `least`. */
export type Pauses = { readonly first: number; readonly longest: number; readonly least: number };

const pauses: Pauses = { first: 5_000, longest: 15 * 60_000, least: 2_000 };

/** A burst of pushes holds a build up at most this many times the debounce. */
const mostDebounces = 5;

/** Removes what a kill, a power cut or a failed run left behind. */
export function heal(places: Places): void {
  removeHalf(places);
  emptyHalf(places);
  unlock(places);
  retireOut(places);
}

/** Returns when nothing is pending, or at the first failure where there are no pauses to try again after. */
export async function serve(
  builder: Builder,
  site: Site,
  journal: Journal,
  pause: Pauses | null = pauses,
): Promise<void> {
  const { settings } = builder;
  const { places } = site;
  let failing = readStatus(places)?.failing;
  let length = pause?.first ?? 0;
  for (;;) {
    const debounce = await settle(places, settings.limits.debounceMilliseconds);
    const takenAt = Date.now();
    const { markers, stuck } = take(places);
    const batch = next(markers);
    if (batch.length === 0 && stuck.length === 0) return;

    const report = batch.length > 0 ? await run(builder, site, batch, debounce) : cannotTake(stuck);
    const good = report.result === "published" || report.result === "nothing";
    if (good) failing = undefined;
    else if (!once(batch)) failing = stillFailing(failing, length);
    tell(site, report, failing, journal);
    if (good || once(batch)) release(batch);
    if (report.stay) await cleanUp(site, report.stay);

    if (good) length = pause?.first ?? 0;
    else if (!once(batch)) {
      if (!pause) return;
      await rest(places, length, pause.least, takenAt);
      length = Math.min(length * 2, pause.longest);
    }
  }
}

/** What root asks for is done once, before the rest and by itself: who asked reads what came of it. */
function next(markers: readonly Marker[]): readonly Marker[] {
  const first = markers.find(({ kind }) => kind === "rollback") ?? markers.find(({ kind }) => kind === "adopt");
  return first ? [first] : markers;
}

const once = ([first]: readonly Marker[]): boolean => first?.kind === "rollback" || first?.kind === "adopt";

/** Until nobody has pushed for a while. Returns how long that was, in milliseconds. */
async function settle(places: Places, quiet: number): Promise<number> {
  const from = performance.now();
  for (;;) {
    const last = newest(places, true);
    const waited = performance.now() - from;
    // A clock that was set back must not make it wait for a tomorrow.
    const since = Math.max(0, Date.now() - last);
    const left = last === 0 ? 0 : Math.min(quiet - since, mostDebounces * quiet - waited);
    if (left <= 0) return waited;
    await sleep(Math.ceil(left));
  }
}

/** Until the time is up, or something new came. */
async function rest(places: Places, milliseconds: number, least: number, takenAt: number): Promise<void> {
  const until = performance.now() + milliseconds;
  await sleep(Math.min(least, milliseconds));
  // The clock of the file system may lag behind by a tick of the kernel, 10 ms at most.
  while (performance.now() < until && newest(places) < takenAt - 10) await sleep(Math.min(500, least));
}

const stillFailing = (before: Failing | undefined, pause: number): Failing => ({
  since: before?.since ?? new Date().toISOString(),
  attempts: (before?.attempts ?? 0) + 1,
  next: new Date(Date.now() + pause).toISOString(),
});

function cannotTake(stuck: readonly string[]): Report {
  const report = new Report([], 0);
  report.result = "failed";
  report.reason = `can't be taken: ${listed(stuck)}: an ask is a file, and this is a folder with something in it; remove it`;
  return report;
}

function tell(site: Site, report: Report, failing: Failing | undefined, journal: Journal): void {
  const { places, settings } = site;
  const { adoption, stay } = report;
  const last = report.last();
  try {
    // What a failed run wrote may be all of the room that status.json needs on a full disk.
    if (last.result === "failed") heal(places);
    const before = readStatus(places);
    writeStatus(places, {
      hook: settings.hook,
      head: report.head ?? before?.head ?? null,
      held: heldHead(places),
      last,
      failing,
      adoption,
      ...(stay && { stay }),
    });
  } catch (error) {
    // On a full disk. What was published is, and the journal says so.
    last.warnings.push(`status.json could not be written: ${(error as Error).message}`);
  }
  journal({ hook: settings.hook, ...last, release: currentRelease(places) ?? null, ...(failing && { failing }) });
}

/** Nobody waits for this; what is not done now is done after the next publish. */
async function cleanUp(site: Site, stay: readonly string[]): Promise<void> {
  try {
    prune(site.places, stay);
    retireOut(site.places);
    await tidy(site);
  } catch {}
}
