/** The pauses of the builder, by the clock. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildPending } from "../../../../service/builder/run/build-pending.ts";
import { pending, take } from "../../../../service/builder/run/markers.ts";
import type { Pauses } from "../../../../service/builder/run/pauses.ts";
import { type Bench, contextOf, gitHost, onCopies } from "../harness.ts";

let site: Bench;
onCopies(1, (copy) => {
  site = copy;
});

type Entry = Bench["journal"][number];
const runs = (pauses: Pauses, journal = (_entry: Entry) => {}) =>
  buildPending(contextOf(site), journal, pauses, async () => true);

/** Runs for a delivery with a git host that fails until there are as many entries, and then calls `then`. */
async function failing(times: number, pauses: Pauses, then = () => {}) {
  const { faults } = await gitHost();
  faults.status = 500;
  const entries: (Entry & { readonly since: number })[] = [];
  let last = performance.now();
  site.deliver();
  await runs(pauses, (entry) => {
    entries.push({ ...entry, since: performance.now() - last });
    last = performance.now();
    if (entries.length < times) return;
    delete faults.status;
    then();
  });
  expect(pending(site.places)).toEqual([]);
  return entries;
}

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

test("the builder tries again after pauses that grow", async () => {
  const entries = await failing(3, { first: 300, rests: 30_000, longest: 30_000, least: 50 });
  expect(entries.map(({ failing }) => failing?.attempts)).toEqual([1, 2, 3, undefined]);
  const [, second, third, fourth] = entries.map(({ since }) => since);
  expect([second! > 300, third! > 600, fourth! > 1_200, fourth! < 25_000]).toEqual([true, true, true, true]);
});

test("a new marker cuts a pause short, and not below the shortest", async () => {
  let came = false;
  const entries = await failing(1, { first: 30_000, rests: 30_000, longest: 30_000, least: 1_200 }, () => {
    if (!came) setTimeout(() => site.deliver(), 50);
    came = true;
  });
  expect(entries.map(({ result }) => result)).toEqual(["failed", "nothing"]);
  expect(entries[1]!.trigger).toHaveLength(2);
  expect(entries[1]!.since).toBeGreaterThan(1_190);
  expect(entries[1]!.since).toBeLessThan(20_000);
});
