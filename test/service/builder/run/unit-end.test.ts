/** A builder that is killed in the middle of a run: what the status reports, and how long the next one pauses. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { switchTo } from "../../../../service/builder/release/releases.ts";
import { pending, take } from "../../../../service/builder/run/markers.ts";
import { pausesOf, stillFailing } from "../../../../service/builder/run/pauses.ts";
import { readStatus } from "../../../../service/builder/run/status.ts";
import { reportEnd, takePause } from "../../../../service/builder/run/unit-end.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { makeReleases, releaseId } from "../harness.ts";
import { onPlaces, places } from "../scene.ts";

onPlaces();

const settings = { hook: "site", reconcileMinutes: 15 } as BuilderSettings;
const killed = { result: "oom-kill", code: "killed", status: "KILL" };

test("pauses double, and end with the timer's next tick, however often the builder ends", () => {
  const pauses = pausesOf({ reconcileMinutes: 3 });
  const lengths: number[] = [];
  for (let failing = stillFailing(undefined, pauses); lengths.length < 6; failing = stillFailing(failing, pauses))
    lengths.push(Math.round((Date.parse(failing.next) - Date.now()) / 1000));
  expect(lengths).toEqual([5, 10, 20, 40, 180, 180]);
  const often = stillFailing({ since: "2026-01-01T00:00:00.000Z", attempts: 5_000, next: "" }, pauses);
  expect(often).toMatchObject({ since: "2026-01-01T00:00:00.000Z", attempts: 5_001 });
});

test.each([
  [killed, /^the builder was killed at its memory limit, or as the host had no memory left \(oom-kill, killed, KILL\)/],
  [{ ...killed, result: "signal" }, /^the builder was killed at its memory limit/],
  [{ ...killed, status: "TERM" }, /^the builder was killed at its memory limit/],
  [
    { result: "exit-code", code: "exited", status: "1" },
    /middle of a run \(exit-code, exited, 1\)\. See journalctl -u pushgate-build@site\./,
  ],
  [{ result: "resources", code: "", status: "" }, /middle of a run \(resources\)\. See/],
])("the status reports a builder that systemd ended, also a site's first: %o", (end, reason) => {
  writeFileSync(join(places.spool, "delivery-1.json"), "");
  take(places);
  for (const attempts of [1, 2]) {
    const release = attempts === 1 ? null : releaseId(2);
    const entry = reportEnd(settings, places, end)!;
    expect(entry).toMatchObject({ result: "failed", failing: { attempts }, release });
    expect(entry.reason).toMatch(reason);
    const { last, failing, deployed } = readStatus(places)!;
    expect(last).toMatchObject({ result: "failed", reason: entry.reason, trigger: ["delivery delivery-1"] });
    expect([failing, deployed?.release ?? null]).toEqual([entry.failing, release]);
    if (attempts === 1) makeReleases(places, 2);
    switchTo(places, releaseId(2));
  }
  expect(pending(places)).toHaveLength(1);
  expect(takePause(places)).toBe(Date.parse(readStatus(places)!.failing!.next));
  expect(takePause(places)).toBeUndefined();
});

test("a builder that systemd ended between two runs is no failure", () => {
  expect(reportEnd(settings, places, killed)).toBeUndefined();
  expect([readStatus(places), takePause(places)]).toEqual([undefined, undefined]);
});
