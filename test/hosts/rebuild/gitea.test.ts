/**
 * A real Gitea in place of the fakes: its webhooks, deliveries, repositories over https and SSH, and statuses on commits.
 * `site` is public, with its theme as a submodule; `docs` is private. The tests run on one host, in this order.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { Edge } from "../../fakes/cloudflare/dataplane.ts";
import type { Files } from "../../fakes/git-repository.ts";
import { senders } from "../../fakes/senders.ts";
import { type Delivered, type Gitea, startGitea } from "../lab/gitea.ts";
import { findGitea, noGitea } from "../lab/install-gitea.ts";
import { nameAddress } from "../lab/lab.ts";
import { until } from "../lab/process.ts";
import { edgeFront, hostnameOf, startFront } from "../world.ts";
import { deployedRebuild } from "./deployed.ts";
import { front, type HookName } from "./site.ts";
import { published, timersEnd } from "./status.ts";
import { type Rebuild, shows } from "./world.ts";

const isBuilt = findGitea() !== undefined;
let rebuild: Rebuild;
let gitea: Gitea;
/** The fake Cloudflare at 443, as no URL of a webhook has a port. */
let edge: Edge;
if (isBuilt) rebuild = await deployedRebuild("gitea");

beforeEach(({ skip }) => skip(!isBuilt, noGitea));
beforeAll(async () => {
  if (!isBuilt) return;
  const { host, git, repositories, sites, world } = rebuild;
  edge = await startFront(world.api, 443);
  nameAddress(edgeFront.v4, hostnameOf(host));
  gitea = await startGitea(edge.certificate);
  git.resolver.names.set(gitea.name, [gitea.address]);
  await host.inside("cat >>/etc/ssl/certs/ca-certificates.crt", { stdin: gitea.ca });
  for (const name of ["theme", "site"]) await gitea.create(name);
  await gitea.create("docs", true);

  const theme = git.repository("example/theme");
  theme.push({ "layouts/partials/theme.html": "theme-of-gitea" });
  repositories.site.push({
    ...{ "themes/plain/layouts/partials/theme.html": null, "themes/plain": { submodule: gitea.push("theme", theme) } },
    ".gitmodules": `[submodule "plain"]\n\tpath = themes/plain\n\turl = ${gitea.url("theme")}\n`,
  });
  repositories.docs.push({ "layouts/index.html": front("private") });
  for (const name of ["site", "docs"] as const) gitea.push(name, repositories[name]);
  const { knownHosts, deployKey, url } = gitea.ssh;
  const of = (name: HookName, repository: string, site: object) => ({
    ...{ name, gitHost: "gitea", sources: [`${gitea.address}/32`], repository, branch: "main" },
    site: { ...sites[name], ...site },
  });
  const hooks = [of("site", gitea.url("site"), {}), of("docs", url("docs"), { knownHosts: [knownHosts] })];
  world.stack.configure({ "pushgate:hooks": hooks });
  const status = gitea.token;
  await world.stack.setSecrets({ "pushgate:secrets": { site: { status }, docs: { status, deployKey } } });
  Object.assign(world.stack.env, { GITEA_TOKEN: gitea.token, NODE_EXTRA_CA_CERTS: gitea.caFile });
  await rebuild.up();
  await timersEnd(host);
});
afterAll(async () => {
  await gitea?.stop();
  await edge?.close();
});

function push(hook: HookName, files: Files): string {
  rebuild.repositories[hook].push(files);
  return gitea.push(hook, rebuild.repositories[hook]);
}
/** What Gitea's history shows of the delivery of a commit, once it has ended. */
const delivery = (commit: string): Promise<Delivered> =>
  until(`Gitea has delivered ${commit}`, () =>
    gitea.history().find((one) => one.commit === commit && one.answer !== null),
  );

type Status = { readonly status: string; readonly context: string; readonly description: string };
/** The status that Gitea shows on a commit, once it is no longer pending. */
const statusOn = (hook: HookName, commit: string): Promise<Status> =>
  until(`Gitea shows how the build of ${commit} ended`, async () => {
    const all = await gitea.api<Status[]>("GET", `/repos/example/${hook}/statuses/${commit}`);
    return all.find(({ status }) => status !== "pending");
  });
const set = (...words: string[]) => rebuild.world.stack.pushgate("hook", ...words, "--set", "--yes");

test("hook --set creates both webhooks, and Gitea's tests of them publish the private repository and the theme", async () => {
  const { code, stdout, stderr } = await set();
  expect(code, stdout + stderr).toBe(0);
  expect(stdout.match(/: the webhook is set\.$/gm)).toHaveLength(2);
  expect(stdout.match(/^certain: the receiver accepted the delivery\.$/gm)).toHaveLength(2);
  await shows(rebuild, "layout-private", "/", "docs");
  await shows(rebuild, "theme-of-gitea");
  await expect(fetch(gitea.url("docs"))).resolves.toMatchObject({ status: 404 });
});

test("a push becomes a page, and Gitea shows the build's result on its commit, good or bad", async () => {
  for (const hook of ["site", "docs"] as const) {
    const commit = push(hook, { "layouts/index.html": front("by-gitea") });
    await shows(rebuild, "layout-by-gitea", "/", hook);
    const { sent, ...delivered } = await delivery(commit);
    expect(delivered).toMatchObject({ succeeded: 1, answer: { status: 202 } });
    const names = Object.keys(sent!).map((name) => name.toLowerCase());
    expect(names).toEqual(expect.arrayContaining(Object.keys(senders.gitea.headers(Buffer.from("{}"), "secret"))));
    const context = `pushgate/deployed/${hook}`;
    expect(await statusOn(hook, commit)).toMatchObject({ status: "success", context, description: "Published." });
  }
  const broken = push("site", { "layouts/index.html": "{{ nothing }}" });
  expect(await statusOn("site", broken)).toMatchObject({
    ...{
      status: "failure",
      description: expect.stringMatching(/^this Hugo has no function nothing\. Correct its name/),
    },
  });
});

test("files of Git LFS are published, of a public repository and by the deploy key of a private one", async () => {
  for (const hook of ["site", "docs"] as const) {
    const pointer = await gitea.keep(hook, `lfs-of-${hook}`);
    const files = { "layouts/index.html": front("lfs"), "static/lfs.txt": pointer };
    await published(rebuild.host, push(hook, { ".gitattributes": "*.txt filter=lfs\n", ...files }), { hook });
    await shows(rebuild, `lfs-of-${hook}`, "/lfs.txt", hook);
  }
});

test("trace names another secret, by what Gitea's history shows, and hook --set corrects it", async () => {
  const hooks = "/repos/example/site/hooks";
  const [former] = await gitea.api<{ id: number; config: { url: string } }[]>("GET", hooks);
  await gitea.api("DELETE", `${hooks}/${former!.id}`);
  const config = { ...former!.config, secret: "another-secret-0123456789-abcdefghij" };
  await gitea.api("POST", hooks, { type: "gitea", active: true, events: ["push"], config });
  const unsigned = await delivery(push("site", { "layouts/index.html": front("another-secret") }));
  expect(unsigned).toMatchObject({ succeeded: 0, answer: { status: 401 } });
  const headers = Object.entries(unsigned.answer!.headers).map(([name, value]) => `--header=${name}: ${value}`);
  const traced = await rebuild.world.stack.pushgate("trace", "--delivery", unsigned.id, "--status=401", ...headers);
  expect(traced.stdout, traced.stderr).toContain("one of another secret: the signature does not match");

  const { code, stdout, stderr } = await set("site");
  expect(code, stdout + stderr).toBe(0);
  expect(stderr).toContain("no setting differs; the secret is sent anew");
  await shows(rebuild, "layout-another-secret");
  expect(await gitea.api("GET", hooks)).toHaveLength(1);
});
