/** The real bundle, killed at random moments between a delivery and its page: readers see one whole site. */
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { deployed, differences } from "../../../../service/builder/release/releases.ts";
import { pending } from "../../../../service/builder/run/markers.ts";
import { random } from "../../../fixtures.ts";
import { type Bench, bundledBuilder, finish, kill, onCopies, start } from "../harness.ts";
import { asset, says, siteFiles, writePage } from "../hugo-site.ts";

const pages = 12;
let site: Bench;
onCopies(
  1,
  (copy) => {
    site = copy;
  },
  { pages },
);

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

test("the site stays whole and no push is lost after 20 kills", { timeout: 300_000 }, async () => {
  const bundle = await bundledBuilder(site.folder);
  const kills = 20;
  const next = random(20_261_121);
  let revision = 1;
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
      site.request("content");
    }
    const child = start(site, bundle);
    const from = performance.now();
    const ended = once(child, "close");
    await Promise.race([sleep(next() * span), ended]);
    if (child.exitCode === null) {
      midway += 1;
      kill(site, child);
    } else span = (span + (performance.now() - from) * 1.2) / 2;
    await ended;
    expect(seen(site)).toBeLessThanOrEqual(revision);
    if (existsSync(site.places.status)) site.status();
  }
  expect(midway).toBeGreaterThan(kills / 4);

  site.tick();
  await finish(site, start(site, bundle));
  expect(seen(site)).toBe(revision);
  expect([pending(site.places), readdirSync(site.places.spool)]).toEqual([[], []]);
  expect(site.status()).toMatchObject({ head: site.repository.head(), deployed: { commit: site.repository.head() } });
  expect(readdirSync(site.places.releases).length).toBeLessThanOrEqual(5);
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
  await once(start(site, await bundledBuilder(site.folder)), "close");
  expect(left.filter((path) => existsSync(path))).toEqual([]);
  expect(seen(site)).toBe(1);
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
  site.repository.push(siteFiles(2));
  site.deliver();
  for (const [without, markers] of [
    [[killed], 1],
    [[killed, early], 0],
  ] as const) {
    await once(start(site, await bundledBuilder(site.folder, ...without)), "close");
    expect(pending(site.places)).toHaveLength(markers);
  }
  expect(site.page()).toContain(says(1));
});
