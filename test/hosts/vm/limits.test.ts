/**
 * The kernel's control groups alone limit a build's memory, processes and processor time. In a container the unit's
 * process limits apply instead (test/hosts/rebuild/hostile.test.ts); these tests remove those.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Last, Status } from "../../../service/builder/run/status.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { bootVm, type Vm, vmIsMissing } from "../lab/vm.ts";
import { greedy, putProgram } from "../rebuild/attacks.ts";
import { css, endless, front, placesOf } from "../rebuild/site.ts";
import { buildRebuild, type Rebuild } from "../rebuild/world.ts";
import { release } from "../release.ts";

let host: Host;
let rebuild: Rebuild;
let vm: Vm;

const limits = { seconds: 300, memoryMiB: 192, tasks: 64, cpuPercent: 25 };
beforeAll(async () => {
  const missing = vmIsMissing();
  if (missing !== undefined) throw new Error(missing);
  host = await bootHost({ name: "metal", release, variant: "packages", diskMegabytes: 2_048 });
  await putProgram({ host }, greedy.processes[1]);
  const hugo = { exec: ["^npx$", "^postcss$"] };
  rebuild = await buildRebuild(host, { site: { limits, hugo, reconcileMinutes: 60 }, docs: false });
  await rebuild.start();
  vm = await bootVm(host);
});

afterAll(async () => {
  await vm?.close();
  await rebuild?.close();
});

const unit = "pushgate-generator-site@";
const status = async () => JSON.parse(await vm.read(`cat ${placesOf("site").site}/status.json`)) as Status;

/** Pushes this layout and returns the result. On the emulated processor Hugo alone takes three seconds. */
async function built(index: string): Promise<Last> {
  const commit = await rebuild.push({ "layouts/index.html": index });
  return until(
    "the build is over",
    async () => {
      const { last } = await status();
      return last?.commit === commit ? last : undefined;
    },
    { timeout: 300_000, pause: 2_000 },
  );
}

const published = async (mark: string) => {
  expect(await built(front(mark))).toMatchObject({ result: "published" });
  expect((await rebuild.visit()).body).toContain(`layout-${mark}`);
};

/** Runs `work` without the unit's process limits, so that only the control group limits the build. */
async function byGroupAlone(work: () => Promise<void>): Promise<void> {
  const folder = `/run/systemd/system/${unit}.service.d`;
  const lines = "[Service]\\nLimitDATA=infinity\\nLimitNPROC=infinity\\n";
  await vm.ssh(`mkdir -p ${folder} && printf '${lines}' >${folder}/group.conf && systemctl daemon-reload`);
  await work();
  await vm.ssh(`rm -r ${folder} && systemctl daemon-reload`);
}

const kernelSaid = () => vm.read("journalctl --boot --dmesg --no-pager --output=cat");

test("the host on its own kernel has no failed unit, proven sockets, and a clean preview without warnings", async () => {
  await vm.ssh("systemctl is-system-running --wait", { check: false });
  expect(await vm.read("systemctl list-units --failed --no-legend")).toBe("");
  // A unit that succeeded at its second attempt has this line.
  expect(await vm.read("journalctl --boot --no-pager | grep 'Failed with result' || true")).toBe("");
  await until(
    "the guard has proved the sockets",
    async () => ((await vm.read("cat /run/pushgate-guard/verdict || true")) === "proven" ? true : undefined),
    { timeout: 180_000, pause: 2_000 },
  );
  // One warns of a control group that is missing.
  const preview = await rebuild.world.stack.cleanPreview();
  const warned = preview.diagnostics.filter(({ message }) => message.includes(`${host.name}:`));
  expect(warned).toEqual([]);
});

test("the builder publishes a push", () => published("on-metal"));

test("the kernel ends a build that uses too much memory, the status names the limit, and the former page is served", async () => {
  const much =
    '{{ $a := slice }}{{ range seq 4 }}{{ range seq 2000 }}{{ $a = $a | append (printf "%0200000d" .) }}{{ end }}{{ end }}{{ len $a }}';
  await byGroupAlone(async () => {
    expect(await built(much)).toMatchObject({
      result: "failed",
      reason: "the build reached its memory limit (192 MiB). Raise hooks[].site.limits.memoryMiB.",
    });
  });
  expect(await kernelSaid()).toMatch(/Memory cgroup out of memory: Killed process \d+ \(hugo\)/);
  expect((await rebuild.visit()).body).toContain("layout-on-metal");
  expect(await vm.read("systemctl list-units --failed --no-legend 'pushgate-*'")).toBe("");
  await published("after-memory");
});

test("the kernel denies a build one process too many, and the status names the limit", async () => {
  await byGroupAlone(async () => {
    expect(await built(css)).toMatchObject({
      result: "failed",
      reason: "Hugo reached its limit of processes and threads (64). Raise hooks[].site.limits.tasks.",
    });
  });
  expect(await kernelSaid()).toContain(`fork rejected by pids controller in /system.slice/${unit}`);
  await published("after-processes");
});

test("an endless build uses a quarter of a processor, and sites are served at the same time", async () => {
  await rebuild.push({ "layouts/index.html": endless });
  const group = `/sys/fs/cgroup/system.slice/${unit}*`;
  await until(
    "hugo runs",
    async () => ((await vm.ssh(`ls -d ${group}`, { check: false })).code === 0 ? true : undefined),
    { timeout: 60_000, pause: 1_000 },
  );
  const look = async () => {
    const said = await vm.read(`cut -d' ' -f1 /proc/uptime; cat ${group}/cpu.stat`);
    const [, seconds, usage] = /^([\d.]+)\nusage_usec (\d+)/.exec(said)!;
    return { seconds: Number(seconds), used: Number(usage) / 1e6 };
  };
  const from = await look();
  await new Promise((resolve) => setTimeout(resolve, 10_000));
  const to = await look();
  const share = (to.used - from.used) / (to.seconds - from.seconds);
  console.log(`an endless build uses ${(100 * share).toFixed(0)} % of one processor; the limit is 25 %`);
  expect(share).toBeGreaterThan(0.1);
  expect(share).toBeLessThan(0.3);
  expect((await rebuild.visit()).status).toBe(200);
  const good = built(front("after-endless"));
  await vm.ssh(`systemctl stop '${unit}*'`);
  expect(await good).toMatchObject({ result: "published" });
});
