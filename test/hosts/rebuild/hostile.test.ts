/**
 * A repository whose author attacks the host through a build: its disk, its builder, its programs and its network, with
 * the real Hugo and the real units, and the same pushes without the bound that holds them. No timer runs.
 */
import { readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { bundledBuilder, type Without } from "../../service/builder/harness.ts";
import { anywhere, bundled } from "../../service/bundles.ts";
import { internalSecret, startInternal } from "../lab/internal-services.ts";
import { labFolder } from "../lab/lab.ts";
import { until } from "../lab/process.ts";
import { buildBeforeEgress, fillMemory, greedy, killBuilder, putProgram, remote } from "./attacks.ts";
import { deployedRebuild } from "./deployed.ts";
import { css, front, type HookName, placesOf, siteFiles } from "./site.ts";
import { idle, published, runOf, statusOf, timersEnd } from "./status.ts";
import { withDropIn } from "./world.ts";

// Hugo fills a small disk in seconds.
const rebuild = await deployedRebuild("hostile", { diskMegabytes: 256 });
const { host } = rebuild;
const internal = await startInternal();

beforeAll(async () => {
  await timersEnd(host);
});

afterAll(() => internal.close());

/** The next valid push is published after each attack. */
let mark = 0;
afterEach(async () => {
  for (const hook of ["site", "docs"] as const) {
    const commit = await rebuild.push({ "layouts/index.html": front(`good-${++mark}`) }, hook);
    await published(host, commit, { hook, timeout: 90_000 });
    expect((await rebuild.visit("/", hook)).body).toContain(`layout-good-${mark}`);
    await idle(host, hook);
  }
});

const built = (layout: string, hook: HookName = "site") =>
  runOf(host, () => rebuild.push({ "layouts/index.html": `${layout}${++mark}` }, hook), { hook, timeout: 90_000 });

/** The reason of the failed build of this push, after which the former page is served. */
async function failed(layout: string, hook: HookName = "site"): Promise<string> {
  const { body } = await rebuild.visit("/", hook);
  const { result, reason } = await built(layout, hook);
  expect(["failed", "rejected"], reason).toContain(result);
  expect((await rebuild.visit("/", hook)).body).toBe(body);
  return reason;
}

const whole = readFileSync(join(host.root, paths.builder), "utf8");
const withBuilder = async (...without: Without[]) => {
  const less = async () => readFileSync(await bundledBuilder(labFolder, ...without), "utf8");
  await host.writeFile(paths.builder, without.length > 0 ? await less() : whole);
  // A builder that pauses is the former one.
  await host.inside(`systemctl try-restart ${units.build("site")} ${units.build("docs")}`);
};

test("a push whose templates fill the disk is stopped at the reserve, and fills it without the watch", async () => {
  /** 300 MiB in files of 1 MiB for a disk of 256, from a push of some hundred bytes. Hugo takes 60 ms for each. */
  const greedy =
    '{{ $text := strings.Repeat 1048576 "x" }}{{ range $i := seq 3 }}{{ range seq 100 }}' +
    '{{ $path := (resources.FromString (printf "%d/%d.txt" $i .) $text).RelPermalink }}{{ end }}{{ end }}';
  const free = () => {
    const { bavail, blocks } = statfsSync(host.root);
    return bavail / blocks;
  };
  /** The least free part of the host's disk during the build, and its reason. */
  const fill = async () => {
    let least = 1;
    const timer = setInterval(() => {
      least = Math.min(least, free());
    }, 10);
    const reason = await failed(greedy).finally(() => clearInterval(timer));
    return { least, reason };
  };
  // All but 48 MiB. Another program may write between the look and the allocation.
  await host.inside(`for _ in $(seq 20); do
  fallocate -l $(( $(df --output=avail -B1 / | tail -n 1) - 48 * 1048576 )) /filler && exit
  rm -f /filler
done
exit 1`);
  const { least, reason } = await fill();
  expect(reason).toMatch(/^the disk is full\. Free space .*: a build leaves \d+\.\d MiB and \d+ inodes of it free\.$/);
  expect(least).toBeGreaterThan(0);
  // What it wrote is gone.
  expect(free()).toBeGreaterThan(0.15);
  const listed = "systemctl list-units --no-legend 'pushgate-generator-*@*' 'pushgate-stop-*@*'";
  await until("the build's units are gone", async () => (await host.read(listed)) === "" || undefined);

  const watch = "if (found && isLess(found.free, least))";
  await withBuilder(["build/disk-watch.ts", watch, "if (found && isLess(found.free, found.free))"]);
  expect((await fill()).least).toBe(0);
  await host.inside("rm /filler");
  await withBuilder();
});

test("a build that ignores SIGTERM and hides a folder is killed, and root removes the folder", async () => {
  // The folder is deeper than a path may be.
  const [, hides] = greedy["folders that it closes and hides"];
  await putProgram(rebuild, hides);
  const left = () => host.read(`find ${placesOf("docs").site}/work -mindepth 1 -maxdepth 1 -name 'former-*'`);
  expect(await failed(css, "docs")).toMatch(/^the build closed the folder .*\/out\/d/);
  await until("root has removed the folder", async () => (await left()) === "" || undefined);
  expect(await host.read("pgrep -u pushgate-generator-docs || true")).toBe("");

  const kill = `/usr/bin/systemctl kill --signal=KILL "pushgate-generator-docs@*.service"`;
  await withDropIn(host, units.stop("docs"), `ExecStart=\nExecStart=${kill}`, () => failed(css, "docs"));
  expect(await left()).not.toBe("");
});

test("a builder that is killed is reported, Hugo ends with it, and the next pauses; without that the status shows nothing", async () => {
  const { deployed } = statusOf(host, "docs")!;
  expect(await killBuilder(rebuild)).toBeUndefined();
  const reason = expect.stringMatching(/^the builder was killed at its memory limit/);
  expect(statusOf(host, "docs")).toMatchObject({ deployed, failing: { attempts: 1 }, last: { reason } });
  await published(host, await rebuild.push({ "layouts/index.html": front("next") }, "docs"), { hook: "docs" });
  await idle(host, "docs");
  const won = "the status shows nothing, the next builder does not pause, Hugo lives on";
  expect(await killBuilder(rebuild, "ExecStopPost=")).toBe(won);
});

test("git that would fill the memory is rejected before, ended at the unit's limit, and takes more without both", async () => {
  expect(await fillMemory(rebuild)).toBeUndefined();
  expect(statusOf(host, "docs")!.last!.reason).toContain("has more than 100,000 files and folders");
  await withBuilder(["run/run.ts", "if (commit !== null) await admit(context, commit);", ""]);
  expect(await fillMemory(rebuild)).toBeUndefined();
  expect(statusOf(host, "docs")!.last!.reason).toMatch(/^git reached the builder's memory limit/);
  const open = async () => {
    // The builder that pauses has the former limit.
    await host.inside(`systemctl try-restart ${units.build("docs")}`);
    await idle(host, "docs");
    return fillMemory(rebuild);
  };
  expect(await withDropIn(host, units.build("docs"), "LimitDATA=infinity", open)).toMatch(/^git took \d+ MiB/);
  await withBuilder();
});

test.each([
  [
    "memory",
    "the build reached its memory limit (256 MiB). Raise hooks[].site.limits.memoryMiB.",
    // Where Go first lacks memory for a thread.
    "Hugo got no thread, at its limit of memory (256 MiB) or of processes and threads (64). Raise hooks[].site.limits.memoryMiB, or tasks.",
  ],
  ["processes", "Hugo reached its limit of processes and threads (64). Raise hooks[].site.limits.tasks."],
] as const)("the reason names the limit that a build reached: %s", async (what, ...reasons) => {
  const [layout, program] = greedy[what];
  await putProgram(rebuild, program);
  expect(reasons).toContain(await failed(layout, "docs"));
});

// infra/host/hugo.test.ts has the policy of addresses.
test("Hugo runs a program that the operator allows, and none that only the site's own configuration allows", async () => {
  await putProgram(rebuild, "#!/bin/sh\ncat\necho '/* it ran */'\n");
  const own = siteFiles()["hugo.toml"];
  await runOf(host, () => rebuild.push({ "hugo.toml": `${own}[security.exec]\nallow = [".*"]\n` }));
  expect(await failed(css)).toMatch(/npx|postcss|security\./);
  await rebuild.push({ "hugo.toml": own! });
  expect(await built(css, "docs")).toMatchObject({ result: "published" });
  expect((await rebuild.visit("/", "docs")).body).toContain("it ran");
});

test("Hugo reads an address that the operator allows; it reads the cloud's metadata only without the egress table", async () => {
  const read = async (url: string) => {
    await built(remote(url), "docs");
    return (await rebuild.visit("/", "docs")).body;
  };
  expect(await read("https://git.example.net/example/docs.git/HEAD")).toContain("refs/heads/main");
  expect(await read(`http://${internal.metadata}:443/`)).not.toContain(internalSecret);
  expect(await buildBeforeEgress(rebuild, internal.metadata)).toBeUndefined();
  expect(internal.requested()).toBe(0);
  // The builder that cleans up after this run would take the next push, too.
  await idle(host, "docs");
  await bundled("builder", join(host.root, paths.builder), anywhere);
  expect(await buildBeforeEgress(rebuild, internal.metadata)).toBe("the metadata is published");
});
