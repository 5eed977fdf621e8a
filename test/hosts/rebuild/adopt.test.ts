/**
 * The builder adopts an existing web root as the first release: preview announces it, and no file is lost. Then
 * `state: absent` restores the host, and the site is still served. The tests run on one host, in this order.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import { type HostState, hostState } from "../host-state.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { release } from "../release.ts";
import { hostEntry } from "../world.ts";
import { front, placesOf } from "./site.ts";
import { idle, published, statusOf } from "./status.ts";
import { buildRebuild, type Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;
let before: HostState;

const { webRoot, content, site } = placesOf("site");

/** A web root as an operator may have maintained it manually for years. */
const former = {
  "index.html": "the former page",
  "posts/one/index.html": "the former post",
  "old-campaign.pdf": "a forgotten campaign",
  "uploads/cat.jpg": "a cat",
  ".well-known/security.txt": "Contact: mailto:security@example.org",
};

beforeAll(async () => {
  host = await bootHost({ name: "adopt", release, variant: "packages" });
  rebuild = await buildRebuild(host, { docs: false });
  for (const [path, text] of Object.entries(former)) await host.writeFile(`${webRoot}/${path}`, text);
  before = await hostState(host);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const upFails = async (says: RegExp): Promise<void> => {
  const up = await rebuild.world.stack.up();
  expect(up.code).toBe(1);
  expect(up.stdout + up.stderr).toMatch(says);
};
const untouched = async (): Promise<void> => {
  expect(await host.read(`stat -c %F ${webRoot}`)).toBe("directory");
  for (const [path, text] of Object.entries(former)) expect((await rebuild.visit(`/${path}`)).body).toBe(text);
};

test("up fails if the content folder is missing, and does not create it", async () => {
  await host.inside(`mv ${content} ${content}.aside`);
  await upFails(new RegExp(`${content}.*(missing|not there|does not exist)`));
  expect((await host.inside(`test -e ${content}`, { check: false })).code).toBe(1);
  await untouched();
  await host.inside(`mv ${content}.aside ${content}`);
});

test("preview announces the folder that becomes the first release", async () => {
  const preview = await rebuild.world.stack.preview();
  expect(preview.code, preview.stdout).toBe(0);
  expect(preview.stdout).toMatch(new RegExp(`${webRoot}.*folder with 5 files`));
  await untouched();
});

test("up fails and lists the files that neither the build makes nor `keep` names, and changes nothing", async () => {
  rebuild.configure("site", { keep: [".well-known", "uploads/"] });
  await upFails(/old-campaign\.pdf/);
  await untouched();
  expect(statusOf(host)?.adoption?.files).toEqual(["old-campaign.pdf"]);
});

test("up adopts the folder as the first release if `keep` names those files, and the builder publishes with them", async () => {
  rebuild.configure("site", { keep: [".well-known", "uploads/", "old-campaign.pdf"] });
  await rebuild.up();
  await published(host, rebuild.repositories.site.head()!);
  expect(await host.read(`readlink ${webRoot}`)).toBe(`${site}/current`);
  expect((await rebuild.visit()).body).toContain("layout-first");
  for (const path of [".well-known/security.txt", "uploads/cat.jpg", "old-campaign.pdf"] as const)
    expect((await rebuild.visit(`/${path}`)).body).toBe(former[path]);
  const { releases } = statusOf(host)!;
  expect(releases.at(-1)!.id).toBe("000001-adopted");
  expect(await host.read(`cat ${site}/releases/000001-adopted/index.html`)).toBe(former["index.html"]);
  expect(await host.read(`find ${site}/releases ! -type l -path '*uploads/cat.jpg' -links 1`)).toBe("");
});

test("the next push keeps these files too, and the operator can write them as before", async () => {
  const commit = await rebuild.push({ "layouts/index.html": front("second") });
  await published(host, commit);
  await host.inside(`echo 'another cat' >${webRoot}/uploads/dog.jpg`);
  expect((await rebuild.visit("/uploads/dog.jpg")).body).toBe("another cat\n");
  expect((await rebuild.visit("/uploads/cat.jpg")).body).toBe("a cat");
  await idle(host);
});

test("a rollback publishes the adopted folder", async () => {
  await rebuild.request("rollback-000001-adopted");
  await rebuild.world.stack.preview();
  await expect.poll(async () => (await rebuild.visit()).body, { timeout: 60_000 }).toBe(former["index.html"]);
  const commit = await rebuild.push({ "layouts/index.html": front("third") });
  await published(host, commit);
  await idle(host);
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
    expect(said[0]).toContain(`adopt: this kernel or container has no cgroup controller for ${missing.join(", ")},`);
});

test("state: absent keeps the site as a real folder and restores the rest of the host", async () => {
  rebuild.world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  await rebuild.up();
  expect(await host.read(`stat -c %F ${webRoot}`)).toBe("directory");
  expect((await rebuild.visit()).body).toContain("layout-third");
  expect((await rebuild.visit("/posts/one/")).body).toContain("words");
  for (const path of [".well-known/security.txt", "uploads/cat.jpg", "uploads/dog.jpg", "old-campaign.pdf"])
    expect((await rebuild.visit(`/${path}`)).status, path).toBe(200);
  expect(await host.read(`find ${webRoot} -type l`)).toBe("");

  const after = await hostState(host);
  expect(after.etc).toEqual(before.etc);
  expect(after.local).toEqual(before.local);
  expect(after.outputs).toEqual(before.outputs);
  // The stamps and salts remain; see test/hosts/suite/leave.test.ts.
  expect(after.named).toEqual([paths.state]);
});
