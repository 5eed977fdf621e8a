/**
 * From a host that serves a site of its own to one that pushgate has left: the timer makes pages of repositories over https
 * and SSH, and `state: absent` restores the host, on which the site is still served, although applies break meanwhile.
 * folders.test.ts has what preview says of folders. The tests run on one host, in this order.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { breakApplies, everyBreak, mendApplies } from "../broken-applies.ts";
import { type HostState, hostState } from "../host-state.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { release } from "../release.ts";
import { hostEntry } from "../world.ts";
import { front, placesOf } from "./site.ts";
import { published } from "./status.ts";
import { buildRebuild, type Rebuild } from "./world.ts";

const { webRoot, site } = placesOf("site");
const former = { "index.html": "the former page", "old-campaign.pdf": "a forgotten campaign" };

let host: Host;
let rebuild: Rebuild;
let before: HostState;
/** All paths of both content folders with type, mode, owner, size and date. */
const contents = () =>
  host.read(`find ${placesOf("site").content} ${placesOf("docs").content} -printf '%p %y %m %U:%G %s %T@\\n' | sort`);
let written: string;

beforeAll(async () => {
  host = await bootHost({ name: "push", release, variant: "packages" });
  rebuild = await buildRebuild(host, { site: { reconcileMinutes: 60 }, docs: { reconcileMinutes: 1 } });
  for (const [path, text] of Object.entries(former)) await host.writeFile(`${webRoot}/${path}`, text);
  before = await hostState(host);
  written = await contents();
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

test("after the command that preview names, up links the web roots, and the timer publishes both sites without a push", async () => {
  await host.inside(`mv ${webRoot} ${webRoot}.former`);
  await rebuild.up();
  await rebuild.world.stack.cleanPreview();
  for (const hook of ["site", "docs"] as const) {
    // A minute after boot.
    await published(host, rebuild.repositories[hook].head()!, { hook, timeout: 120_000 });
    expect((await rebuild.visit("/", hook)).body).toContain("layout-first");
    expect((await rebuild.visit("/posts/one/", hook)).body).toContain("words");
  }
  expect(await host.read(`readlink ${webRoot}; cat ${webRoot}.former/old-campaign.pdf`)).toBe(
    `${site}/current\n${former["old-campaign.pdf"]}`,
  );
  const commit = rebuild.repositories.docs.push({ "layouts/index.html": front("never-delivered") });
  await published(host, commit, { hook: "docs", timeout: 120_000 });
  expect(await contents()).toBe(written);
});

test("state: absent, which breaks again and again, puts the release itself in the link's place, as root's folder, and restores the rest", async () => {
  const inode = () => host.read(`stat -L -c %i ${webRoot}/index.html`);
  const release = await inode();
  rebuild.world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  let failed = 0;
  for (const step of [9, 24, 40]) {
    await breakApplies(host, step, everyBreak[failed % everyBreak.length]!);
    const { code } = await rebuild.world.stack.up();
    await mendApplies(host);
    if (code !== 0) failed++;
  }
  expect(failed).toBeGreaterThan(1);
  await rebuild.up();
  expect(await host.read(`stat -c '%F %U:%G %a' ${webRoot}`)).toBe("directory root:root 755");
  expect(await inode()).toBe(release);
  expect((await rebuild.visit()).body).toContain("layout-first");
  expect((await rebuild.visit("/posts/one/")).body).toContain("words");
  expect(await host.read(`find /srv/www -name '.*' ; find ${webRoot} ! -user root`)).toBe("");

  const after = await hostState(host);
  expect(after.etc).toEqual(before.etc);
  expect(after.local).toEqual(before.local);
  expect(after.outputs).toEqual(before.outputs);
  // The stamps and salts remain; see test/hosts/suite/leave.test.ts.
  expect(after.named).toEqual([paths.state]);
});
