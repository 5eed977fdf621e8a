/** When a run starts, what it leaves, and what the program prints and exits with. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { releases } from "../../../../service/builder/release/releases.ts";
import { buildPending } from "../../../../service/builder/run/build-pending.ts";
import { pending } from "../../../../service/builder/run/markers.ts";
import type { Pauses } from "../../../../service/builder/run/pauses.ts";
import { bundledBuilder, finish, makeReleases, releaseId, start, withCommand } from "../harness.ts";
import { siteFiles, writePage } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

onCopies(1);

const pauses: Pauses = { first: 1, rests: 0, longest: 60_000, least: 0 };
/** Runs with a git host that answers no fetch, before a pause that is long. */
function fails(mayRun = true): Promise<boolean> {
  const context = withCommand(site, "fetch", { stderr: "fatal: The requested URL returned error: 502" });
  return buildPending(
    context,
    (entry) => void site.journal.push(entry),
    pauses,
    async () => mayRun,
  );
}

test("the first push of a burst is built at once, and all that arrive meanwhile are one build of the newest commit", async () => {
  const working = site.delivered();
  // The builder takes the first delivery before it waits for git for the first time.
  await expect.poll(() => readdirSync(site.places.spool)).toEqual([]);
  for (const revision of [2, 3]) site.push(siteFiles(revision));
  const { deployed } = await working;
  expect(site.journal.map(({ trigger }) => trigger.length)).toEqual([1, 2]);
  expect(deployed?.commit).toBe(site.repository.head());
});

test("five releases stay, at the start and after a publish, of which the status has times, and the disk no output", async () => {
  makeReleases(site.places, 11, 12, 13, 14, 15, 16, 17);
  await site.work();
  expect(releases(site.places)).toHaveLength(5);
  const commit = site.push(siteFiles(2));
  const [at, from] = [Date.now(), performance.now()];
  const { last, deployed, releases: listed } = await site.work();
  const took = performance.now() - from + 1;
  expect(site.journal).toMatchObject([{ result: "published", release: deployed!.release }]);
  expect(releases(site.places)).toHaveLength(5);
  // Those that are being removed are none of them.
  expect(listed.map(({ id }) => id)).toEqual(releases(site.places));
  expect(readdirSync(site.places.work).filter((name) => /^(out|former)/.test(name))).toEqual([]);
  expect(readFileSync(site.places.checkedOut, "utf8")).toBe(`${commit}\n`);

  expect(Math.abs(Date.parse(last.at) - at)).toBeLessThanOrEqual(took);
  const { total, dependencies: _, ...steps } = last.milliseconds;
  expect(Object.keys(steps).sort()).toEqual(["build", "checkout", "decide", "fetch", "publish"]);
  for (const each of Object.values(steps))
    expect([each, each > 0, each <= total]).toEqual([Math.round(each), true, true]);
  expect(total).toBeLessThanOrEqual(took);
});

test("a failed run leaves neither output nor checkout", async () => {
  expect((await site.pushed({ "layouts/index.html": "{{ nothing }}" })).last.result).toBe("failed");
  expect(existsSync(site.places.out)).toBe(false);
  expect(readdirSync(site.places.clone)).toEqual([".git"]);
});

test("a schedule makes no release without a change, and one of the content that has changed", async () => {
  const { deployed } = site.status();
  site.scheduled();
  const reason = `scheduled: the build is the same as ${deployed!.release}`;
  expect(await site.work()).toMatchObject({ deployed, last: { result: "nothing", reason } });
  writePage(site.content, 0, "Written since.");
  site.scheduled();
  expect((await site.work()).last).toMatchObject({ result: "published", reason: "scheduled" });
});

test("status.json lists no release without a manifest that can be read, and is a warning where it cannot be written", async () => {
  makeReleases(site.places, 11, 12, 13);
  rmSync(site.places.manifest(releaseId(12)));
  for (const number of [20, 21]) mkdirSync(site.places.release(releaseId(number)));
  writeFileSync(site.places.manifest(releaseId(20)), "{");
  writeFileSync(site.places.manifest(releaseId(21)), readFileSync(site.places.manifest(releaseId(13))));
  site.tick();
  const { releases: listed, deployed } = await site.work();
  expect(listed.map(({ id }) => id)).toEqual([releaseId(13), releaseId(11), deployed!.release]);

  rmSync(site.places.status);
  mkdirSync(join(site.places.status, "in the way"), { recursive: true });
  await expect(site.delivered()).rejects.toThrow(/^EISDIR/);
  const warnings = [expect.stringMatching(/^status\.json could not be written: E\w+: /)];
  expect(site.journal.at(-1)).toMatchObject({ result: "nothing", warnings });
});

test("a builder that may not run takes no marker, and its program learns that", async () => {
  site.deliver();
  expect(await fails(false)).toBe(false);
  expect(readdirSync(site.places.spool)).toHaveLength(1);
});

test("before a long pause the builder parks all markers and ends, and the next marker has them built", async () => {
  const { succeeded } = site.status();
  site.deliver();
  site.tick();
  expect([await fails(), await fails()]).toEqual([true, true]);
  const { parked, taken, spool, rootRequests } = site.places;
  expect(readFileSync(parked, "utf8")).toBe("delivery delivery-1\ntick\n");
  expect([existsSync(taken), readdirSync(spool), readdirSync(rootRequests)]).toEqual([false, [], []]);
  expect(site.status()).toMatchObject({ failing: { attempts: 2 }, runs: { published: 1, failed: 2 }, succeeded });
  const trigger = ["delivery delivery-1", "tick", "delivery delivery-2"];
  const { last, ...later } = await site.delivered();
  expect(last).toMatchObject({ result: "nothing", trigger });
  expect(later).toMatchObject({ runs: { published: 1, failed: 2, nothing: 1 }, succeeded: last.at });
  expect([pending(site.places), existsSync(parked)]).toEqual([[], false]);
});

test("the program removes half a release that a kill left, prints one line a run and exits; with faulty settings it exits 78", async () => {
  const bundle = await bundledBuilder(site.folder);
  const half = site.places.release(releaseId(9));
  mkdirSync(half);
  site.deliver();
  const { said } = await finish(site, start(site, bundle));
  expect(existsSync(half)).toBe(false);
  expect(JSON.parse(said)).toMatchObject({ hook: "site", result: "nothing", trigger: ["delivery delivery-1"] });

  const { stderr, status } = spawnSync(process.execPath, [bundle], { env: {}, encoding: "utf8" });
  expect(stderr).toContain("pushgate-builder: 1 fault, not started:\n  PUSHGATE_SETTINGS is not set");
  expect(status).toBe(78);
});
