/**
 * Events in the life of a host with published sites: a build that hangs, and how the operator notices it and ends it; a
 * reboot in the middle of a build. The tests run on one host, in this order.
 */
import { beforeAll, expect, test } from "vitest";
import { builderUser, generatorUser, units } from "../../../infra/host/paths.ts";
import { until } from "../lab/process.ts";
import { secretSearch } from "../secret-search.ts";
import { deployedRebuild } from "./deployed.ts";
import { endless, front, placesOf } from "./site.ts";
import { bothIdle, idle, published, statusOf, timersEnd } from "./status.ts";
import { builderPaths } from "./world.ts";

const rebuild = await deployedRebuild("life");
const { host } = rebuild;

beforeAll(() => timersEnd(host));

test("while Hugo hangs, the deploy key is only in its agent's credential, in memory, and no other account can read it", async () => {
  const credential = `/run/credentials/${units.agent("docs")}/deploy-key`;
  const { holders, processes } = await secretSearch(host);
  // All keys without a passphrase begin with the same first line, and the second line contains part of the public key.
  const needles = rebuild.git.ssh.deployKey.split("\n").slice(3, -2);
  const agentEnds = async () =>
    (await host.read(`systemctl is-active ${units.agent("docs")} || true`)) === "inactive" || undefined;
  await until("the agent has ended", agentEnds);
  expect(await holders(needles)).toEqual([]);

  await rebuild.push({ "layouts/index.html": endless }, "docs");
  const hugoRuns = async () =>
    (await host.read("systemctl list-units --no-legend 'pushgate-generator-docs@*'")) !== "" || undefined;
  await until("hugo builds", hugoRuns, { timeout: 60_000 });
  expect(await holders(needles)).toEqual([credential]);
  expect(await host.read(`findmnt -nro FSTYPE -T ${credential}`)).toMatch(/^(ramfs|tmpfs)$/);
  const shown = await processes();
  expect(needles.some((line) => shown.includes(line))).toBe(false);
  for (const account of ["guest", generatorUser("docs"), builderUser("site"), "pushgate-receiver"]) {
    const read = await host.inside(`runuser -u ${account} -- cat ${credential}`, { check: false });
    expect(read).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("Permission denied") });
  }
});

test("status prints since when a build runs; rollback ends it and holds its commit back, and the next push is published", async () => {
  const { deployed, releases } = statusOf(host, "docs")!;
  const { body } = await rebuild.visit("/", "docs");
  const shown = await rebuild.world.stack.pushgate("status");
  const building = /building +begun .* ago \(.*\)\n +pending +(1 request, )?1 taken and not published yet/;
  expect(shown.stdout.split(/^ {2}docs /m)[1]).toMatch(building);

  // A rollback to the current release: only the hanging build must go.
  const said = await rebuild.world.stack.pushgate("rollback", "docs", deployed!.release);
  expect(said, said.stdout + said.stderr).toMatchObject({ code: 0 });
  const head = rebuild.repositories.docs.head()!;
  expect(said.stdout).toContain(
    `: rolled back: ${deployed!.release} is published; ${head.slice(0, 12)} is not published`,
  );
  await idle(host, "docs");
  expect(await host.read("systemctl list-units --no-legend 'pushgate-generator-docs@*'")).toBe("");
  expect(statusOf(host, "docs")).toMatchObject({ held: head, deployed, releases });
  expect((await rebuild.visit("/", "docs")).body).toBe(body);

  const next = await rebuild.push({ "layouts/index.html": front("after-endless") }, "docs");
  await published(host, next, { hook: "docs", timeout: 60_000 });
  expect(await host.read("systemctl list-units --failed --no-legend 'pushgate-*'")).toBe("");
});

test("after a reboot in the middle of a build, pages are served, both pending pushes are published, deploys has all former runs, and preview is clean", async () => {
  await bothIdle(host);
  const runs = async (): Promise<object[]> =>
    JSON.parse((await rebuild.world.stack.pushgate("deploys", "--json", "--last", "50")).stdout);
  const former = await runs();
  expect(former.length).toBeGreaterThan(4);
  // The push to docs is still in the spool, where the receiver put it.
  await host.inside(`systemctl stop ${builderPaths("docs")} ${units.build("docs")}`);
  const untaken = await rebuild.push({ "layouts/index.html": front("untaken") }, "docs");
  // git gets no answer for the other, so that it is taken and its build does not end.
  rebuild.git.faults.delay = 60_000;
  const taken = await rebuild.push({ "layouts/index.html": front("taken") });
  const isTaken = async () =>
    (await host.inside(`grep -q '^delivery' ${placesOf("site").taken}`, { check: false })).code === 0 || undefined;
  await until("it is taken", isTaken);
  delete rebuild.git.faults.delay;
  await host.reboot();
  // The former page, or already the next one.
  expect(await rebuild.visit()).toMatchObject({ status: 200, body: expect.stringMatching(/layout-(first|taken)/) });
  // Both at once: a minute after the boot the timers' runs replace the triggers in the status.
  const statuses = await Promise.all([
    published(host, taken, { timeout: 90_000 }),
    published(host, untaken, { hook: "docs", timeout: 90_000 }),
  ]);
  for (const { last } of statuses) expect(last!.trigger.join()).toMatch(/delivery /);
  expect((await rebuild.visit()).body).toContain("layout-taken");
  expect(await runs()).toEqual(expect.arrayContaining(former));
  await rebuild.world.stack.cleanPreview();
});
