/**
 * A push becomes a published page, for each kind of path that triggers a build, over https and over SSH. Also: reports
 * of pushes that trigger none, other writers, rollbacks and the timer. The tests run on one host, in this order.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { buildPaths } from "../../../infra/config/schema.ts";
import { pingPayload, pushPayload } from "../../fakes/deliveries.ts";
import type { Files } from "../../fakes/git-repository.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { front, page, placesOf, writeContent } from "./site.ts";
import { idle, nextResult, pending, published, runs, statusOf, timersBegin, timersEnd } from "./status.ts";
import { buildRebuild, type Rebuild, shows } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

beforeAll(async () => {
  host = await bootHost({ name: "push", release, variant: "packages" });
  await host.inside("groupadd writers && usermod -aG writers guest");
  rebuild = await buildRebuild(host, {
    site: { writers: "writers", reconcileMinutes: 60 },
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
  const config = (said: string) =>
    `baseURL = "https://www.example.org/"\ntheme = "plain"\n[params]\nsaid = "${said}"\n`;
  /** Path -> the pushed files, and the text that the front page shows then, if it shows the change. */
  const kinds: Record<string, [Files, string?]> = {
    "layouts/": [{ "layouts/index.html": front("second") }, "layout-second"],
    "themes/": [{ "themes/plain/layouts/partials/theme.html": "theme-second" }, "theme-second"],
    "static/": [{ "static/style.css": "body { margin: 1px }\n" }],
    "assets/": [{ "assets/asset.txt": "asset-second" }, "asset-second"],
    "data/": [{ "data/said.json": '{ "it": "data-second" }' }, "data-second"],
    "i18n/": [{ "i18n/en.toml": '[said]\nother = "i18n-second"\n' }, "i18n-second"],
    "hugo.toml": [{ "hugo.toml": config("config-second") }, "config-second"],
    "config/": [{ "config/_default/params.toml": 'said = "config-folder"\n' }, "config-folder"],
    "archetypes/": [{ "archetypes/default.md": "---\ntitle: y\n---\n" }],
    "_vendor/": [{ "_vendor/example.org/x/README": "x" }],
    "bin/deploy*": [{ "bin/deploy.sh": { program: "#!/bin/sh\n" } }],
    "deploy*": [{ "deploy.sh": { program: "#!/bin/sh\n" } }],
    "scripts/deploy*": [{ "scripts/deploy": { program: "#!/bin/sh\n" } }],
    "go.mod": [{ "go.mod": "module example.org/site\n" }],
    "go.sum": [{ "go.sum": "" }],
    "package.hugo.json": [{ "package.hugo.json": "{}" }],
    ".gitmodules": [{ ".gitmodules": "" }],
  };
  const others = buildPaths.filter((path) => /^(config|hugo)\.\w+$/.test(path) && path !== "hugo.toml");
  // Of several configuration files Hugo reads only the first, but a change of any must trigger a build.
  for (const path of others) kinds[path] = [{ [path]: path.endsWith("json") ? "{}" : "" }];

  test("every default path is in the table", () => {
    expect(Object.keys(kinds).sort()).toEqual([...buildPaths].sort());
  });

  test.each(Object.entries(kinds))("%s", async (_, [files, shown]) => {
    const commit = await rebuild.push(files);
    const status = await published(host, commit);
    expect(status.last).toMatchObject({ result: "published", commit });
    expect(status.head).toBe(commit);
    if (shown !== undefined) expect((await rebuild.visit()).body).toContain(shown);
    // This file could hide the next configuration file in Hugo's order.
    if (others.includes(Object.keys(files)[0]!)) rebuild.repositories.site.push({ [Object.keys(files)[0]!]: null });
  });

  test("nginx serves a file of static/ as it was pushed", async () => {
    await rebuild.push({ "static/deep/ä b.txt": "static-file" });
    await shows(rebuild, "static-file", "/deep/%C3%A4%20b.txt");
  });

  test("the builder keeps assets of former releases, because open pages refer to them, but no former pages", async () => {
    await rebuild.push({ "static/former.css": "a{}", "static/former.html": "<p>former</p>" });
    await shows(rebuild, "a{}", "/former.css");
    await shows(rebuild, "former", "/former.html");
    const commit = await rebuild.push({ "static/former.css": null, "static/former.html": null });
    await published(host, commit);
    expect((await rebuild.visit("/former.css")).body).toBe("a{}");
    expect((await rebuild.visit("/former.html")).status).toBe(404);
  });

  test("the builder fetches over SSH with the deploy key and the pinned host key", async () => {
    const commit = await rebuild.push({ "layouts/index.html": front("by-ssh") }, "docs");
    await published(host, commit, { hook: "docs" });
    expect((await rebuild.visit("/", "docs")).body).toContain("layout-by-ssh");
    expect(rebuild.git.ssh.commands().at(-1)).toContain("git-upload-pack");
  });
});

describe("no build runs, and the reason is reported", () => {
  const count = async () => (await runs(host)).filter(({ result }) => result === "published").length;

  test("the receiver accepts a push that changes only README, and the status names the changed file", async () => {
    await idle(host);
    const [before, builds] = [statusOf(host)!, await count()];
    const commit = await rebuild.push({ "README.md": "Another text.\n" });
    const status = await nextResult(host, before, "nothing");
    expect(status.last).toMatchObject({ commit });
    expect(status.last!.reason).toContain("README.md");
    expect(status).toMatchObject({ head: commit, deployed: before.deployed });
    expect(await count()).toBe(builds);
    await idle(host);
    expect(pending(host)).toEqual([]);
  });

  describe("without the timers, whose ticks write a status, too:", () => {
    beforeAll(() => timersEnd(host));
    afterAll(() => timersBegin(host));

    test.each([
      ["another branch", { payload: { ...pushPayload("draft") } }, /draft/],
      ["a tag", { payload: { ...pushPayload(), ref: "refs/tags/v1" } }, /tag v1/],
      ["a deletion", { payload: { ...pushPayload(), deleted: true, after: "0".repeat(40) } }, /deletion/],
      ["a ping", { event: "ping", payload: pingPayload() }, /ping/],
    ])("the receiver's answer names the reason, and the builder gets nothing: %s", async (_, change, reason) => {
      rebuild.repositories.site.push({ "layouts/index.html": "never" }, { branch: "draft" });
      const [before, lines] = [statusOf(host), (await runs(host)).length];
      const answer = await rebuild.world.deliver(change);
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject({ status: "ignored", reason: expect.stringMatching(reason) });
      expect(pending(host)).toEqual([]);
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      expect(statusOf(host)).toEqual(before);
      expect((await runs(host)).length).toBe(lines);
    });
  });

  test("the builder builds nothing for a delivery of the deployed commit", async () => {
    const before = statusOf(host)!;
    expect((await rebuild.deliver(rebuild.repositories.site.head()!)).status).toBe(202);
    await nextResult(host, before, "nothing");
    expect(statusOf(host)!.deployed).toEqual(before.deployed);
  });
});

describe("other writers", () => {
  test("a member of the writers' group requests a build, and the builder publishes the content without a commit", async () => {
    await idle(host);
    const before = statusOf(host)!;
    await writeContent(host, placesOf("site").content, { "posts/two.md": page("Two", "written today") });
    await rebuild.request("please", "guest");
    const status = await nextResult(host, before, "published");
    expect(status.deployed!.release).not.toBe(before.deployed!.release);
    expect((await rebuild.visit("/posts/two/")).body).toContain("written today");
  });

  test("another account cannot request a build, and a member's file with a name reserved for root is an ordinary request", async () => {
    await expect(rebuild.request("please", "deploy")).rejects.toThrow(/Permission denied/);
    await idle(host);
    const before = statusOf(host)!;
    await rebuild.request(`rollback-${before.releases.at(-1)!.id}`, "guest");
    const status = await nextResult(host, before, "published");
    expect(status.deployed!.commit).toBe(before.deployed!.commit);
    expect(status.held).toBeUndefined();
  });
});

describe("a rollback", () => {
  test("a rollback switches at once, persists despite ticks and deliveries of the same head, and ends with a new commit", async () => {
    await idle(host);
    const bad = await rebuild.push({ "layouts/index.html": front("regretted") });
    await published(host, bad);
    await idle(host);
    const regretted = statusOf(host)!;
    const [, former] = regretted.releases;
    await rebuild.request(`rollback-${former!.id}`);
    const back = await nextResult(host, regretted, "rolled back");
    expect(back).toMatchObject({ deployed: { release: former!.id }, held: bad });
    expect((await rebuild.visit()).body).not.toContain("layout-regretted");

    await idle(host);
    for (const cause of [() => rebuild.request("tick"), () => rebuild.deliver(bad)]) {
      const before = statusOf(host);
      await cause();
      await nextResult(host, before, "nothing");
      expect(statusOf(host)!.deployed!.release).toBe(former!.id);
      await idle(host);
    }
    const before = statusOf(host);
    await rebuild.request("content", "guest");
    const written = await nextResult(host, before, "published");
    expect(written.deployed!.commit).toBe(former!.commit);
    expect((await rebuild.visit()).body).not.toContain("layout-regretted");

    const good = await rebuild.push({ "layouts/index.html": front("repaired") });
    expect((await published(host, good)).held).toBeUndefined();
    expect((await rebuild.visit()).body).toContain("layout-repaired");
  });

  test("the builder rejects a rollback to a missing release, and the site is unchanged", async () => {
    await idle(host);
    const before = statusOf(host)!;
    await rebuild.request("rollback-999999-000000000000");
    const status = await until("the builder rejects the rollback", () => {
      const now = statusOf(host);
      return now?.last?.at !== before.last?.at ? now : undefined;
    });
    expect(["rejected", "failed"]).toContain(status.last!.result);
    expect(status.last!.reason).toContain("999999-000000000000");
    expect(status.deployed).toEqual(before.deployed);
  });
});

test("the builder keeps at most five releases, each read-only", async () => {
  const { releases, deployed } = statusOf(host)!;
  expect(releases.length).toBeLessThanOrEqual(5);
  const { site } = placesOf("site");
  const folders = (await host.read(`ls ${site}/releases`)).split("\n").sort();
  expect(folders).toEqual(releases.map(({ id }) => id).sort());
  expect(await host.read(`readlink ${site}/current`)).toBe(`releases/${deployed!.release}`);
  expect(await host.read(`find ${site}/releases -mindepth 1 ! -type l -perm /222`)).toBe("");
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
