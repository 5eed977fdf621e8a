/** When a run starts, how often it is tried again, and what the program prints and exits with. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { armoured, environment } from "../../../service/builder/git.ts";
import { pending } from "../../../service/builder/markers.ts";
import { serve } from "../../../service/builder/serve.ts";
import type { BuilderSettings } from "../../../service/builder/settings.ts";
import type { Entry } from "../../../service/builder/status.ts";
import { readBuilder, SettingsFault } from "../../../service/settings.ts";
import { type Bench, bundledBuilder, cannotBuild, finish, gitHost, onCopies, start } from "./harness.ts";
import { siteFiles } from "./hugo-site.ts";

describe("a run", () => {
  let site: Bench;
  onCopies(1, (copy) => {
    site = copy;
  });

  const quiet = (milliseconds: number) => {
    const { settings } = site.builder;
    return {
      ...site.builder,
      settings: { ...settings, limits: { ...settings.limits, debounceMilliseconds: milliseconds } },
    };
  };

  test("a burst of pushes is one build of the newest commit", async () => {
    const builder = quiet(300);
    site.deliver();
    const working = site.work(builder);
    for (let i = 2; i < 7; i += 1) {
      await sleep(50);
      site.repository.push(siteFiles(i));
      site.deliver();
    }
    const { last, deployed } = await working;
    expect(last.trigger).toHaveLength(6);
    expect(last.milliseconds.debounce).toBeGreaterThanOrEqual(300);
    expect(deployed?.commit).toBe(site.repository.head());
    expect(site.journal.map(({ result }) => result)).toEqual(["published"]);
  });

  test("endless pushes delay a build by five debounces, and a request of root by none", async () => {
    const builder = quiet(100);
    site.deliver();
    const pushing = setInterval(() => {
      if (site.journal.length === 0) site.deliver();
    }, 20);
    await site.work(builder);
    clearInterval(pushing);
    expect(site.journal[0]!.milliseconds.debounce).toBeGreaterThan(400);
    site.tick();
    expect((await site.work(quiet(10_000))).last.milliseconds.debounce).toBeLessThan(2_000);
  });

  test("the builder tries again after growing pauses, which a new marker cuts short", async () => {
    const { faults } = await gitHost();
    faults.status = 500;
    const tries: number[] = [];
    const entries: Entry[] = [];
    const { settings } = site.builder;
    const at = { settings, places: site.places, git: armoured(site.builder) };
    const journal = (entry: Entry) => {
      tries.push(performance.now());
      entries.push(entry);
      // After the second failure a push comes, and the git host answers again.
      if (entries.length === 2) {
        delete faults.status;
        site.repository.push(siteFiles(2));
        setTimeout(() => site.deliver(), 50);
      }
    };
    site.deliver();
    await serve(at, journal, { first: 400, longest: 30_000, least: 50 });
    expect(entries.map(({ result }) => result)).toEqual(["failed", "failed", "published"]);
    expect(entries.map(({ failing }) => failing?.attempts)).toEqual([1, 2, undefined]);
    expect(tries[1]! - tries[0]!).toBeGreaterThan(400);
    expect(entries[2]?.trigger).toHaveLength(2);
    expect(pending(site.places)).toEqual([]);
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
    asks: "/var/spool/pushgate-publish/site",
    site: "/var/lib/pushgate-sites/site",
    content: "/srv/content",
    webRoot: "/srv/www",
    paths: ["layouts/"],
    keep: ["uploads"],
    assets: ["css"],
    submodules: false,
    hugo: { socket: "/run/pushgate/hugo-site" },
    limits: {
      releaseBytes: 1,
      pagesPercent: 50,
      seconds: 600,
      debounceMilliseconds: 1_000,
      memoryMiB: 1024,
      tasks: 256,
    },
  };
  const overSsh = { repository: "git@git.example.org:site.git", knownHosts: "/etc/pushgate/builder/site.known_hosts" };
  const key = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
  const read = (settings: unknown, credential?: string) => {
    const file = join(folder, "site.json");
    writeFileSync(file, JSON.stringify(settings));
    if (credential !== undefined) writeFileSync(join(folder, "deploy-key"), credential);
    return readBuilder({ PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: folder });
  };
  const faults = (settings: unknown, credential?: string): string => {
    try {
      read(settings, credential);
      return "";
    } catch (error) {
      if (!(error instanceof SettingsFault)) throw error;
      return error.faults.join("\n");
    }
  };

  test("the builder reads the rendered settings, over https and over ssh", () => {
    expect(read(good).settings).toEqual(good);
    const builder = read({ ...good, ...overSsh }, key);
    expect(builder.deployKey).toBe(join(folder, "deploy-key"));
    expect(read({ ...good, later: "a newer key" }).settings).toEqual(good);
  });

  test("all faults are reported at once, each with its key and what to do", () => {
    const wrong = {
      ...good,
      repository: "file:///etc",
      branch: "-x",
      keep: ["../etc"],
      site: "relative",
      hugo: {},
      limits: { ...good.limits, seconds: 0 },
    };
    const said = faults(wrong);
    for (const words of ["repository: write an https:// or ssh", "branch: is not", "keep.0: write a path below"])
      expect(said).toContain(words);
    for (const words of [
      "site: write the absolute path",
      "hugo.socket: write the absolute path",
      "limits.seconds: write a whole number",
    ])
      expect(said).toContain(words);
    expect(faults({ ...good, repository: overSsh.repository })).toContain("`knownHosts` is missing");
  });

  test.each([
    ["a missing key", undefined, "is not readable (ENOENT): the unit's LoadCredentialEncrypted=deploy-key"],
    ["half a key", key.slice(0, -10), "is not a private key with its BEGIN and END lines"],
    ["a key without its last line feed", key.trimEnd(), "each ended by a line feed"],
  ])("the faults name %s, and do not quote the key", (_name, credential, reason) => {
    expect(faults({ ...good, ...overSsh }, credential)).toContain(reason);
    expect(faults({ ...good, ...overSsh }, credential)).not.toContain("AAAA");
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

  test("ssh uses the pinned host key and the deploy key, and no configuration of the host", () => {
    const builder = read({ ...good, ...overSsh, knownHosts: "/etc/push gate/it's" }, key);
    // git passes the command to a shell; printf in place of ssh prints its arguments.
    const { GIT_SSH_COMMAND: command } = environment(builder);
    const echoed = spawnSync("sh", ["-c", `${command!.replace(/^ssh/, "printf '%s\\n'")} git@host`], {
      encoding: "utf8",
    });
    const words = echoed.stdout.split("\n");
    expect(words).toEqual(expect.arrayContaining(["-F", "none", "-i", join(folder, "deploy-key")]));
    expect(words).toContain(`UserKnownHostsFile="/etc/push gate/it's"`);
    for (const option of ["StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "BatchMode=yes", "IdentityAgent=none"])
      expect(words).toContain(option);
  });
});
