/** What a site's configuration becomes: settings, folders, facts, and what Hugo is started with. */
import { describe, expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import { builderLayer, builderSettings } from "../../../infra/host/builder/builder.ts";
import { foldersOf } from "../../../infra/host/builder/folders.ts";
import { hugoArguments, hugoEnvironment, mountsCommand } from "../../../infra/host/builder/hugo.ts";
import { exampleHost, rebuilt } from "../../fixtures.ts";

describe("the builder's settings", () => {
  const [site, docs] = sitesOf(rebuilt).map(builderSettings);

  test("of a site at the top of a repository over https have no folder, key or report", () => {
    for (const key of ["content", "folder", "knownHosts", "agent", "reports"]) expect(site).not.toHaveProperty(key);
    expect(site!.paths).toContain(".gitmodules");
    expect(site!.paths).toContain("layouts/");
  });

  test("of a site in a folder have the paths below it, but .gitmodules", () => {
    expect(docs).toMatchObject({ folder: "docs", content: "/home/docs/content" });
    expect(docs!.paths.filter((path) => !path.startsWith("docs/"))).toEqual([".gitmodules"]);
    expect(docs).toMatchObject({
      reports: { folder: expect.stringMatching(/\/docs$/), status: true, notify: true },
      knownHosts: expect.stringMatching(/\/docs\.known_hosts$/),
      agent: expect.stringMatching(/-docs\/socket$/),
    });
  });
});

test("a reporter's settings name the recipients that there are", () => {
  const of = (change: object, status: boolean) => {
    const hooks = rebuilt.hooks.map(({ status: _, ...hook }) => ({
      ...hook,
      ...(status && { status: true as const }),
      ...(hook.site && { site: { ...hook.site, ...change } }),
    }));
    const { files } = builderLayer({ ...rebuilt, hooks }, exampleHost);
    const text = files.find(({ path }) => /reporter.*docs\.json$/.test(path))?.text;
    const unit = files.find(({ path }) => path.endsWith("/pushgate-report-docs.service"))?.text ?? "";
    return [
      Object.keys(JSON.parse(text ?? "{}")).filter((key) => /status|notify/.test(key)),
      /^Description=.*$/m.exec(unit)?.[0],
    ];
  };
  const notify = "https://chat.example.org/hooks/builds";
  const [status, notified] = [of({ notify: undefined }, true), of({ notify }, false)];
  expect([status[0], notified[0], of({ notify }, true)[0]]).toEqual([["status"], ["notify"], ["status", "notify"]]);
  expect(status[1]).toMatch(/the git host$/);
  expect(notified[1]).toMatch(/site\.notify$/);
  expect(of({ notify }, true)[1]).toMatch(/the git host and site\.notify$/);
});

test("a site's requests are for its writers, who cannot list them, or for the builder alone", () => {
  const [site, docs] = sitesOf(rebuilt).map((hook) => foldersOf(hook)[0]!);
  expect(site).toEqual([expect.stringMatching(/\/site$/), "700", "pushgate-build-site:pushgate-build-site"]);
  expect(docs).toEqual([expect.stringMatching(/\/docs$/), "1730", "pushgate-build-docs:docs"]);
});

describe("the builder's layer", () => {
  const layer = builderLayer(rebuilt, exampleHost);
  const value = (name: string) => new RegExp(`^${name}='([^']*)'$`, "m").exec(layer.script!)?.[1];

  test("starts Hugo's sockets, and the path units of reporters, which wait for nothing else", () => {
    const started = ["pushgate-hugo-site.socket", "pushgate-hugo-docs.socket", "pushgate-report-docs.path"];
    expect(value("started")?.split(" ")).toEqual(started);
    expect(value("writers")).toBe("docs");
  });

  test("finds a unit whose file changed after systemd read it", () => {
    const { read, want } = layer.facts.find(({ name }) => name.startsWith("the builder's units"))!;
    const units = ["build.service", "build.path", "hugo.socket", "stop.socket", "reconcile.timer"];
    const ofDocs = [...units, "content.service", "schedule.timer", "report.service", "report.path"];
    const named = (site: string, all: string[]) => all.map((unit) => `pushgate-${unit.replace(".", `-${site}.`)}`);
    expect(read.split(" ").slice(1).sort()).toEqual([...named("site", units), ...named("docs", ofDocs)].sort());
    expect(want).toBe("none");
  });

  test("has the folders of all sites, and those of each, with mode and owner", () => {
    const folders = layer.facts.filter(({ name }) => name.startsWith("the builder's folders"));
    expect(folders.map(({ name }) => name.replace("the builder's folders", ""))).toEqual(["", " of site", " of docs"]);
    for (const { read, want } of folders) {
      const lines = want.split("\n").map((line) => line.split(" "));
      expect(read).toBe(`modes ${lines.map(([path]) => path).join(" ")}`);
      for (const [path, mode, owner] of lines) {
        expect(path).toMatch(/^\/(run|var)\//);
        expect(mode).toMatch(/^1?7[0-7]{2}$/);
        expect(owner).toMatch(/^[a-z-]+:[a-z-]+$/);
      }
    }
  });
});

describe("Hugo", () => {
  const folders = { source: "/source", destination: "/out", cache: "/cache" };

  test("gets the content folder only where it is outside the repository", () => {
    expect(hugoArguments({ ...folders, content: undefined }).join(" ")).toBe(
      "--minify --noBuildLock --noChmod --noTimes --source /source --destination /out --cacheDir /cache",
    );
    expect(hugoArguments({ ...folders, content: "/content" }).join(" ")).toContain(" --contentDir /content ");
  });

  test("prints the mounts without writing into its source", () => {
    expect(mountsCommand("/usr/bin/hugo", folders).join(" ")).toBe(
      "/usr/bin/env HUGO_PUBLISHDIR=/out HUGO_CACHEDIR=/cache /usr/bin/hugo config mounts --source /source",
    );
  });

  test("builds for production, without git, and keeps its resources in the cache", () => {
    expect(hugoEnvironment("/cache", { exec: [], http: [] })).toMatchObject({
      ...{ HUGO_ENVIRONMENT: "production", HUGO_ENABLEGITINFO: "false", HUGO_RESOURCEDIR: "/cache/resources" },
    });
  });

  test("may run and read nothing, unless the configuration names it", () => {
    const of = (exec: string[], http: string[]) => Object.entries(hugoEnvironment("/cache", { exec, http }));
    const policies = (all: [string, string][]) =>
      all.filter(([name]) => /SECURITY/.test(name)).map(([, value]) => value);
    expect(policies(of([], []))).toEqual(["none", "none"]);
    expect(policies(of(["^npx$"], ["^https://a/"]))).toEqual(['["^npx$"]', '["^https://a/"]']);
  });
});
