/**
 * From a host that serves a site of its own to one that pushgate has left: preview says what to type, each push over https
 * or SSH becomes a page, and `state: absent` restores the host, on which the site is still served. The tests run on one
 * host, in this order.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { type HostState, hostState } from "../host-state.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { release } from "../release.ts";
import { hostEntry } from "../world.ts";
import { front, placesOf } from "./site.ts";
import { idle, nextResult, published, statusOf } from "./status.ts";
import { buildRebuild, type Rebuild, shows } from "./world.ts";

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

test("after the command that preview names, up links the web roots, and the timer publishes both sites without a push", async () => {
  rebuild.configure("site", { content: placesOf("site").content });
  await host.inside(`mv ${webRoot} ${webRoot}.former`);
  await rebuild.up();
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  for (const hook of ["site", "docs"] as const) {
    // A minute after boot.
    await published(host, rebuild.repositories[hook].head()!, { hook, timeout: 120_000 });
    expect((await rebuild.visit("/", hook)).body).toContain("layout-first");
    expect((await rebuild.visit("/posts/one/", hook)).body).toContain("words");
  }
  expect(await host.read(`readlink ${webRoot}; cat ${webRoot}.former/old-campaign.pdf`)).toBe(
    `${site}/current\n${former["old-campaign.pdf"]}`,
  );
});

test("the page changes in each part that Hugo reads, and nginx serves a file of static/ as it was pushed", async () => {
  const commit = await rebuild.push({
    "layouts/index.html": front("second"),
    "themes/plain/layouts/partials/theme.html": "theme-second",
    "assets/asset.txt": "asset-second",
    "data/said.json": '{ "it": "data-second" }',
    "i18n/en.toml": '[said]\nother = "i18n-second"\n',
    "config/_default/params.toml": 'said = "config-folder"\n',
    "hugo.toml": 'baseURL = "https://www.example.org/"\ntheme = "plain"\n',
    "static/deep/ä b.txt": "static-file",
  });
  const status = await published(host, commit);
  expect(status).toMatchObject({ head: commit, last: { result: "published", commit } });
  const { body } = await rebuild.visit();
  for (const part of ["layout", "theme", "asset", "data", "i18n"]) expect(body).toContain(`${part}-second`);
  expect(body).toContain("config-folder");
  expect((await rebuild.visit("/deep/%C3%A4%20b.txt")).body).toBe("static-file");
});

test("the receiver accepts a push that changes only README, and the status names the changed file", async () => {
  await idle(host);
  const earlier = statusOf(host)!;
  const commit = await rebuild.push({ "README.md": "Another text.\n" });
  const status = await nextResult(host, earlier, "nothing");
  expect(status).toMatchObject({ head: commit, deployed: earlier.deployed, last: { commit } });
  expect(status.last!.reason).toContain("README.md");
});

test("the builder fetches over SSH with the deploy key and the pinned host key; the timer needs no delivery", async () => {
  await rebuild.push({ "layouts/index.html": front("by-ssh") }, "docs");
  await shows(rebuild, "layout-by-ssh", "/", "docs");
  expect(rebuild.git.ssh.commands().at(-1)).toContain("git-upload-pack");
  const commit = rebuild.repositories.docs.push({ "layouts/index.html": front("never-delivered") });
  await published(host, commit, { hook: "docs", timeout: 120_000 });
  expect(await contents()).toBe(written);
});

test("state: absent puts the release itself in the link's place, as root's folder, and restores the rest", async () => {
  const inode = () => host.read(`stat -L -c %i ${webRoot}/index.html`);
  const release = await inode();
  rebuild.world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  await rebuild.up();
  expect(await host.read(`stat -c '%F %U:%G %a' ${webRoot}`)).toBe("directory root:root 755");
  expect(await inode()).toBe(release);
  expect((await rebuild.visit()).body).toContain("layout-second");
  expect((await rebuild.visit("/posts/one/")).body).toContain("words");
  expect(await host.read(`find /srv/www -name '.*' ; find ${webRoot} ! -user root`)).toBe("");

  const after = await hostState(host);
  expect(after.etc).toEqual(before.etc);
  expect(after.local).toEqual(before.local);
  expect(after.outputs).toEqual(before.outputs);
  // The stamps and salts remain; see test/hosts/suite/leave.test.ts.
  expect(after.named).toEqual([paths.state]);
});
