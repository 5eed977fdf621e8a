/** When a run starts, how often it is tried again, and what the program prints and exits with. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { releases } from "../../../../service/builder/release/releases.ts";
import { buildPending, removeLeftovers } from "../../../../service/builder/run/build-pending.ts";
import { pending } from "../../../../service/builder/run/markers.ts";
import { type Pauses, pausesOf } from "../../../../service/builder/run/pauses.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { readBuilder } from "../../../../service/builder/settings.ts";
import { environment } from "../../../../service/builder/source/git.ts";
import { SettingsFault } from "../../../../service/settings.ts";
import {
  type Bench,
  bundledBuilder,
  cannotBuild,
  contextOf,
  finish,
  gitHost,
  makeReleases,
  onCopies,
  releaseId,
  start,
  untilFailure,
} from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

const always = async () => true;

describe("a run", () => {
  let site: Bench;
  onCopies(1, (copy) => {
    site = copy;
  });

  test("the first push of a burst is built at once, and all that arrive meanwhile are one build of the newest commit", async () => {
    site.deliver();
    const first = site.repository.head();
    const working = site.work();
    // The builder takes the first delivery before it waits for git for the first time.
    await expect.poll(() => readdirSync(site.places.spool)).toEqual([]);
    for (let i = 2; i < 7; i += 1) {
      site.repository.push(siteFiles(i));
      site.deliver();
    }
    const { deployed } = await working;
    expect(site.journal.map(({ trigger }) => trigger.length)).toEqual([1, 5]);
    expect(deployed?.commit).toBe(site.repository.head());
    expect(deployed?.commit).not.toBe(first);
  });

  test("a status.json that cannot be written is a warning, and the push is published", async () => {
    rmSync(site.places.status);
    mkdirSync(join(site.places.status, "in the way"), { recursive: true });
    site.repository.push(siteFiles(2));
    site.deliver();
    await site.work().catch(() => {});
    expect(site.journal).toMatchObject([{ result: "published" }]);
    expect(site.journal[0]!.warnings).toEqual([expect.stringMatching(/^status\.json could not be written: E\w+: /)]);
  });

  test("what a killed run left is removed: output, half a release, git's locks", () => {
    const { out, release, clone } = site.places;
    const left = [out, release(releaseId(9)), join(clone, ".git/index.lock")];
    for (const folder of left) mkdirSync(folder, { recursive: true });
    rmSync(left[2]!, { recursive: true });
    writeFileSync(left[2]!, "");
    removeLeftovers(site.places);
    expect(left.filter((path) => existsSync(path))).toEqual([]);
  });

  test("five releases stay, at the start and after a publish, which leaves no output either", async () => {
    makeReleases(site.places, 11, 12, 13, 14, 15, 16, 17);
    await site.work();
    expect(releases(site.places)).toHaveLength(5);
    site.repository.push(siteFiles(2));
    site.deliver();
    await site.work();
    expect(site.journal).toMatchObject([{ result: "published", release: site.status().deployed!.release }]);
    expect(releases(site.places)).toHaveLength(5);
    // Those that are being removed are none of them.
    expect(site.status().releases.map(({ id }) => id)).toEqual(releases(site.places));
    expect(existsSync(site.places.out)).toBe(false);
  });

  test.each([
    ["failed", { "layouts/index.html": "{{ nothing }}" }],
    ["rejected", { "layouts/index.html": "" }],
  ])("a run with the result %s leaves neither output nor checkout", async (result, files) => {
    site.repository.push(files);
    site.deliver();
    expect((await site.work()).last.result).toBe(result);
    expect(existsSync(site.places.out)).toBe(false);
    expect(readdirSync(site.places.clone)).toEqual([".git"]);
  });

  test("a rollback runs alone, and a delivery beside it is a run of its own", async () => {
    site.repository.push(siteFiles(2));
    site.deliver();
    site.rollback("none");
    await site.work();
    expect(site.journal.map(({ trigger, result }) => [trigger.length, result])).toEqual([
      [1, "rejected"],
      [1, "published"],
    ]);
  });

  test("the builder reports to its program that it ended at a failure, or that nothing is pending", async () => {
    const settings = { ...site.builder.settings, repository: "https://git.invalid/gone.git" };
    site.deliver();
    expect(await untilFailure({ ...contextOf(site), settings })).toBe(false);
    expect(await untilFailure(contextOf(site))).toBe(true);
  });

  test("the builder reports to its program that it may not run, and takes no marker", async () => {
    site.repository.push(siteFiles(2));
    site.deliver();
    const never = async () => false;
    expect(await buildPending(contextOf(site), () => {}, pausesOf(site.builder.settings), never)).toBe(false);
    expect(readdirSync(site.places.spool)).toHaveLength(1);
  });

  describe("before a pause that is long", () => {
    const pauses: Pauses = { first: 1, rests: 0, longest: 60_000, least: 0 };
    const at = (file: string) => (existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : []);
    /** Of one failing run. */
    async function fails() {
      const { faults } = await gitHost();
      faults.status = 500;
      expect(await buildPending(contextOf(site), (entry) => void site.journal.push(entry), pauses, always)).toBe(true);
      delete faults.status;
    }

    test("the builder parks all markers and ends, and the next marker has them built", async () => {
      site.repository.push(siteFiles(2));
      site.deliver();
      site.tick();
      await fails();
      await fails();
      const { parked, taken, spool, rootRequests } = site.places;
      expect([at(parked), at(taken), ...[spool, rootRequests].map((folder) => readdirSync(folder))]).toEqual([
        ["delivery delivery-1", "tick"],
        ...[[], [], []],
      ]);
      expect(site.status().failing).toMatchObject({ attempts: 2 });
      site.deliver();
      expect((await site.work()).last).toMatchObject({
        result: "published",
        trigger: ["delivery delivery-1", "tick", "delivery delivery-2"],
      });
      expect([pending(site.places), at(parked)]).toEqual([[], []]);
    });
  });

  test("a run reports how long each of its steps took, and notes the commit that is checked out", async () => {
    const commit = site.repository.push(siteFiles(2));
    site.deliver();
    const { last } = await site.work();
    const { total, ...steps } = last.milliseconds;
    expect(Object.keys(steps).sort()).toEqual(["build", "checkout", "decide", "fetch", "publish"]);
    for (const each of Object.values(steps))
      expect([each, each > 0, each <= total]).toEqual([Math.round(each), true, true]);
    expect(total).toBeLessThan(60_000);
    expect(readFileSync(site.places.checkedOut, "utf8")).toBe(`${commit}\n`);
  });

  test("status.json has the time when the run ended, how long it took, and the head where it builds nothing", async () => {
    const [at, from] = [Date.now(), performance.now()];
    site.deliver();
    const { last } = await site.work();
    const took = performance.now() - from;
    expect(last).toMatchObject({ result: "nothing", commit: site.repository.head() });
    expect(Date.parse(last.at)).toBeGreaterThanOrEqual(at);
    expect(Date.parse(last.at)).toBeLessThanOrEqual(at + took + 1);
    expect(last.milliseconds.total).toBeLessThanOrEqual(took + 1);
  });

  test("a schedule without a change makes no release", async () => {
    const { deployed } = site.status();
    site.scheduled();
    const reason = `scheduled: the build is the same as ${deployed!.release}`;
    expect(await site.work()).toMatchObject({ deployed, last: { result: "nothing", reason } });
  });

  test("status.json lists no release without a manifest that can be read", async () => {
    for (const revision of [2, 3]) {
      site.repository.push(siteFiles(revision));
      site.deliver();
      await site.work();
    }
    const all = site.status().releases.map(({ id }) => id);
    expect(all).toHaveLength(3);
    rmSync(site.places.manifest(all[1]!));
    mkdirSync(site.places.release(releaseId(20)));
    writeFileSync(site.places.manifest(releaseId(20)), "{");
    site.tick();
    expect((await site.work()).releases.map(({ id }) => id)).toEqual([all[0], all[2]]);
  });

  test("the reason names the first of several faults, and counts the others", async () => {
    for (const folder of [site.builder.settings.spool, site.builder.settings.requests])
      rmSync(folder, { recursive: true });
    site.tick();
    await site.work();
    const [failed] = site.journal.filter((entry) => entry.result === "failed");
    expect([failed?.trigger, failed?.reason]).toEqual([
      [],
      `${site.builder.settings.spool} is missing. Run systemd-tmpfiles --create, which makes it. And 1 more.`,
    ]);
  });

  test("the program prints one line a run and exits when nothing is pending", async () => {
    const bundle = await bundledBuilder(site.folder);
    site.repository.push(siteFiles(2));
    site.deliver();
    const child = start(site, bundle);
    let said = "";
    child.stdout?.on("data", (part: Buffer) => {
      said += part;
    });
    expect((await finish(site, child)).last.result).toBe("published");
    const lines = said.trim().split("\n");
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0]!)).toMatchObject({
      hook: "site",
      result: "published",
      trigger: ["delivery delivery-1"],
    });
  });
});

describe("settings", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pushgate-settings-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const good: BuilderSettings = {
    hook: "site",
    repository: "https://git.example.org/site.git",
    branch: "main",
    spool: "/var/spool/pushgate/site",
    requests: "/var/spool/pushgate-publish/site",
    rootRequests: "/var/spool/pushgate-root/site",
    site: "/var/lib/pushgate-sites/site",
    content: "/srv/content",
    paths: ["layouts/"],
    folders: ["downloads"],
    assets: ["css"],
    submodules: true,
    reconcileMinutes: 15,
    generator: { socket: "/run/pushgate/hugo-site", result: "/run/pushgate/results/site/last" },
    limits: {
      releaseBytes: 1,
      pagesPercent: 50,
      seconds: 600,
      memoryMiB: 1024,
      tasks: 256,
    },
  };
  const overSsh = {
    repository: "git@git.example.org:site.git",
    knownHosts: "/etc/pushgate/builder/site.known_hosts",
    agent: "/run/pushgate-agent-site/socket",
  };
  const read = (settings: unknown) => {
    const file = join(folder, "site.json");
    writeFileSync(file, JSON.stringify(settings));
    return readBuilder({ PUSHGATE_SETTINGS: file });
  };
  const faults = (settings: unknown): string => {
    try {
      read(settings);
      return "";
    } catch (error) {
      if (!(error instanceof SettingsFault)) throw error;
      return error.faults.join("\n");
    }
  };

  test("the builder reads the rendered settings, over https and over SSH", () => {
    expect(read(good).settings).toEqual(good);
    expect(read({ ...good, ...overSsh }).settings).toEqual({ ...good, ...overSsh });
    expect(read({ ...good, later: "a newer key" }).settings).toEqual(good);
  });

  test("all faults are reported at once, each with its key and what to do", () => {
    const wrong = {
      ...good,
      repository: "file:///etc",
      branch: "-x",
      folders: [""],
      site: "relative",
      generator: {},
      limits: { ...good.limits, seconds: 0 },
    };
    const said = faults(wrong);
    for (const key of [
      "repository",
      "branch",
      "folders.0",
      "site",
      "generator.socket",
      "generator.result",
      "limits.seconds",
    ])
      expect(said).toMatch(new RegExp(`: ${key}: .+\\. Run npx pulumi up, which writes it anew\\.$`, "m"));
  });

  test("the program prints the faults and exits 78", async ({ skip }) => {
    skip(cannotBuild !== undefined, cannotBuild);
    mkdirSync(join(folder, "empty"));
    const run = spawnSync(process.execPath, [await bundledBuilder(folder)], {
      cwd: join(folder, "empty"),
      env: {},
      encoding: "utf8",
    });
    expect(run.stderr).toContain("pushgate-builder: 1 fault, not started:\n  PUSHGATE_SETTINGS is not set");
    expect(run.status).toBe(78);
  });

  test("ssh uses the pinned host key and the agent, and no configuration, key or agent of the host", () => {
    const builder = read({ ...good, ...overSsh, knownHosts: "/etc/push gate/it's" });
    // git passes the command to a shell; printf in place of ssh prints its arguments.
    const { GIT_SSH_COMMAND: command } = environment(builder);
    const echoed = spawnSync("sh", ["-c", `${command!.replace(/^ssh/, "printf '%s\\n'")} git@host`], {
      encoding: "utf8",
    });
    const words = echoed.stdout.split("\n");
    expect(words).toEqual(expect.arrayContaining(["-F", "none", `IdentityAgent="${overSsh.agent}"`]));
    expect(words).toContain(`UserKnownHostsFile="/etc/push gate/it's"`);
    for (const option of ["StrictHostKeyChecking=yes", "IdentityFile=none", "PreferredAuthentications=publickey"])
      expect(words).toContain(option);
  });
});
