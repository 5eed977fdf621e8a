/**
 * The builder's loop: as long as markers are pending, it takes them all, runs, writes the result, and only then removes
 * them. The first push of a burst is built at once, and those that arrive while a build runs are one build after it. A
 * failing builder does not exit but pauses: systemd stops a path unit that starts a failing job again and again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { removeAsRoot, retire } from "../build/hugo.ts";
import type { Places } from "../places.ts";
import { currentRelease, prune, removeHalf, staying } from "../release/releases.ts";
import { type BuildContext, removeHalfCheckout } from "../source/repository.ts";
import { arrived, type Marker, removeDone, take } from "./markers.ts";
import { type Pauses, pauses, stillFailing } from "./pauses.ts";
import { reportResult, turnOf } from "./reports.ts";
import { runOnce } from "./run.ts";
import { type Failing, isGood, Run, type RunLine, readStatus, writeStatus } from "./status.ts";
import { takePause } from "./unit-end.ts";

type Journal = (entry: RunLine) => void;

/** Removes what a kill, a power cut or a failed run left. */
export function removeLeftovers(places: Places): void {
  removeHalf(places);
  removeHalfCheckout(places);
  retire(places);
}

/**
 * Returns true when nothing is pending; false at the first failure if `pause` is null, or if `mayRun` forbids a run.
 */
export async function buildPending(
  context: BuildContext,
  journal: Journal,
  pause: Pauses | null = pauses,
  mayRun = async () => true,
): Promise<boolean> {
  const { places } = context;
  pruneOld(places);
  let failing = readStatus(places)?.failing;
  const until = takePause(places);
  // Any entry in the folders ends the pause: a newer delivery or request, but also a request of root that the former
  // builder left, which stays there until it is done.
  if (pause && until) await rest(places, until - Date.now(), pause.least, new Set());
  for (let first = true; first || (await mayRun()); first = false) {
    const { markers, faults, warnings, left } = take(places);
    const batch = next(markers);
    if (batch.length === 0 && faults.length === 0) return true;

    const run = batch.length > 0 ? await runOnce(context, batch) : cannotTake(faults);
    run.last.warnings.push(...warnings);
    const good = isGood(run.last);
    const before = failing;
    if (good) failing = undefined;
    else if (!runsOnce(batch)) failing = stillFailing(failing, pause ?? undefined);
    const turn = turnOf(before, failing);
    if (!runsOnce(batch) || turn) reportResult(context, run, turn);
    record(context, run, failing, journal);
    if (good || runsOnce(batch)) removeDone(places, batch);
    pruneOld(places, run.stay);
    if (run.stay || !good) await cleanUp(context);

    if (good || runsOnce(batch)) continue;
    if (!pause) return false;
    await rest(places, Date.parse(failing!.next) - Date.now(), pause.least, left);
  }
  return false;
}

/** A rollback runs alone, before the others and once: root reads its result. */
function next(markers: readonly Marker[]): readonly Marker[] {
  const first = markers.find(({ kind }) => kind === "rollback");
  return first ? [first] : markers;
}

/** Whether the batch is a rollback, which is not tried again. */
const runsOnce = ([first]: readonly Marker[]): boolean => first?.kind === "rollback";

/** Waits until the time is up or a new marker came. */
async function rest(places: Places, milliseconds: number, least: number, left: ReadonlySet<string>): Promise<void> {
  const until = performance.now() + milliseconds;
  await sleep(Math.max(0, Math.min(least, milliseconds)));
  while (performance.now() < until && !arrived(places, left)) await sleep(Math.min(500, least));
}

const cannotTake = ([reason = "", ...more]: readonly string[]): Run =>
  new Run([]).end({ result: "failed", reason: more.length > 0 ? `${reason} And ${more.length} more.` : reason });

/** Writes the result into status.json and the journal. */
function record(
  { places, settings: { hook } }: BuildContext,
  run: Run,
  failing: Failing | undefined,
  journal: Journal,
): void {
  const { last } = run;
  try {
    // No later run uses these leftovers, and on a full disk status.json may need their room.
    if (last.result === "failed" || last.result === "rejected") removeLeftovers(places);
  } catch {}
  try {
    writeStatus(places, hook, run, failing);
  } catch (error) {
    // What was published stays published, and the journal reports it.
    last.warnings.push(`status.json could not be written: ${(error as Error).message}`);
  }
  journal({ hook, ...last, release: currentRelease(places) ?? null, ...(failing && { failing }) });
}

/** Removes old releases, before and after each run, whatever its result. What fails is tried again at the next run. */
function pruneOld(places: Places, stay?: readonly string[]): void {
  try {
    prune(places, stay ?? staying(places));
  } catch {}
}

/** Removes former output and packs the clone. No run depends on this: what fails is done after the next publish. */
async function cleanUp(context: BuildContext): Promise<void> {
  try {
    retire(context.places);
    removeAsRoot(context.settings, context.places);
    await context.git(["gc", "--auto", "--quiet"]);
  } catch {}
}
