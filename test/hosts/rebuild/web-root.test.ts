/**
 * A web root that was served before pushgate: preview says what to type, the build takes its place, and `state: absent`
 * restores the host, on which the site is still served. The tests run on one host, in this order.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { type HostState, hostState } from "../host-state.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { release } from "../release.ts";
import { hostEntry } from "../world.ts";
import { placesOf } from "./site.ts";
import { published } from "./status.ts";
import { buildRebuild, type Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;
let before: HostState;

const { webRoot, content, site } = placesOf("site");

const former = { "index.html": "the former page", "old-campaign.pdf": "a forgotten campaign" };

beforeAll(async () => {
  host = await bootHost({ name: "web-root", release, variant: "packages" });
  rebuild = await buildRebuild(host, { docs: false });
  for (const [path, text] of Object.entries(former)) await host.writeFile(`${webRoot}/${path}`, text);
  before = await hostState(host);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

test("preview and up name each folder that is not fit, with its key and what to type, and change nothing", async () => {
  rebuild.configure("site", { content: "/home/guest/missing" });
  for (const run of [await rebuild.world.stack.preview(), await rebuild.world.stack.up()]) {
    expect(run.code).not.toBe(0);
    const said = run.stdout + run.stderr;
    expect(said).toContain(
      `hooks[0].site.webRoot is ${webRoot}, taken, and pushgate makes its own link there. Run mv ${webRoot} ${webRoot}.former on the host.`,
    );
    expect(said).toContain("hooks[0].site.content is /home/guest/missing, missing, and pushgate does not make it.");
  }
  expect(await hostState(host)).toEqual(before);
  for (const [path, text] of Object.entries(former)) expect((await rebuild.visit(`/${path}`)).body).toBe(text);
});

test("after the command that preview names, up links the web root and the build is published", async () => {
  rebuild.configure("site", { content });
  await host.inside(`mv ${webRoot} ${webRoot}.former`);
  await rebuild.up();
  await published(host, rebuild.repositories.site.head()!);
  expect(await host.read(`readlink ${webRoot}`)).toBe(`${site}/current`);
  expect((await rebuild.visit()).body).toContain("layout-first");
  expect(await host.read(`cat ${webRoot}.former/old-campaign.pdf`)).toBe(former["old-campaign.pdf"]);
});

test("the audit is clean, and prints once which limits this host cannot enforce", async () => {
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  // The lab's hosts get the cgroup controllers of the computer that runs it; in many containers that is none.
  const there = (await host.read("cat /sys/fs/cgroup/cgroup.controllers")).split(" ");
  const missing = ["memory", "pids", "cpu"].filter((controller) => !there.includes(controller));
  const said = preview.diagnostics.map(({ message }) => message).filter((text) => text.includes("cgroup controller"));
  expect(said).toHaveLength(missing.length > 0 ? 1 : 0);
  if (missing.length > 0)
    expect(said[0]).toContain(`web-root: this kernel or container has no cgroup controller for ${missing.join(", ")},`);
});

test("state: absent puts the release itself in the link's place, as root's folder, and restores the rest", async () => {
  const inode = () => host.read(`stat -L -c %i ${webRoot}/index.html`);
  const release = await inode();
  rebuild.world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
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
