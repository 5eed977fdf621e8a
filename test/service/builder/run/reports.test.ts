/** What the builder has the reporter send: a result for each build, and a turn only where runs begin to fail or succeed. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Report, waiting } from "../../../../service/builder/outbox.ts";
import { take } from "../../../../service/builder/run/markers.ts";
import { reportResult, turnOf } from "../../../../service/builder/run/reports.ts";
import { Run } from "../../../../service/builder/run/status.ts";
import { reportEnd } from "../../../../service/builder/run/unit-end.ts";
import { type Bench, gitHost, onCopies } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

const folder = mkdtempSync(join(tmpdir(), "pushgate-reports-"));
const reports = { folder, status: true, notify: true };
const broken = { "layouts/index.html": "{{ nothing }}" };

const since = { since: "2026-01-01T00:00:00.000Z", attempts: 1, next: "2026-01-01T00:00:05.000Z" };
test.each([
  ["the first failure", undefined, since, "failure"],
  ["a further failure", since, { ...since, attempts: 2 }, undefined],
  ["the first success", since, undefined, "success"],
  ["a further success", undefined, undefined, undefined],
])("%s is a turn where runs begin to fail or succeed", (_, before, after, turn) => {
  expect(turnOf(before, after)).toBe(turn);
});

describe("a run", () => {
  let site: Bench;
  onCopies(
    1,
    (copy) => {
      site = copy;
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
    },
    { reports },
  );
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const all = (): Report[] => waiting(folder).map(({ report }) => report!);
  /** What was added since the last call: "status failure <commit>". */
  function added(): string[] {
    const found = all().map(({ to, state, commit }) => `${to} ${state} ${commit?.slice(0, 12) ?? "of no commit"}`);
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    return found;
  }
  const short = (commit: string): string => commit.slice(0, 12);
  async function push(files: Parameters<Bench["repository"]["push"]>[0]): Promise<string> {
    const commit = site.repository.push(files);
    site.deliver();
    await site.work();
    return short(commit);
  }

  test("a build is pending and then a success, of the commit that was built", async () => {
    const commit = await push(siteFiles(2));
    expect(all().map(({ reason }) => reason)).toEqual(["The build runs.", "Published."]);
    expect(added()).toEqual([`status pending ${commit}`, `status success ${commit}`]);
  });

  test("a first run that builds nothing reports nothing, without a warning", async () => {
    rmSync(site.places.reported);
    site.tick();
    expect((await site.work()).last).toMatchObject({ result: "nothing", warnings: [] });
    expect(added()).toEqual([]);
  });

  test("a failing build reports its reason in one line, and its next tries report nothing that is known", async () => {
    const commit = await push(broken);
    const [, failure, turn] = all();
    expect(failure!.reason).toMatch(/^the template layouts\/index\.html failed: .*"nothing" not defined/);
    expect(failure!.reason).not.toMatch(/[\n\r]/);
    expect(turn!.reason).toBe(failure!.reason);
    expect(added()).toEqual([`status pending ${commit}`, `status failure ${commit}`, `notify failure ${commit}`]);
    for (let i = 0; i < 2; i += 1) await site.work();
    expect(site.status().failing?.attempts).toBe(3);
    expect(added().filter((line) => !line.startsWith("status failure"))).toEqual([]);

    const next = await push({ "layouts/index.html": "{{ also }}" });
    expect(added()).toEqual([`status pending ${next}`, `status failure ${next}`]);
    const good = await push(siteFiles(3));
    expect(added()).toEqual([`status pending ${good}`, `status success ${good}`, `notify success ${good}`]);
  });

  test("a first build is pending without a former result", async () => {
    rmSync(site.places.reported);
    const commit = await push(siteFiles(2));
    expect(site.status().last.warnings).toEqual([]);
    expect(added()).toEqual([`status pending ${commit}`, `status success ${commit}`]);
  });

  test("a commit that is rejected before its build fails once for each reason", async () => {
    rmSync(site.places.reported);
    const commit = short(site.repository.push({ "static/large.txt": "words ".repeat(400_000) }));
    site.deliver();
    const { settings } = site.builder;
    const withMost = (releaseBytes: number) =>
      site.work({ ...site.builder, settings: { ...settings, limits: { ...settings.limits, releaseBytes } } });
    const { last } = await withMost(2 << 20);
    expect(last).toMatchObject({ result: "rejected", commit: null, warnings: [] });
    expect(added()).toEqual([`status failure ${commit}`, `notify failure ${commit}`]);
    await withMost(2 << 20);
    expect(added()).toEqual([]);
    await withMost(1 << 20);
    expect(site.status().last.reason).not.toBe(last.reason);
    expect(added()).toEqual([`status failure ${commit}`]);
  });

  test("a reason of several lines is reported in one", () => {
    const run = new Run([]).end({ result: "failed", commit: "c".repeat(40), reason: "  one\n\n  two \t three\n" });
    reportResult({ settings: site.builder.settings, places: site.places }, run, undefined);
    expect(all().map(({ reason }) => reason)).toEqual(["one two three"]);
  });

  test("a push that builds nothing and a requested build of the same commit report nothing", async () => {
    await push({ "README.md": "words" });
    site.repository.push(siteFiles(2));
    expect(added()).toEqual([]);
    site.tick();
    await site.work();
    added();
    site.request("again");
    await site.work();
    expect(site.status().last.result).toBe("published");
    expect(added()).toEqual([]);
  });

  test("a git host that is away is a turn without a commit", async () => {
    const { faults } = await gitHost();
    faults.status = 500;
    site.deliver();
    await site.work();
    delete faults.status;
    expect(added()).toEqual(["notify failure of no commit"]);
    await site.work();
    expect(added().map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual(["notify success"]);
  });

  test("a rollback is no build, whether it succeeds or not", async () => {
    await push(siteFiles(2));
    added();
    const [former] = site
      .status()
      .releases.map(({ id }) => id)
      .slice(-1);
    site.rollback(former!);
    await site.work();
    site.rollback("none");
    await site.work();
    expect(site.journal.slice(-2).map(({ result }) => result)).toEqual(["rolled back", "rejected"]);
    expect(added()).toEqual([]);
  });

  test("a builder that was killed reports the commit that it built, and a power cut leaves no commit pending", async () => {
    const { builder, places } = site;
    const killed = "a".repeat(40);
    writeFileSync(places.reported, JSON.stringify({ commit: killed, state: "pending", reason: "The build runs." }));
    site.deliver();
    take(places);
    reportEnd(builder.settings, places, { result: "oom-kill", code: "killed", status: "KILL" });
    expect(all()[0]!.reason).toMatch(/^the builder was killed at its memory limit/);
    expect(added()).toEqual([`status failure ${short(killed)}`, `notify failure ${short(killed)}`]);

    const cut = "b".repeat(40);
    writeFileSync(places.reported, JSON.stringify({ commit: cut, state: "pending", reason: "The build runs." }));
    const head = await push(siteFiles(2));
    expect(all()[0]).toMatchObject({ commit: cut, reason: "The build was interrupted." });
    expect(added()).toEqual([
      `status failure ${short(cut)}`,
      `status pending ${head}`,
      `status success ${head}`,
      `notify success ${head}`,
    ]);
  });

  test("a power cut leaves no commit pending either where the next head builds nothing", async () => {
    const cut = "b".repeat(40);
    writeFileSync(site.places.reported, JSON.stringify({ commit: cut, state: "pending", reason: "The build runs." }));
    await push({ "README.md": "words" });
    expect(added()).toEqual([`status failure ${short(cut)}`]);
    site.tick();
    await site.work();
    expect(added()).toEqual([]);
  });

  test("a result that a power cut took after the publish is reported with the next run", async () => {
    const head = site.repository.head()!;
    writeFileSync(site.places.reported, JSON.stringify({ commit: head, state: "pending", reason: "The build runs." }));
    site.tick();
    await site.work();
    expect(all()[0]!.reason).not.toBe("Published.");
    expect(added()).toEqual([`status success ${short(head)}`]);
    site.request("again");
    expect((await site.work()).last.result).toBe("published");
    expect(added()).toEqual([]);
  });

  test("only what is declared is written", async () => {
    const settings = { ...site.builder.settings, reports: { ...reports, status: false } };
    site.repository.push(broken);
    site.deliver();
    await site.work({ ...site.builder, settings });
    expect(added().map((line) => line.split(" ")[0])).toEqual(["notify"]);
    const { reports: _, ...without } = site.builder.settings;
    rmSync(site.places.reported);
    site.repository.push(siteFiles(4));
    site.deliver();
    expect((await site.work({ ...site.builder, settings: without })).last.result).toBe("published");
    expect(added()).toEqual([]);
    expect(existsSync(site.places.reported)).toBe(false);
  });

  test("an outbox that cannot be written is a warning, and the site is published", async () => {
    rmSync(folder, { recursive: true });
    const commit = await push(siteFiles(2));
    const { deployed, last } = site.status();
    expect(short(deployed!.commit!)).toBe(commit);
    const warning = expect.stringMatching(/^the result is not reported: .*ENOENT/);
    expect(last.warnings).toEqual([warning, warning]);
  });
});
