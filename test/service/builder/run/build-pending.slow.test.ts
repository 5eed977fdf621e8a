/** The pauses of the builder, by the clock. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { buildPending } from "../../../../service/builder/run/build-pending.ts";
import { pending, take } from "../../../../service/builder/run/markers.ts";
import type { Pauses } from "../../../../service/builder/run/pauses.ts";
import type { RunLine } from "../../../../service/builder/run/status.ts";
import { type Bench, contextOf, gitHost, onCopies } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

const always = async () => true;

describe("a run", () => {
  let site: Bench;
  onCopies(1, (copy) => {
    site = copy;
  });

  /** Serves with a git host that fails until there are as many entries, and then calls `then`. */
  async function failing(times: number, pauses: Pauses, then = () => {}) {
    const { faults } = await gitHost();
    faults.status = 500;
    const entries: (RunLine & { readonly milliseconds: unknown; readonly since: number })[] = [];
    let last = performance.now();
    const journal = (entry: RunLine) => {
      entries.push({ ...entry, since: performance.now() - last });
      last = performance.now();
      if (entries.length < times) return;
      delete faults.status;
      then();
    };
    site.repository.push(siteFiles(2));
    site.deliver();
    await buildPending(contextOf(site), journal, pauses, always);
    expect(pending(site.places)).toEqual([]);
    return entries;
  }

  describe("before a pause that is long", () => {
    const pauses: Pauses = { first: 1, rests: 0, longest: 60_000, least: 0 };
    const at = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);

    test("it stays where it cannot take a marker, as the .path unit would start the next builder at once", async () => {
      const stuck = join(site.places.taken, "in the way");
      mkdirSync(stuck, { recursive: true });
      site.deliver();
      let over = false;
      const runs = buildPending(contextOf(site), () => {}, { ...pauses, longest: 1_500 }, always).then(() => {
        over = true;
      });
      await expect.poll(() => site.status().failing?.attempts, { timeout: 20_000 }).toBe(2);
      expect([over, existsSync(site.places.parked)]).toEqual([false, false]);
      rmSync(site.places.taken, { recursive: true });
      await runs;
      expect(pending(site.places)).toEqual([]);
    });

    test("a builder after one that was killed ends, too, and leaves the .path unit nothing to see", async () => {
      site.deliver();
      site.tick();
      take(site.places);
      writeFileSync(site.places.paused, `${new Date(Date.now() + 60_000).toISOString()}\n`);
      expect(await buildPending(contextOf(site), () => {}, pauses, always)).toBe(true);
      expect([at(site.places.parked), at(site.places.taken), readdirSync(site.places.rootRequests)]).toEqual([
        ["delivery delivery-1", "tick"],
        ...[[], []],
      ]);
    });
  });

  test("a builder rests until the time that the end of the one before it has set", async () => {
    site.deliver();
    take(site.places);
    const until = Date.now() + 1_500;
    writeFileSync(site.places.paused, `${new Date(until).toISOString()}\n`);
    let ran = 0;
    const journal = () => {
      ran = Date.now();
    };
    await buildPending(contextOf(site), journal, { first: 300, rests: 30_000, longest: 30_000, least: 50 }, always);
    expect(ran).toBeGreaterThanOrEqual(until - 1);
    expect(ran).toBeLessThan(until + 10_000);
  });

  test("the builder tries again after pauses that grow", async () => {
    const entries = await failing(3, { first: 300, rests: 30_000, longest: 30_000, least: 50 });
    expect(entries.map(({ result }) => result)).toEqual(["failed", "failed", "failed", "published"]);
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
    expect(entries.map(({ result }) => result)).toEqual(["failed", "published"]);
    expect(entries[1]!.trigger).toHaveLength(2);
    expect(entries[1]!.since).toBeGreaterThan(1_190);
    expect(entries[1]!.since).toBeLessThan(20_000);
  });
});
