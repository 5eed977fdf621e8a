/** What the builder has the reporter send: a result for each build, and a turn only where runs begin to fail or succeed. */
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { type Report, waiting } from "../../../../service/builder/outbox.ts";
import { holdHead } from "../../../../service/builder/places.ts";
import { draft, seal, switchTo } from "../../../../service/builder/release/releases.ts";
import { reportBegin, reportPurge, reportResult } from "../../../../service/builder/run/reports.ts";
import { Run } from "../../../../service/builder/run/status.ts";
import { reportEnd } from "../../../../service/builder/run/unit-end.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import type { Files } from "../../../fakes/git-repository.ts";
import { makeReleases, manifestOf, releaseId } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";
import { onCopies, onPlaces, places, site } from "../scene.ts";

const notify = [{ name: "team", published: false }];
let folder: string;
const all = (): Report[] => waiting(folder).map(({ report }) => report!);
/** What was added since the last call: "status failure aaaaaa". */
function added(): string[] {
  const found = all().map(({ to, state, commit }) => `${to} ${state} ${commit?.slice(0, 6) ?? "of no commit"}`);
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  return found;
}

describe("a result", () => {
  const [a, b, c] = ["a", "b", "c"].map((digit) => digit.repeat(40)) as [string, string, string];
  let settings: BuilderSettings;
  onPlaces();
  const declare = (reports: Partial<BuilderSettings["reports"]> = {}) => {
    settings = { hook: "site", reports: { folder, status: true, purge: false, notify, ...reports } } as BuilderSettings;
  };
  beforeEach(() => {
    folder = join(places.site, "reports");
    mkdirSync(folder);
    declare();
  });

  const begin = (commit: string) => reportBegin({ settings, places }, commit, new Run([]));
  const end = (last: Partial<Run["last"]>, turn?: Parameters<typeof reportResult>[2], head: string | null = null) => {
    const run = new Run([]).end(last);
    run.head = head;
    reportResult({ settings, places }, run, turn);
  };
  /** A builder that was killed, or a power cut, in the middle of a build. */
  const interrupted = (commit: string) =>
    writeFileSync(places.reported, JSON.stringify({ commit, state: "pending", reason: "The build runs." }));

  test("of a failing build has its reason in one line, and its next tries report nothing that is known", () => {
    begin(a);
    const failure = { result: "failed", commit: a, reason: "  one\n\n  two \t three\n" } as const;
    end(failure, "failure");
    expect(all().map(({ reason }) => reason)).toEqual(["The build runs.", "one two three", "one two three"]);
    expect(added()).toEqual(["status pending aaaaaa", "status failure aaaaaa", "notify.team failure aaaaaa"]);
    begin(a);
    end(failure);
    expect(added()).toEqual([]);
    end({ ...failure, reason: "another" });
    expect(added()).toEqual(["status failure aaaaaa"]);
    begin(b);
    end({ ...failure, commit: b });
    expect(added()).toEqual(["status pending bbbbbb", "status failure bbbbbb"]);
    begin(c);
    end({ result: "published", commit: c }, "success");
    const [begun, ended] = all();
    expect([begun!.reason, ended!.reason]).toEqual(["The build runs.", "Published."]);
    expect(added()).toEqual(["status pending cccccc", "status success cccccc", "notify.team success cccccc"]);
    // A requested build of the same commit, and a push that builds nothing.
    begin(c);
    end({ result: "published", commit: c });
    end({ result: "nothing", commit: a });
    expect(added()).toEqual([]);
    for (const warnings of [["one"], ["one", "two"]]) end({ result: "published", commit: c, warnings });
    const words = ["Published, with 1 warning: one", "Published, with 2 warnings: one; two"];
    expect(all().map(({ reason }) => reason)).toEqual(words);
  });

  test("is of the branch's head where its commit was rejected before its build, and of none without a git host", () => {
    end({ result: "rejected", reason: "too large" }, "failure", a);
    expect(added()).toEqual(["status failure aaaaaa", "notify.team failure aaaaaa"]);
    end({ result: "failed", reason: "away" }, "failure");
    expect(added()).toEqual(["notify.team failure of no commit"]);
  });

  test("of a builder that was killed is of the commit that it built", () => {
    interrupted(a);
    writeFileSync(join(places.spool, "delivery-1.json"), "");
    reportEnd(settings, places, { result: "oom-kill", code: "killed", status: "KILL" });
    expect(all()[0]!.reason).toMatch(/^the builder was killed at its memory limit/);
    expect(added()).toEqual(["status failure aaaaaa", "notify.team failure aaaaaa"]);
  });

  test("of a build that a power cut interrupted follows with the next run, also where that builds nothing", () => {
    interrupted(a);
    begin(b);
    expect(all()[0]).toMatchObject({ commit: a, reason: "The build was interrupted." });
    expect(added()).toEqual(["status failure aaaaaa", "status pending bbbbbb"]);
    end({ result: "nothing", commit: c });
    expect(added()).toEqual(["status failure bbbbbb"]);
    end({ result: "nothing", commit: c });
    expect(added()).toEqual([]);
    // This one was published.
    interrupted(c);
    end({ result: "nothing", commit: c, reason: "published already" });
    expect(all()[0]!.reason).toBe("published already");
    expect(added()).toEqual(["status success cccccc"]);
  });

  test("of the published commit is a success again with a run that builds nothing, but for a rollback's", () => {
    makeReleases(places, 1);
    switchTo(places, releaseId(1));
    const sent = (commit: string, held: string) => {
      holdHead(places, held);
      end({ result: "failed", commit });
      added();
      end({ result: "nothing", commit });
      return added();
    };
    expect([sent(b, c), sent(a, a), sent(a, c)]).toEqual([[], [], ["status success aaaaaa"]]);
  });

  test("of each publish goes to the recipients that want it, once also where it is a turn", () => {
    declare({ status: false, notify: [...notify, { name: "all", published: true }] });
    const [bad, good] = [{ result: "failed", commit: a } as const, { result: "published", commit: b } as const];
    end(bad, "failure");
    end(bad);
    end(good, "success");
    expect(added()).toEqual(
      ["failure aaaaaa", "success bbbbbb"].flatMap((of) => ["team", "all"].map((name) => `notify.${name} ${of}`)),
    );
    end(good);
    for (const result of ["nothing", "rolled back"] as const) end({ result, commit: b });
    expect(added()).toEqual(["notify.all published bbbbbb"]);
  });

  test("is written only where it is declared", () => {
    declare({ status: false });
    end({ result: "failed", commit: a }, "failure");
    declare({ notify: [] });
    end({ result: "failed", commit: b }, "failure");
    expect(added()).toEqual(["notify.team failure aaaaaa", "status failure bbbbbb"]);
    rmSync(places.reported);
    settings = { hook: "site" } as BuilderSettings;
    begin(c);
    end({ result: "published", commit: c }, "success");
    expect([added(), existsSync(places.reported)]).toEqual([[], false]);
  });
});

describe("a purge", () => {
  onPlaces();
  beforeEach(() => {
    folder = join(places.site, "reports");
    mkdirSync(folder);
  });
  /** Publishes a release of these files, by their hashes; what is to be purged then. */
  const published = (number: number, hashes: Readonly<Record<string, string>>) => {
    const [release, size] = [releaseId(number), 1];
    const files = Object.entries(hashes).map(([path, sha256]) => [path, { size, sha256, built: release }] as const);
    mkdirSync(places.release(release));
    draft(places, manifestOf(release, new Map(files)));
    seal(places, release);
    return switched(number);
  };
  const switched = (number: number) => {
    switchTo(places, releaseId(number));
    return purged();
  };
  const purged = (purge = true, to = folder) => {
    const run = new Run([]);
    reportPurge({ settings: { reports: { folder: to, status: false, notify: [], purge } }, places }, run);
    const found = all().map(({ paths }) => paths?.join(" ") ?? "all");
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
    return [...found, ...run.last.warnings];
  };
  const many = (count: number, more = "", hash = "1") =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`${i}${more}.txt`, hash]));

  test("is of all at first, then of each URL that a release or a rollback changes, once", () => {
    expect(published(1, { "index.html": "1", "posts/a/index.html": "1", "x.css": "1" })).toEqual(["all"]);
    expect(purged()).toEqual([]);
    const second = {
      "index.html": "2",
      "posts/b/index.html": "1",
      "x.css": "1",
      "myindex.html": "1",
      "index.htmlx": "1",
    };
    expect(published(2, second)).toEqual([
      "index.html  posts/a/index.html posts/a/ posts/b/index.html posts/b/ myindex.html index.htmlx",
    ]);
    expect(published(3, second)).toEqual([]);
    expect(switched(1)).toEqual([expect.stringMatching(/^index.html /)]);
    // A builder that was killed, or had no room, between publish and report.
    switchTo(places, releaseId(2));
    expect(purged(true, "/missing")).toEqual([expect.stringContaining("ENOENT")]);
    expect(purged()).toEqual([expect.stringMatching(/^index.html /)]);
  });

  test("is of 30 URLs a request, and of all where that is too many, too long, or the former release is unknown", () => {
    published(1, {});
    expect(published(2, many(31))).toEqual([expect.stringMatching(/^(\d+\.txt ?){30}$/), "30.txt"]);
    expect(published(3, many(300, "", "2"))).toHaveLength(10);
    expect(published(4, many(301, "", "3"))).toEqual(["all"]);
    expect(published(5, many(301, "", "3"))).toEqual([]);
    published(6, many(30, "x".repeat(200)));
    expect(published(7, many(30, "x".repeat(200), "2"))).toEqual(["all"]);
    writeFileSync(places.purged, "000000-gone");
    expect(published(8, {})).toEqual(["all"]);
  });

  test("is nothing where no release is published, or site.purge is not set", () => {
    expect(purged()).toEqual([]);
    published(1, { "index.html": "1" });
    rmSync(places.purged);
    expect([purged(false), existsSync(places.purged)]).toEqual([[], false]);
  });
});

describe("a run", () => {
  const outside = join(tmpdir(), `pushgate-reports-${process.pid}`);
  onCopies(1, { reports: { folder: outside, status: true, notify, purge: true } });
  beforeEach(() => {
    folder = outside;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
  });

  test("reports the commit that it builds, turns, and what is published; a rollback is no build, whether it succeeds or not", async () => {
    const short = () => site.repository.head()!.slice(0, 6);
    const first = short();
    /** What the push of these files reports in its state; the release of this commit is purged. */
    const reported = async (files: Files, state: string, purged = short) => {
      await site.pushed(files);
      const own = ["status pending", `status ${state}`, `notify.team ${state}`].map((of) => `${of} ${short()}`);
      expect(added()).toEqual([...own, `purge success ${purged()}`]);
    };
    await reported({ "layouts/index.html": "{{ nothing }}" }, "failure", () => first);
    await site.work();
    expect(added()).toEqual([]);
    await reported(siteFiles(2), "success");
    for (const release of [site.status().releases[1]!.id, "none"]) {
      site.rollback(release);
      await site.work();
    }
    expect(site.journal.slice(-2).map(({ result }) => result)).toEqual(["rolled back", "rejected"]);
    expect(added()).toEqual([`purge success ${first}`]);
    rmSync(folder, { recursive: true });
  });
});
