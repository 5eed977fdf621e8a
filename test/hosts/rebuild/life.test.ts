/**
 * Events in the life of a host with published sites: the places of the deploy key; a build that hangs, and how the
 * operator notices it and ends it; a reboot in the middle of a build. The tests run on one host, in this order.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { builderUser, generatorUser, units } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { run, until } from "../lab/process.ts";
import { release } from "../release.ts";
import { type SecretSearch, secretSearch, watchProcesses } from "../secret-search.ts";
import { sshWrapper } from "../ssh-wrapper.ts";
import { endless, front, type HookName, placesOf } from "./site.ts";
import { idle, pending, published, statusOf, timersBegin, timersEnd } from "./status.ts";
import { buildRebuild, type Rebuild, shows } from "./world.ts";

const ssh = sshWrapper();
let host: Host;
let search: SecretSearch;
let rebuild: Rebuild;
let up: Run;
/** Lines of the deploy key that no other key has. */
let needles: readonly string[];
/** Command lines and environments that contained such a line during `up`. */
let duringUp: readonly string[];

beforeAll(async () => {
  host = await bootHost({ name: "life", release, variant: "packages" });
  search = await secretSearch(host);
  rebuild = await buildRebuild(host, {
    site: { reconcileMinutes: 60 },
    docs: { reconcileMinutes: 60 },
    world: { path: [ssh.folder] },
  });
  // All keys without a passphrase begin with the same first line, and the second line contains part of the public key.
  needles = rebuild.git.ssh.deployKey.split("\n").slice(3, -2);
  const watch = watchProcesses(lines());
  up = await rebuild.up();
  duringUp = watch();
  await rebuild.start();
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const credential = `/run/credentials/${units.agent("docs")}/deploy-key`;
const lines = () => Object.fromEntries(needles.map((line, i) => [`line ${i}`, line]));
const leaks = (text: string): boolean => needles.some((line) => text.includes(line));

const hugoRuns = (hook: HookName) =>
  until(
    `hugo builds ${hook}`,
    async () =>
      (await host.read(`systemctl list-units --no-legend 'pushgate-generator-${hook}@*'`)) !== "" || undefined,
    { timeout: 60_000 },
  );

/** systemd stops what no unit needs a moment after the builder's end. */
const agentEnds = () =>
  until("the agent ends", async () =>
    (await host.read(`systemctl is-active ${units.agent("docs")} || true`)) === "inactive" ? true : undefined,
  );

describe("the deploy key", () => {
  test("while no build runs, no file and no process, unit, journal, state or output contains the deploy key", async () => {
    expect(needles.length).toBeGreaterThanOrEqual(2);
    expect(duringUp).toEqual([]);
    await timersEnd(host);
    await agentEnds();
    expect(await search.holders(needles)).toEqual([]);
    const processes = await search.processes();
    await timersBegin(host);
    const given = await search.givenToCreds();
    expect(given).toContain("docs.deploy-key");
    const { stack } = rebuild.world;
    const preview = await stack.preview("--diff");
    const texts = {
      "systemd-creds": given,
      processes,
      units: await search.units(),
      journal: await search.journal(),
      "arguments and environment of ssh": ssh.given(),
      "the output of up": up.stdout + up.stderr + JSON.stringify(up.diagnostics),
      "the output of a preview": preview.stdout + preview.stderr + JSON.stringify(preview.diagnostics),
      "the state": await stack.stateText(),
      "the stack file": (await run("cat", [stack.stackFile])).stdout,
    };
    for (const [what, text] of Object.entries(texts)) {
      expect(text.length, what).toBeGreaterThan(100);
      expect(leaks(text), what).toBe(false);
    }
  });

  test("the search finds a deploy key that is put into a file, an environment or the journal", async () => {
    await timersEnd(host);
    await host.writeFile("/etc/pushgate/forgotten", rebuild.git.ssh.deployKey);
    await agentEnds();
    expect(await search.holders(needles)).toEqual(["/etc/pushgate/forgotten"]);
    await host.inside("rm /etc/pushgate/forgotten");
    await timersBegin(host);
    await host.inside(`systemd-run --quiet --unit=forgetful --setenv=KEY='${needles[0]}' sleep 60`);
    await until("the search finds it in the environment", async () => leaks(await search.processes()) || undefined);
    expect(watchProcesses(lines())().join()).toContain("line 0 in ");
    await host.inside(`systemctl stop forgetful; logger 'key ${needles[1]}'`);
    await until("the search finds it in the journal", async () => leaks(await search.journal()) || undefined);
  });

  test("a preview of another deploy key prints neither key", async () => {
    const { stack } = rebuild.world;
    const keys = (deployKey: string) => stack.setSecrets({ "pushgate:secrets": { docs: { deployKey } } });
    const other = rebuild.git.ssh.strangersKey.split("\n").slice(3, -2);
    await keys(rebuild.git.ssh.strangersKey);
    const preview = await stack.preview("--diff", "--expect-no-changes");
    await keys(rebuild.git.ssh.deployKey);
    expect(preview.code).toBe(7);
    expect(preview.steps.map(({ name }) => name)).toEqual(["life-secrets"]);
    const said = preview.stdout + preview.stderr + JSON.stringify(preview.diagnostics);
    expect(leaks(said) || other.some((line) => said.includes(line))).toBe(false);
  });
});

/** Ends the delay and closes open connections; otherwise git would wait half a minute for its answer. */
async function answerAgain(): Promise<void> {
  delete rebuild.git.faults.delay;
  await rebuild.git.goAway();
  await rebuild.git.comeBack();
}

describe("a build that hangs", () => {
  let former: string;
  let pushed: number;

  test("while Hugo hangs, the deploy key is only in its agent's credential, in memory, and no other account can read it", async () => {
    former = (await rebuild.visit("/", "docs")).body;
    pushed = Date.now();
    await rebuild.push({ "layouts/index.html": endless }, "docs");
    await hugoRuns("docs");
    expect(await search.holders(needles)).toEqual([credential]);
    expect(await host.read(`findmnt -nro FSTYPE -T ${credential}`)).toMatch(/^(ramfs|tmpfs)$/);
    expect(leaks(await search.processes())).toBe(false);
    for (const account of ["guest", generatorUser("docs"), builderUser("site"), "pushgate-receiver"]) {
      const read = await host.inside(`runuser -u ${account} -- cat ${credential}`, { check: false });
      expect(read).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("Permission denied") });
    }
  });

  test("status prints since when the build runs, and the former release", async () => {
    const said = await rebuild.world.stack.pushgate("status");
    expect(said, said.stdout + said.stderr).toMatchObject({ code: 0 });
    const [, docs = ""] = said.stdout.split(/^ {2}docs /m);
    const { deployed } = statusOf(host, "docs")!;
    expect(docs).toMatch(new RegExp(`published +${deployed!.release}, `));
    expect(docs).toMatch(
      /building +begun (just now|\d+(\.\d)? (s|min) ago) \(.*\)\n +pending +(1 request, )?1 taken and not published yet/,
    );
    const { hosts } = JSON.parse((await rebuild.world.stack.pushgate("status", "--json")).stdout);
    expect(hosts).toMatchObject([{ name: "life", hooks: [{ name: "site" }, { name: "docs" }] }]);
    expect(hosts[0].hooks[0].building).toBeUndefined();
    const began = Date.parse(hosts[0].hooks[1].building);
    // systemd prints seconds.
    expect(began).toBeGreaterThanOrEqual(pushed - 1_000);
    expect(began).toBeLessThanOrEqual(Date.now());
    expect((await rebuild.visit("/", "docs")).body).toBe(former);
  });

  test("rollback ends a hanging build and holds its commit back, and the builder publishes the next push", async () => {
    const { deployed, releases } = statusOf(host, "docs")!;
    // A rollback to the current release: only the hanging build must go.
    const began = performance.now();
    const said = await rebuild.world.stack.pushgate("rollback", "docs", deployed!.release);
    const seconds = (performance.now() - began) / 1_000;
    console.log(`rollback during a hanging build: ${seconds.toFixed(1)} s`);
    expect(said, said.stdout + said.stderr).toMatchObject({ code: 0 });
    const head = rebuild.repositories.docs.head()!;
    expect(said.stdout).toBe(
      `life: rolled back: ${deployed!.release} is published; ${head.slice(0, 12)} is not published again, a newer commit is\n`,
    );
    expect(seconds).toBeLessThan(60);
    await idle(host, "docs");
    expect(await host.read("systemctl list-units --no-legend 'pushgate-generator-docs@*'")).toBe("");
    expect(statusOf(host, "docs")).toMatchObject({ held: head, deployed, releases });
    expect((await rebuild.visit("/", "docs")).body).toBe(former);

    const good = await rebuild.push({ "layouts/index.html": front("after-endless") }, "docs");
    await published(host, good, { hook: "docs", timeout: 60_000 });
    expect(await host.read("systemctl list-units --failed --no-legend 'pushgate-*'")).toBe("");
  });

  test("rollback needs no answer of the git host, and the builder publishes the pending push when the git host answers", async () => {
    await published(host, await rebuild.push({ "layouts/index.html": front("before-silence") }), { timeout: 60_000 });
    await idle(host);
    const [{ release: last }, [, before]] = [statusOf(host)!.deployed!, statusOf(host)!.releases];
    rebuild.git.faults.delay = 60_000;
    const late = await rebuild.push({ "layouts/index.html": front("after-silence") });
    await until("it is taken", () =>
      pending(host).some((name) => /\.json$|^delivery /.test(name)) ? true : undefined,
    );
    const said = await rebuild.world.stack.pushgate("rollback", "site");
    await answerAgain();
    expect(said, said.stdout + said.stderr).toMatchObject({ code: 0 });
    expect(said.stdout).toContain(`life: rolled back: ${before!.id} is published;`);
    await published(host, late, { timeout: 90_000 });
    expect(statusOf(host)!.releases.map(({ id }) => id)).toContain(last);
    expect((await rebuild.visit()).body).toContain("layout-after-silence");
  });

  test("build reports its own result although other runs follow it at once", async () => {
    const tick = `${placesOf("site").rootRequests}/tick`;
    await host.inside(`systemd-run --quiet --unit=ticks sh -c 'while :; do touch ${tick}; sleep 0.05; done'`);
    const built = await rebuild.world.stack.pushgate("build", "site");
    await host.inside("systemctl stop ticks");
    expect(built, built.stdout + built.stderr).toMatchObject({ code: 0, stdout: "life: published: requested\n" });
    await idle(host);
  });

  test("build publishes the head again without a push, and logs show it with its delivery", async () => {
    await idle(host);
    await published(host, await rebuild.push({ "static/before-build.txt": "1\n" }), { timeout: 60_000 });
    const { deployed, last } = statusOf(host)!;
    const before = deployed!;
    const id = last.trigger.find((name) => name.startsWith("delivery "))!.slice("delivery ".length);
    await idle(host);
    const built = await rebuild.world.stack.pushgate("build", "site");
    expect(built, built.stdout + built.stderr).toMatchObject({ code: 0, stdout: "life: published: requested\n" });
    expect(statusOf(host)!.deployed).toMatchObject({ commit: before.commit });
    expect(statusOf(host)!.deployed!.release).not.toBe(before.release);
    const { stdout } = await rebuild.world.stack.pushgate("logs", "--delivery", id, "--json");
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { source: string; text: string; time: string });
    // nginx writes as the answer is sent, and the receiver as it makes it: only the builder is certainly last.
    expect(new Set(lines.map(({ source }) => source))).toEqual(new Set(["nginx", "receiver", "builder"]));
    expect(lines.at(-1)!.source).toBe("builder");
    expect(lines.every(({ text }) => text.includes(id))).toBe(true);
    expect(lines.map(({ time }) => time)).toEqual(lines.map(({ time }) => time).sort());
  });
});

test("after a reboot in the middle of a build, pages are served, both pending pushes are published, and preview is clean", {
  timeout: 300_000,
}, async () => {
  const boot = await host.read("cat /proc/sys/kernel/random/boot_id");
  await idle(host);
  await idle(host, "docs");
  const { deployed } = statusOf(host)!;
  // The push to the other site is still in the spool, where the receiver put it.
  await host.inside(`systemctl stop ${units.buildPath("docs")} ${units.build("docs")}`);
  const untaken = await rebuild.push({ "layouts/index.html": front("untaken-before") }, "docs");
  expect(await host.read(`find ${placesOf("docs").spool} -maxdepth 1 -name '*.json' | wc -l`)).toBe("1");
  rebuild.git.faults.delay = 60_000;
  const accepted = await rebuild.push({ "layouts/index.html": front("accepted-before") });
  await until("it is taken", async () =>
    (await host.inside(`grep -q '^delivery' ${placesOf("site").taken}`, { check: false })).code === 0
      ? true
      : undefined,
  );

  expect(statusOf(host)!.deployed).toEqual(deployed);
  // The open request stays unanswered.
  delete rebuild.git.faults.delay;
  await host.reboot();
  expect(await host.read("cat /proc/sys/kernel/random/boot_id")).not.toBe(boot);
  // The former page, or already the next one.
  expect(await rebuild.visit()).toMatchObject({
    status: 200,
    body: expect.stringMatching(/layout-(after-silence|accepted-before)/),
  });
  expect((await rebuild.visit("/", "docs")).body).toMatch(/layout-(after-endless|untaken-before)/);
  // The builder publishes from the spool, without another delivery.
  // Both at once: a minute after the boot the timers' runs replace the triggers in the status.
  const status = await Promise.all([
    published(host, accepted, { timeout: 90_000 }),
    published(host, untaken, { hook: "docs", timeout: 90_000 }),
  ]);
  for (const { last } of status) expect(last!.trigger.join()).toMatch(/delivery /);
  await shows(rebuild, "layout-accepted-before");

  for (const hook of ["site", "docs"] as const) {
    const next = await rebuild.push({ "layouts/index.html": front(`booted-${hook}`) }, hook);
    await published(host, next, { hook, timeout: 60_000 });
    expect((await rebuild.visit("/", hook)).body).toContain(`layout-booted-${hook}`);
    await idle(host, hook);
  }
  await timersEnd(host);
  await agentEnds();
  expect(await search.holders(needles)).toEqual([]);
  await timersBegin(host);
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  const said = await rebuild.world.stack.pushgate("status");
  expect(said, said.stdout + said.stderr).toMatchObject({ code: 0 });
});
