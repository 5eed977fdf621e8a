/**
 * Pushes that take the host's disk or end its builder, with the real Hugo and the real units, and the same pushes
 * without the bound that holds them. The tests run on one host, in this order.
 */
import { readFileSync, statfsSync } from "node:fs";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { bundledBuilder, type Without } from "../../service/builder/harness.ts";
import type { Host } from "../lab/host.ts";
import { labFolder } from "../lab/lab.ts";
import { until } from "../lab/process.ts";
import { deployedRebuild } from "./deployed.ts";
import { endless, front, type HookName, placesOf } from "./site.ts";
import { awaitStatus, idle, published, statusOf, timersEnd } from "./status.ts";
import type { Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

/** Hugo of `docs` may start it: it ignores SIGTERM, and hides a folder deeper than a path may be. */
const hostileProgram = `#!/usr/bin/perl
$SIG{TERM} = "IGNORE";
chdir "/out";
for (1..40) { mkdir "d" x 200, 0700; chdir "d" x 200 or die }
for (my $i = 0;; $i++) { open my $file, ">", "f$i" or die; print $file "x" x 100_000; close $file; select undef, undef, undef, 0.02 }
`;

beforeAll(async () => {
  // Hugo fills a small disk in seconds.
  const exec = ["^npx$", "^postcss$"];
  rebuild = await deployedRebuild("bounds", { docs: { hugo: { exec } } }, { diskMegabytes: 256 });
  ({ host } = rebuild);
  for (const program of ["npx", "postcss"]) await host.writeFile(`/usr/bin/${program}`, hostileProgram, "0755");
  await timersEnd(host);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

/** The next valid push is published after each attack. */
let mark = 0;
afterEach(async () => {
  await host.inside("rm -rf /run/systemd/system/pushgate-*.d && systemctl daemon-reload");
  for (const hook of ["site", "docs"] as const) {
    const text = `good-${++mark}`;
    const commit = await rebuild.push({ "layouts/index.html": front(text) }, hook);
    await published(host, commit, { hook, timeout: 90_000 });
    expect((await rebuild.visit("/", hook)).body).toContain(`layout-${text}`);
    await idle(host, hook);
  }
});

/** The failed build of this push. */
async function failed(layout: string, hook: HookName = "site") {
  const before = statusOf(host, hook)!;
  const commit = await rebuild.push({ "layouts/index.html": layout }, hook);
  const status = await awaitStatus(
    host,
    "the build fails",
    ({ last }) => last!.commit === commit && last!.at !== before.last!.at,
    {
      hook,
      timeout: 90_000,
    },
  );
  expect(status.deployed).toEqual(before.deployed);
  return status;
}

/** Runs `work`, and returns the least free part of the host's disk meanwhile. */
async function leastFree(work: () => Promise<unknown>): Promise<number> {
  let least = 1;
  const timer = setInterval(() => {
    const { bavail, blocks } = statfsSync(host.root);
    least = Math.min(least, bavail / blocks);
  }, 10);
  await work().finally(() => clearInterval(timer));
  return least;
}

const withBuilder = async (...without: Without[]) => {
  const file = await bundledBuilder(labFolder, ...without);
  await host.writeFile(paths.builder, readFileSync(file, "utf8"));
  // A builder that pauses is the former one.
  await host.inside(`systemctl try-restart ${units.build("site")}`);
};

/** 1.9 GiB in files of 1 MiB, from a push of some hundred bytes. */
const greedy =
  '{{ $text := strings.Repeat 1048576 "x" }}{{ range $i := seq 19 }}{{ range seq 100 }}' +
  '{{ $path := (resources.FromString (printf "%d/%d.txt" $i .) $text).RelPermalink }}{{ end }}{{ end }}';

test("a push whose templates fill the disk is stopped at the reserve, and fills it without the watch", async () => {
  let reason = "";
  const least = await leastFree(async () => {
    reason = (await failed(greedy)).last!.reason;
  });
  expect(reason).toMatch(/^the disk is full\. Free space .*: a build leaves \d+\.\d MiB and \d+ inodes of it free\.$/);
  expect(least).toBeGreaterThan(0);
  // What it wrote is gone.
  const { bavail, blocks } = statfsSync(host.root);
  expect(bavail / blocks).toBeGreaterThan(0.5);
  expect(await host.read("systemctl list-units --no-legend 'pushgate-generator-*@*' 'pushgate-stop-*@*'")).toBe("");

  await withBuilder([
    "disk-watch.ts",
    "if (found && isLess(found.free, least))",
    "if (found && isLess(found.free, found.free))",
  ]);
  expect(await leastFree(() => failed(`${greedy} `))).toBe(0);
  await withBuilder();
});

test("a build that ignores SIGTERM and hides a folder is killed, and root removes the folder", async () => {
  const css = '{{ (resources.FromString "a.css" "a{}" | resources.PostCSS).Content }}';
  const work = `${placesOf("docs").site}/work`;
  const left = () => host.read(`find ${work} -mindepth 1 -maxdepth 1 -name 'former-*'`);
  expect((await failed(css, "docs")).last!.reason).toMatch(/^the build closed the folder .*\/out\/d/);
  await until("root has removed the folder", async () => ((await left()) === "" ? true : undefined));
  expect(await host.read("pgrep -u pushgate-generator || true")).toBe("");

  const dropIn = `/run/systemd/system/${units.stop("docs")}.d/open.conf`;
  const kill = `/usr/bin/systemctl kill --signal=KILL "pushgate-generator-docs@*.service"`;
  await host.writeFile(dropIn, `[Service]\nExecStart=\nExecStart=${kill}\n`);
  await host.inside("systemctl daemon-reload");
  await failed(`${css} `, "docs");
  expect(await left()).not.toBe("");
});

test("a builder that is killed is reported, Hugo ends with it, and the next pauses; without that the status shows nothing", async () => {
  const kill = async () => {
    const before = statusOf(host)!;
    await rebuild.push({ "layouts/index.html": `${endless}${++mark}` });
    const hugo = "systemctl list-units --no-legend --state=active,activating 'pushgate-generator-site@*'";
    // A Hugo that has not printed its greeting yet ends at it, as the connection has no reader any more. It takes less
    // than a second of a core to get there.
    await until(
      "hugo has computed for a second",
      async () => {
        const { stdout } = await host.inside("ps -C hugo -o cputimes=", { check: false });
        return Number(stdout) >= 1 || undefined;
      },
      { timeout: 60_000 },
    );
    // systemd 257 starts the next builder at once where the .path unit sees what the killed one had taken.
    await host.inside(
      `systemctl stop ${units.buildPath("site")}; systemctl kill --signal=KILL --kill-who=main ${units.build("site")}`,
    );
    return { before, hugo };
  };
  const subState = () => host.read(`systemctl show -p SubState --value ${units.build("site")}`);
  const dropIn = async (text: string) => {
    await host.writeFile(`/run/systemd/system/${units.build("site")}.d/open.conf`, `[Service]\n${text}`);
    await host.inside("systemctl daemon-reload");
  };
  // Not the 2 s after which the next builder would end Hugo, too: a busy host may take longer to end it.
  await dropIn("RestartSec=120s\n");
  const { before, hugo } = await kill();
  const status = await awaitStatus(host, "the end is reported", ({ failing }) => failing !== undefined);
  expect(status.last).toMatchObject({
    result: "failed",
    reason: expect.stringMatching(/^the builder was killed at its memory limit/),
  });
  expect(status.failing!.attempts).toBe(1);
  expect(status.deployed).toEqual(before.deployed);
  await until("Hugo has ended", async () => (await host.read(hugo)) === "" || undefined);
  expect(await subState()).toBe("auto-restart");
  await dropIn("");
  await host.inside(`systemctl restart --no-block ${units.build("site")} ${units.buildPath("site")}`);
  const text = `good-${++mark}`;
  await published(host, await rebuild.push({ "layouts/index.html": front(text) }), { timeout: 60_000 });
  await idle(host);

  await dropIn("ExecStopPost=\nRestartSec=20s\n");
  const open = await kill();
  await until("the builder has ended", async () => (await subState()) === "auto-restart" || undefined);
  expect(statusOf(host)!).toEqual(open.before);
  expect(await host.read(open.hugo)).not.toBe("");
  await host.inside(`systemctl start ${units.buildPath("site")}`);
});
