/** The pauses of the builder, by the clock. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildPending } from "../../../../service/builder/run/build-pending.ts";
import { pending, take } from "../../../../service/builder/run/markers.ts";
import type { Pauses } from "../../../../service/builder/run/pauses.ts";
import { type Bench, contextOf, gitHost } from "../harness.ts";
import { onCopies, site } from "../scene.ts";

onCopies(1);

const runs = (pauses: Pauses, journal = (_entry: Bench["journal"][number]) => {}) =>
  buildPending(contextOf(site), journal, pauses, async () => true);
const long: Pauses = { first: 1, rests: 0, longest: 1_500, least: 0 };
const until = (milliseconds: number) =>
  writeFileSync(site.places.paused, `${new Date(Date.now() + milliseconds).toISOString()}\n`);

test("before a long pause the builder stays where it cannot park a marker, as the .path unit would start the next at once", async () => {
  mkdirSync(join(site.places.taken, "in the way"), { recursive: true });
  site.deliver();
  let over = false;
  const ended = runs(long).then(() => {
    over = true;
  });
  await expect.poll(() => site.status().failing?.attempts, { timeout: 20_000 }).toBe(2);
  expect([over, existsSync(site.places.parked)]).toEqual([false, false]);
  rmSync(site.places.taken, { recursive: true });
  await ended;
  expect(pending(site.places)).toEqual([]);
});

test("before a long pause a builder after one that was killed ends, too, and leaves the .path unit nothing to see", async () => {
  site.deliver();
  site.tick();
  take(site.places);
  until(60_000);
  expect(await runs(long)).toBe(true);
  const { parked, taken, rootRequests } = site.places;
  expect(readFileSync(parked, "utf8")).toBe("delivery delivery-1\ntick\n");
  expect([existsSync(taken), readdirSync(rootRequests)]).toEqual([false, []]);
});

test("a builder rests until the time that the end of the one before it has set", async () => {
  site.deliver();
  take(site.places);
  until(1_500);
  const began = performance.now();
  await runs({ first: 300, rests: 30_000, longest: 30_000, least: 50 });
  expect(performance.now() - began).toBeGreaterThan(1_490);
  expect(performance.now() - began).toBeLessThan(12_000);
});

test("the builder tries again after a pause; a new marker cuts the next one short, and not below the shortest", async () => {
  const { faults } = await gitHost();
  faults.status = 500;
  const entries: Bench["journal"] = [];
  const times: number[] = [];
  site.deliver();
  await runs({ first: 3_000, rests: 60_000, longest: 60_000, least: 1_200 }, (entry) => {
    entries.push(entry);
    times.push(performance.now());
    if (entries.length !== 2) return;
    delete faults.status;
    setTimeout(() => site.deliver(), 50);
  });
  const ended = entries.map(({ result, trigger }) => `${result}: ${trigger.length}`);
  expect(ended).toEqual(["failed: 1", "failed: 1", "nothing: 2"]);
  const [first, second, third] = times as [number, number, number];
  expect([second - first > 2_990, third - second > 1_190, third - second < 5_900]).toEqual([true, true, true]);
});
