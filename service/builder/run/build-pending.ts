/** The builder's loop: it takes all markers, runs, writes the result, and only then removes them (decision 031). */
import { setTimeout as sleep } from "node:timers/promises";
import { tried } from "../../tried.ts";
import { removeAsRoot, setAside } from "../build/build.ts";
import { makeRoomAfter } from "../build/room.ts";
import { uptime } from "../clock.ts";
import { remove } from "../files.ts";
import type { Places } from "../places.ts";
import { prune, removeHalf, staying } from "../release/releases.ts";
import { type BuildContext, removeHalfCheckout } from "../source/repository.ts";
import { arrived, type Marker, park, removeDone, runsOnce, take } from "./markers.ts";
import { type Failing, type Pauses, stillFailing } from "./pauses.ts";
import { reportPurge, reportResult, turnOf } from "./reports.ts";
import { runOnce } from "./run.ts";
import { aboutOf, endRun, isIdle } from "./runs.ts";
import { isGood, lineOf, Run, type RunLine, readStatus, writeStatus } from "./status.ts";
import { takePause } from "./unit-end.ts";

/** Removes what a kill, a power cut or a failed run left, but not what merely takes room in the clone. */
export function removeLeftovers(places: Places): void {
  removeHalf(places);
  removeHalfCheckout(places);
  setAside(places);
}

/** True when nothing is pending, or parked; false where `mayRun` forbids a run. */
export async function buildPending(
  context: BuildContext,
  journal: (entry: RunLine) => void,
  pause: Pauses,
  mayRun: () => Promise<boolean>,
): Promise<boolean> {
  const { places } = context;
  pruneOld(places);
  let failing = readStatus(places)?.failing;
  const until = takePause(places);
  if (until) {
    if (park(places) && until - Date.now() > pause.rests && !arrived(places)) return true;
    await rest(places, until - Date.now(), pause.least);
  }
  while (await mayRun()) {
    const { markers, faults, warnings, left } = take(places);
    // A rollback runs alone, before the others and once: root reads its result.
    const rollback = markers.find(runsOnce);
    const batch = rollback ? [rollback] : markers;
    if (batch.length === 0 && faults.length === 0) return true;

    const run = batch.length > 0 ? await runOnce(context, batch) : cannotTake(faults);
    run.last.warnings.push(...warnings);
    const good = isGood(run.last);
    const isRollback = rollback !== undefined;
    const once = isRollback || run.isNoted === true;
    const before = failing;
    if (good || run.isNoted) failing = undefined;
    else if (!once) failing = stillFailing(failing, pause);
    const turn = turnOf(before, failing);
    if (!isRollback || turn) reportResult(context, run, turn);
    reportPurge(context, run);
    journal(await record(context, run, failing, batch));
    if ((good || once) && !run.more) removeDone(places, batch);
    pruneOld(places, run.stay);
    await cleanUp(context);

    if (good || once) continue;
    const wait = Date.parse(failing!.next) - Date.now();
    if (wait > pause.rests && faults.length === 0 && park(places)) return true;
    await rest(places, wait, pause.least, left);
  }
  return false;
}

async function rest(places: Places, milliseconds: number, least: number, left?: ReadonlySet<string>): Promise<void> {
  const until = uptime() + milliseconds;
  await sleep(Math.max(0, Math.min(least, milliseconds)));
  while (uptime() < until && !arrived(places, left)) await sleep(Math.min(500, least));
}

const cannotTake = ([reason = "", ...more]: readonly string[]): Run =>
  new Run([]).end({ result: "failed", reason: more.length > 0 ? `${reason} And ${more.length} more.` : reason });

async function record(context: BuildContext, run: Run, failing: Failing | undefined, markers: readonly Marker[]) {
  const { places, settings } = context;
  const { last } = run;
  // On a full disk status.json may need the room of these leftovers. What may have been the fault is made anew.
  if (last.result === "failed" || last.result === "rejected")
    tried(() => {
      removeLeftovers(places);
      remove(places.history);
    });
  // What was published stays published.
  const attempt = (what: string, work: () => void): void => {
    try {
      work();
    } catch (error) {
      last.warnings.push(`${what} could not be written: ${(error as Error).message}`);
    }
  };
  attempt("status.json", () => writeStatus(places, settings.hook, run, failing));
  const line = lineOf(places, settings.hook, run, failing);
  if (last.commit !== null && !isIdle(last, markers)) run.about ??= await aboutOf(context, last.commit);
  attempt("the run's file", () => endRun(places, line, markers, run));
  return line;
}

/** What fails is tried again at the next run. */
const pruneOld = (places: Places, stay?: readonly string[]) => tried(() => prune(places, stay ?? staying(places)));

/** No run depends on this: what fails is done after the next one. */
async function cleanUp(context: BuildContext): Promise<void> {
  try {
    setAside(context.places);
    removeHalfCheckout(context.places, true);
    removeAsRoot(context.settings, context.places);
    await context.git(["gc", "--auto", "--quiet"]);
    await makeRoomAfter(context);
  } catch {}
}
