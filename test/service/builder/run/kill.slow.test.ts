/**
 * The real bundle, killed at random moments between a delivery and its page: readers see one whole site, no push is lost,
 * and the content is what its owner wrote. A seed repeats a run; `npm run soak` kills a thousand times.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { walk } from "../../../../service/builder/files.ts";
import { hashOf } from "../../../../service/builder/release/link-or-copy.ts";
import { deployed, differences } from "../../../../service/builder/release/releases.ts";
import { pending } from "../../../../service/builder/run/markers.ts";
import { random } from "../../../fixtures.ts";
import {
  type Bench,
  bundledBuilder,
  cannotBuild,
  closeGitHost,
  copyOf,
  finish,
  kill,
  published,
  start,
} from "../harness.ts";
import { asset, says, siteFiles, writePage } from "../hugo-site.ts";

const pages = 12;

let site: Bench;
beforeEach(async ({ skip }) => {
  skip(cannotBuild !== undefined, cannotBuild);
  site = await published(1, { pages });
});
afterEach(() => site?.remove());
afterAll(closeGitHost);

/** Expects all pages and the asset of one revision to be served. Returns the revision. */
function seen(of: Bench): number {
  const revision = Number(/revision (\d+)/.exec(of.page())?.[1]);
  const manifest = deployed(of.places)!;
  const folder = of.places.release(manifest.release);
  for (let i = 0; i < pages; i += 1)
    expect(readFileSync(join(folder, `post/${i}/index.html`), "utf8")).toContain(says(revision));
  expect(readFileSync(join(folder, asset(revision)), "utf8")).not.toBe("");
  expect(differences(of.places, manifest)).toEqual([]);
  return revision;
}

const kills = Number(process.env.PUSHGATE_KILLS ?? 20);
const seed = Number(process.env.PUSHGATE_SEED ?? 20_261_121);

test(`the site stays whole and no push is lost after ${kills} kills, seed ${seed}`, {
  timeout: 60_000 + kills * 10_000,
}, async () => {
  const bundle = await bundledBuilder(site.folder);
  const next = random(seed);
  const hash = (folder: string) => {
    const all = createHash("sha256");
    for (const path of walk(folder).files) all.update(`${path} ${hashOf(join(folder, path))?.sha256}\n`);
    return all.digest("hex");
  };
  let revision = 1;
  let content = hash(site.content);
  let midway = 0;
  // As long as a run takes on this host, so that kills fall before, into and after it.
  let span = 600;
  for (let i = 0; i < kills; i += 1) {
    if (next() < 0.5) {
      revision += 1;
      site.repository.push(siteFiles(revision));
      site.deliver();
    }
    if (next() < 0.2) {
      writePage(site.content, Math.floor(next() * pages), `Written at kill ${i}.`);
      content = hash(site.content);
      site.request("content");
    }
    const child = start(site, bundle);
    const from = performance.now();
    const ended = new Promise((resolve) => child.once("close", resolve));
    await Promise.race([sleep(next() * span), ended]);
    if (child.exitCode === null) {
      midway += 1;
      kill(site, child);
    } else span = (span + (performance.now() - from) * 1.2) / 2;
    await ended;
    expect(seen(site)).toBeLessThanOrEqual(revision);
    expect(hash(site.content)).toBe(content);
    if (existsSync(site.places.status)) site.status();
  }
  expect(midway).toBeGreaterThan(kills / 4);

  site.tick();
  await finish(site, start(site, bundle));
  expect(seen(site)).toBe(revision);
  expect(pending(site.places)).toEqual([]);
  expect(readdirSync(site.builder.settings.spool)).toEqual([]);
  expect(site.status()).toMatchObject({ head: site.repository.head(), deployed: { commit: site.repository.head() } });
  expect(readdirSync(site.places.releases).length).toBeLessThanOrEqual(5);
  expect(hash(site.content)).toBe(content);
});

test("the builder's start removes what a kill left, also where nothing is to be built", async () => {
  const { places } = site;
  const left = [
    places.release("000009-half"),
    join(places.manifests, "000009-half.json.new"),
    join(places.clone, ".git/index.lock"),
    join(places.out, "half.html"),
  ];
  for (const path of left) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, "");
  }
  const child = start(site, await bundledBuilder(site.folder));
  await new Promise((resolve) => child.once("close", resolve));
  expect(left.filter((path) => existsSync(path))).toEqual([]);
  expect(seen(site)).toBe(1);
});

describe("killed before a change of the file system", () => {
  const points = Number(process.env.PUSHGATE_KILL_POINTS ?? 6);

  /** Runs the bundle until it is killed before its nth change. Returns the number of changes where it was not killed. */
  const killedAt = async (of: Bench, bundle: string, change: number) => {
    const child = start(of, bundle, {
      KILL_AT: String(change),
      NODE_OPTIONS: `--require ${new URL("kill-at.cjs", import.meta.url).pathname}`,
    });
    let said = "";
    child.stderr?.on("data", (part: Buffer) => {
      said += part;
    });
    await new Promise((resolve) => child.once("close", resolve));
    return Number(/changes: (\d+)/.exec(said)?.[1] ?? 0);
  };

  test(`the next start publishes, after each of ${points} evenly spread kills`, {
    timeout: 60_000 + points * 15_000,
  }, async () => {
    const bundle = await bundledBuilder(site.folder);
    site.repository.push(siteFiles(2));
    site.deliver();
    const whole = await copyOf(site);
    const all = await killedAt(whole, bundle, 0);
    expect(seen(whole)).toBe(2);
    whole.remove();
    expect(all).toBeGreaterThan(50);
    for (let i = 0; i < points; i += 1) {
      const change = Math.max(1, Math.round((all * (i + 1)) / (points + 1)));
      const one = await copyOf(site);
      expect(await killedAt(one, bundle, change), `change ${change} of ${all}`).toBe(0);
      seen(one);
      one.tick();
      await one.work();
      expect(seen(one), `after a kill at change ${change}`).toBe(2);
      expect(pending(one.places)).toEqual([]);
      expect(readdirSync(one.places.manifests).length).toBe(readdirSync(one.places.releases).length);
      one.remove();
    }
  });
});

test("without the late removal of markers a kill loses a push", async () => {
  // Killed before the fetch.
  const killed = [
    "run.ts",
    "const published = deployed(places);",
    'const published = deployed(places);\n  process.kill(process.pid, "SIGKILL");',
  ] as const;
  const early = [
    "build-pending.ts",
    "const batch = rollback ? [rollback] : markers;",
    "const batch = rollback ? [rollback] : markers;\n    removeDone(places, batch);",
  ] as const;
  const died = async (program: string) => {
    const child = start(site, program);
    await new Promise((resolve) => child.once("close", resolve));
  };
  site.repository.push(siteFiles(2));
  site.deliver();
  await died(await bundledBuilder(site.folder, killed));
  expect(pending(site.places)).toHaveLength(1);
  await died(await bundledBuilder(site.folder, killed, early));
  expect(pending(site.places)).toHaveLength(0);
  expect(site.page()).toContain(says(1));
});
