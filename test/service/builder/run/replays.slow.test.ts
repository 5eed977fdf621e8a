/** What replays of accepted deliveries make the builder do: it fetches the branch's head, whatever a delivery names. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type Bench, closeGitHost, onCopies } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";

let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});
afterAll(closeGitHost);

/** As the receiver spools it. */
const spool = (id: string, after: string) =>
  writeFileSync(
    join(site.places.spool, `${id}.json`),
    `${JSON.stringify({ delivery: id, ref: "refs/heads/main", after })}\n`,
  );

test("10,000 replays of a published push are one run, which builds nothing", { timeout: 120_000 }, async () => {
  const { journal } = site;
  const before = journal.length;
  const head = site.repository.head()!;
  for (let i = 0; i < 10_000; i++) spool(`replay-${i}`, head);
  const { last, deployed } = await site.work();
  expect(journal.length).toBe(before + 1);
  expect([last.result, deployed?.commit]).toEqual(["nothing", head]);
  expect(last.milliseconds.build).toBe(0);
});

test("the replay of an old delivery after a newer push publishes the branch's head, not the old commit", async () => {
  const old = site.repository.head()!;
  const head = site.repository.push(siteFiles(3));
  spool("newer", head);
  expect((await site.work()).deployed?.commit).toBe(head);
  spool("replayed", old);
  const { deployed, last } = await site.work();
  expect([deployed?.commit, last.result]).toEqual([head, "nothing"]);
  expect(site.page()).toContain(says(3));
});

test("the replay of an old delivery before the newer one came publishes the branch's head at once", async () => {
  const old = site.repository.head()!;
  const head = site.repository.push(siteFiles(3));
  spool("replayed", old);
  expect((await site.work()).deployed?.commit).toBe(head);
});

test("status.json counts the runs by how they ended, and has the time of the last good one", async () => {
  const before = await site.work();
  const counts = { ...before.runs };
  spool("again", "");
  const { runs, succeeded, last } = await site.work();
  expect(runs).toEqual({ ...counts, nothing: (counts.nothing ?? 0) + 1 });
  expect(succeeded).toBe(last.at);
  site.repository.push({ ...siteFiles(4), "layouts/index.html": "{{ .Broken" });
  spool("broken", "");
  const failed = await site.work().catch(() => undefined);
  expect(failed).toMatchObject({ runs: { ...runs, failed: (runs.failed ?? 0) + 1 }, succeeded });
});
