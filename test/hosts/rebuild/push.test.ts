/**
 * A push becomes a published page, over https and over SSH, after a real `up`; and the timer, which needs no delivery.
 * The tests run on one host, in this order.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bootHost, type Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { front, placesOf } from "./site.ts";
import { idle, nextResult, published, statusOf } from "./status.ts";
import { buildRebuild, type Rebuild, shows } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

beforeAll(async () => {
  host = await bootHost({ name: "push", release, variant: "packages" });
  rebuild = await buildRebuild(host, {
    site: { reconcileMinutes: 60 },
    docs: { reconcileMinutes: 1 },
  });
  await rebuild.up();
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

test("the builder publishes both sites after up without a push, and the operator's own nginx serves them", async () => {
  for (const hook of ["site", "docs"] as const) {
    // The timer starts the first build, a minute after boot.
    await published(host, rebuild.repositories[hook].head()!, { hook, timeout: 120_000 });
    expect((await rebuild.visit("/", hook)).body).toContain("layout-first");
    expect((await rebuild.visit("/posts/one/", hook)).body).toContain("words");
    expect(await host.read(`readlink ${placesOf(hook).webRoot}`)).toBe(`${placesOf(hook).site}/current`);
  }
});

test("the audit right after is clean", async () => {
  const preview = await rebuild.world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});

describe("the receiver answers a push with 202 and the page changes", () => {
  test("in each part that Hugo reads", async () => {
    const commit = await rebuild.push({
      "layouts/index.html": front("second"),
      "themes/plain/layouts/partials/theme.html": "theme-second",
      "assets/asset.txt": "asset-second",
      "data/said.json": '{ "it": "data-second" }',
      "i18n/en.toml": '[said]\nother = "i18n-second"\n',
      "config/_default/params.toml": 'said = "config-folder"\n',
      "hugo.toml": 'baseURL = "https://www.example.org/"\ntheme = "plain"\n',
    });
    const status = await published(host, commit);
    expect(status).toMatchObject({ head: commit, last: { result: "published", commit } });
    const { body } = await rebuild.visit();
    for (const part of ["layout", "theme", "asset", "data", "i18n"]) expect(body).toContain(`${part}-second`);
    expect(body).toContain("config-folder");
  });

  test("nginx serves a file of static/ as it was pushed", async () => {
    await rebuild.push({ "static/deep/ä b.txt": "static-file" });
    await shows(rebuild, "static-file", "/deep/%C3%A4%20b.txt");
  });

  test("the builder fetches over SSH with the deploy key and the pinned host key", async () => {
    const commit = await rebuild.push({ "layouts/index.html": front("by-ssh") }, "docs");
    await published(host, commit, { hook: "docs" });
    expect((await rebuild.visit("/", "docs")).body).toContain("layout-by-ssh");
    expect(rebuild.git.ssh.commands().at(-1)).toContain("git-upload-pack");
  });
});

test("the receiver accepts a push that changes only README, and the status names the changed file", async () => {
  await idle(host);
  const before = statusOf(host)!;
  const commit = await rebuild.push({ "README.md": "Another text.\n" });
  const status = await nextResult(host, before, "nothing");
  expect(status).toMatchObject({ head: commit, deployed: before.deployed, last: { commit } });
  expect(status.last!.reason).toContain("README.md");
  await idle(host);
});

test("the timer publishes a push without a delivery, and restarts a failed path unit, within its period", async () => {
  await idle(host, "docs");
  // Too large a burst leaves the path unit failed.
  const unit = "pushgate-build@docs.path";
  await host.writeFile(
    `/run/systemd/system/${unit}.d/limit.conf`,
    "[Path]\nTriggerLimitIntervalSec=60s\nTriggerLimitBurst=1\n",
  );
  await host.inside(`systemctl daemon-reload && systemctl restart ${unit}`);
  await until(
    "the path unit fails",
    async () => {
      // A builder that waits would take the delivery itself.
      await host.inside("systemctl stop pushgate-build@docs.service");
      await rebuild.deliver(rebuild.repositories.docs.head()!, "docs");
      return (await host.inside(`systemctl is-failed ${unit}`, { check: false })).code === 0 || undefined;
    },
    { pause: 1_000 },
  );
  await host.inside(`rm -r /run/systemd/system/${unit}.d && systemctl daemon-reload`);
  const commit = rebuild.repositories.docs.push({ "layouts/index.html": front("never-delivered") });
  await published(host, commit, { hook: "docs", timeout: 120_000 });
  expect(await host.read(`systemctl is-active ${unit}`)).toBe("active");
  expect((await rebuild.visit("/", "docs")).body).toContain("layout-never-delivered");
});
