/** What replays of accepted deliveries make the builder do: it fetches the branch's head, whatever a delivery names. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Bench, onCopies } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});

/** As the receiver spools it. */
const spool = (id: string, after: string) => {
  const delivery = { delivery: id, ref: "refs/heads/main", after };
  writeFileSync(join(site.places.spool, `${id}.json`), `${JSON.stringify(delivery)}\n`);
};

test("10,000 replays of a published push are one run, which builds nothing", { timeout: 120_000 }, async () => {
  const head = site.repository.head()!;
  for (let i = 0; i < 10_000; i++) spool(`replay-${i}`, head);
  const { last, deployed } = await site.work();
  expect([site.journal.length, last.result, deployed?.commit]).toEqual([1, "nothing", head]);
});

test("the replay of an old delivery, before and after the newer one, publishes the branch's head and not the old commit", async () => {
  const old = site.repository.head()!;
  const head = site.repository.push(siteFiles(3));
  for (const result of ["published", "nothing"]) {
    spool("replayed", old);
    const { deployed, last } = await site.work();
    expect([deployed?.commit, last.result]).toEqual([head, result]);
  }
});
