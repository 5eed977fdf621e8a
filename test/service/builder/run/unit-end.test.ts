/** A builder that is killed in the middle of a run: what the status reports, and how long the next one pauses. */
import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { currentRelease } from "../../../../service/builder/release/releases.ts";
import { pending, take } from "../../../../service/builder/run/markers.ts";
import { pausesOf, stillFailing } from "../../../../service/builder/run/pauses.ts";
import { reportEnd, takePause } from "../../../../service/builder/run/unit-end.ts";
import { type Bench, onCopies } from "../harness.ts";

let site: Bench;
onCopies(1, (copy) => {
  site = copy;
});

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
  [killed, /^the builder was killed at its memory limit, or as the host had no memory left \(oom-kill, killed/],
  [{ ...killed, result: "signal" }, /^the builder was killed at its memory limit/],
  [{ ...killed, status: "TERM" }, /^the builder was killed .* limits the generator alone, or see journalctl -k\.$/],
  [
    { result: "exit-code", code: "exited", status: "1" },
    /middle of a run \(exit-code, exited, 1\)\. See journalctl -u pushgate-build@site\./,
  ],
  [{ result: "resources", code: "", status: "" }, /middle of a run \(resources\)\. See/],
])("the status reports a builder that systemd ended: %o", (end, reason) => {
  site.deliver();
  take(site.places);
  const { settings } = site.builder;
  const of = { ...settings, limits: { ...settings.limits, memoryMiB: 512 } };
  for (const attempts of [1, 2]) {
    const entry = reportEnd(of, site.places, end)!;
    expect(entry).toMatchObject({ result: "failed", failing: { attempts }, release: currentRelease(site.places) });
    expect(entry.reason).toMatch(reason);
    const { last, failing, deployed } = site.status();
    expect(last).toMatchObject({ result: "failed", reason: entry.reason, trigger: ["delivery delivery-1"] });
    expect(failing).toEqual(entry.failing);
    expect(deployed).not.toBeNull();
  }
  expect(pending(site.places)).toHaveLength(1);
  expect(takePause(site.places)).toBe(Date.parse(site.status().failing!.next));
  expect(takePause(site.places)).toBeUndefined();
});

test("a site's very first builder can be one that systemd ends", () => {
  site.deliver();
  rmSync(site.places.status);
  rmSync(site.places.current);
  expect(reportEnd(site.builder.settings, site.places, killed)).toMatchObject({
    failing: { attempts: 1 },
    release: null,
  });
});

test("a builder that systemd ended between two runs is no failure", () => {
  const before = site.status();
  expect(reportEnd(site.builder.settings, site.places, killed)).toBeUndefined();
  expect(site.status()).toEqual(before);
  expect(takePause(site.places)).toBeUndefined();
});
