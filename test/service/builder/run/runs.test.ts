/** The files that the builder leaves of its last runs, for `npx pushgate deploys`. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildPending } from "../../../../service/builder/run/build-pending.ts";
import { pausesOf } from "../../../../service/builder/run/pauses.ts";
import { beginRun, endRun } from "../../../../service/builder/run/runs.ts";
import { lineOf, Run } from "../../../../service/builder/run/status.ts";
import { reportEnd } from "../../../../service/builder/run/unit-end.ts";
import { contextOf } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

onCopies(1);

const files = () => readdirSync(site.places.runs).sort();
const linesOf = (file: string) => readFileSync(join(site.places.runs, file), "utf8").trim().split("\n");
/** Each run's first line, the newest last. */
const kept = () => files().map((file) => JSON.parse(linesOf(file)[0]!));

test("each push is a run with its commit, its markers, its result, and what Hugo printed", async () => {
  const former = site.repository.push({ "README.md": "first\n" });
  const commit = site.repository.push(siteFiles(2), { message: "Add \x1b[31mthe\u202e map" });
  await site.delivered();
  site.push({ "README.md": "nothing to build\n" });
  const { last, deployed } = await site.work();
  site.request("a member's");
  await site.work();
  const release = deployed!.release;
  expect(kept().slice(1)).toMatchObject([
    { number: 2, result: "published", commit, release, pages: 5, trigger: ["delivery delivery-1"] },
    { number: 3, result: "nothing", commit: last.commit, reason: last.reason, trigger: ["delivery delivery-2"] },
    { number: 4, trigger: ["request of a writer (a member's)"] },
  ]);
  const commits = [[commit, former], [last.commit!], [last.commit!]].map((all) => all.map((one) => one.slice(0, 12)));
  expect(kept().map(({ commits }) => commits)).toEqual([[expect.stringMatching(/^\w{12}$/)], ...commits]);
  expect(kept()[1]).toMatchObject({ subject: "Add ?[31mthe? map", author: expect.stringMatching(/./) });
  expect(JSON.parse(linesOf(files()[1]!)[1]!)).toMatch(/^hugo v0\.[\s\S]*Total in /m);
});

test("a comparison of the timer that finds nothing leaves no run", async () => {
  site.tick();
  await site.work();
  expect(files()).toHaveLength(1);
});

test("a failure that is tried again is one run, and another reason is the next", async () => {
  site.push({ "layouts/index.html": "{{ nothing }}" });
  for (const attempts of [1, 2]) {
    await site.work();
    expect(kept().slice(1)).toMatchObject([{ number: 2, result: "failed", subject: /./, failing: { attempts } }]);
  }
  expect(JSON.parse(linesOf(files()[1]!)[1]!)).toContain('function "nothing" not defined');
  await site.pushed({ "layouts/index.html": "{{ other }}" });
  expect(await site.pushed(siteFiles(2))).not.toHaveProperty("failing");
  const ends = ["1 published", "2 failed", "3 failed", "4 published"];
  expect(kept().map(({ number, result }) => `${number} ${result}`)).toEqual(ends);
});

test("a builder that is killed leaves a run that says so, and after a power cut the next build does", () => {
  const commit = "a".repeat(40);
  const run = Object.assign(new Run(["tick"]), { about: { subject: "s" } });
  beginRun(site.places, commit, run);
  expect(kept()[1]).toMatchObject({ number: 2, result: "running", commit, subject: "s", trigger: ["tick"] });
  site.deliver();
  reportEnd(site.builder.settings, site.places, { result: "oom-kill", code: "killed", status: "KILL" });
  expect(kept()[1]).toMatchObject({ number: 2, result: "failed", commit, reason: /^the builder was killed/ });
  beginRun(site.places, commit, run);
  beginRun(site.places, commit, run);
  expect(kept()[2]).toMatchObject({ number: 3, result: "failed", reason: "the build was interrupted" });
  expect(kept()[3]).toMatchObject({ number: 4, result: "running" });
});

test("the last 50 runs stay, those of others in the folder are left, and one that is no JSON counts as none", () => {
  writeFileSync(join(site.places.runs, "own"), "");
  for (let i = 2; i <= 60; i++) {
    const run = new Run([]).end({ result: "published" });
    endRun(site.places, lineOf(site.places, "site", run, undefined), [], run);
  }
  expect([files().length, files()[0], files().at(-2)]).toEqual([51, "000000011.json", "000000060.json"]);
  writeFileSync(join(site.places.runs, "000000060.json"), "");
  const run = new Run([]).end({ result: "failed" });
  endRun(site.places, lineOf(site.places, "site", run, undefined), [], run);
  expect(files()).toContain("000000061.json");
});

test("a site is published all the same where the run's file cannot be written", async () => {
  rmSync(site.places.runs, { recursive: true });
  site.push(siteFiles(2));
  const pauses = pausesOf(site.builder.settings);
  await buildPending(
    contextOf(site),
    (entry) => void site.journal.push(entry),
    pauses,
    async () => true,
  );
  const warnings = [expect.stringMatching(/^the run's file could not be written/)];
  expect(site.journal).toMatchObject([{ result: "published", warnings }]);
});
