/** What a site's configuration becomes: settings, folders, facts, and what Hugo is started with. */
import { describe, expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import { builderLayer, builderSettings, foldersOf } from "../../../infra/host/builder/builder.ts";
import { buildArguments, environment, mountsCommand } from "../../../infra/host/builder/hugo.ts";
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
    const hooks = rebuilt.hooks.map(({ setsStatus: _, ...hook }) => ({
      ...hook,
      ...(status && { setsStatus: true as const }),
      ...(hook.site && { site: { ...hook.site, ...change } }),
    }));
    const { files } = builderLayer({ ...rebuilt, hooks }, exampleHost);
    const text = files.find(({ path }) => /reporter.*docs\.json$/.test(path))?.text;
    const unit = files.find(({ path }) => path.includes("/pushgate-report@docs.service.d/"))?.text ?? "";
    const reports = builderSettings(sitesOf({ ...rebuilt, hooks })[1]!).reports;
    return {
      settings: Object.keys(JSON.parse(text ?? "{}")).filter((key) => /status|notify/.test(key)),
      credentials: [...unit.matchAll(/^LoadCredentialEncrypted=(\w+):/gm)].map(([, name]) => name),
      told: [reports?.status, reports?.notify],
    };
  };
  const notify = "https://chat.example.org/hooks/builds";
  const kinds = (names: string[], told: boolean[]) =>
    expect.objectContaining({ settings: names, credentials: names, told });
  expect(of({ notify: undefined }, true)).toEqual(kinds(["status"], [true, false]));
  expect(of({ notify }, false)).toEqual(kinds(["notify"], [false, true]));
  expect(of({ notify }, true)).toEqual(kinds(["status", "notify"], [true, true]));
});

test("a reporter's settings have the site's address where pushgate serves it", () => {
  const siteOf = (hostname?: string) => {
    const hooks = rebuilt.hooks.map((hook) => ({ ...hook, ...(hook.site && { site: { ...hook.site, hostname } }) }));
    const { files } = builderLayer({ ...rebuilt, hooks } as typeof rebuilt, exampleHost);
    return JSON.parse(files.find(({ path }) => /reporter.*docs\.json$/.test(path))!.text).site;
  };
  expect([siteOf(), siteOf("www.example.org")]).toEqual([undefined, "https://www.example.org/"]);
});

test("a site without content outside the repository, reports and a key has no folder and file of them", () => {
  const [site] = rebuilt.hooks;
  const alone = builderLayer({ ...rebuilt, hooks: [site!] }, exampleHost);
  const both = builderLayer(rebuilt, exampleHost);
  const has = (layer: typeof alone, path: string) => layer.files.some((file) => file.path.includes(path));
  for (const path of ["content@docs", "docs.known_hosts", "report@docs"])
    expect([path, has(alone, path), has(both, path)]).toEqual([path, false, true]);
  const common = (layer: typeof alone) => layer.facts.find(({ name }) => name === "the builder's folders")!.want;
  expect([common(alone), common(both)].map((want) => want.includes("reports"))).toEqual([false, true]);
  for (const { want } of [...alone.facts, ...both.facts]) expect(want).not.toContain("undefined");
});

test("a site's requests are for its writers, who cannot list them, or for the builder alone", () => {
  const [site, docs] = sitesOf(rebuilt).map((hook) => foldersOf(hook)[0]!);
  expect(site).toEqual([expect.stringMatching(/\/site$/), "700", "pushgate-build-site:pushgate-build-site"]);
  expect(docs).toEqual([expect.stringMatching(/\/docs$/), "1730", "pushgate-build-docs:docs"]);
});

describe("the builder's layer", () => {
  const layer = builderLayer(rebuilt, exampleHost);
  const value = (name: string) => new RegExp(`^${name}='([^']*)'$`, "m").exec(layer.script!)?.[1];

  test("knows which hooks have a site, a schedule, and results that leave the host", () => {
    expect(["built", "scheduled", "reported"].map(value)).toEqual(["site docs", "docs", "docs"]);
    expect(value("writers")).toBe("docs");
    expect(value("hooks")).toBe("site docs");
    expect(layer.script).toContain("\nwritten_by_others() {\n");
  });

  test("has the git host's keys one a line, and programs that begin with their shell", () => {
    const text = (path: RegExp) => layer.files.find((file) => path.test(file.path))!.text;
    expect(
      text(/docs\.known_hosts$/)
        .trim()
        .split("\n"),
    ).toEqual(rebuilt.hooks[1]!.site!.knownHosts);
    expect(text(/\/generator-content$/)).toMatch(/^#!\/bin\/sh\n#/);
  });

  test("checks each Hugo once, in the account of a site that uses it, and the units that each target starts", () => {
    const hugos = layer.facts.filter(({ read }) => read.startsWith("generator_version"));
    expect(hugos.map(({ name, read, want }) => [name, /'(pushgate-generator-\w+)'/.exec(read)?.[1], want])).toEqual([
      ["/usr/bin/hugo is", "pushgate-generator-site", "0.111.3 or later"],
      ["/opt/hugo/hugo is", "pushgate-generator-docs", "0.131 or later"],
    ]);
    const same = rebuilt.hooks.map((hook) => ({
      ...hook,
      site: { ...hook.site!, hugo: rebuilt.hooks[0]!.site!.hugo },
    }));
    const facts = builderLayer({ ...rebuilt, hooks: same }, exampleHost).facts;
    expect(facts.filter(({ read }) => read.startsWith("generator_version"))).toHaveLength(1);
    const active = layer.facts.filter(({ read }) => read.startsWith("not_active")).map(({ read }) => read);
    expect(active.map((read) => /@(\w+)\.target/.exec(read)?.[1])).toEqual(["site", "docs"]);
    expect(active.map((read) => /report|schedule/.test(read))).toEqual([false, true]);
  });

  test("says of each request what it is for", () => {
    const described = (unit: string) =>
      /^Description=(.*)$/m.exec(layer.files.find(({ path }) => path.endsWith(unit))!.text)?.[1];
    expect(described("pushgate-reconcile@.service")).toContain("a comparison of %i with its repository");
    expect(described("pushgate-schedule@.service")).toContain("a build of %i although no commit is new");
  });

  test("finds a unit whose file changed after systemd read it", () => {
    const { read, want } = layer.facts.find(({ name }) => name.startsWith("the builder's units"))!;
    expect(read).toBe("stale 'pushgate-*@*' 'pushgate-generator-*.socket' 'pushgate-stop-*.socket'");
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
    expect(buildArguments({ ...folders, content: undefined }).join(" ")).toBe(
      "--minify --noBuildLock --noChmod --noTimes --source /source --destination /out --cacheDir /cache",
    );
    expect(buildArguments({ ...folders, content: "/content" }).join(" ")).toContain(" --contentDir /content ");
  });

  test("prints the mounts without writing into its source", () => {
    expect(mountsCommand("/usr/bin/hugo", folders).join(" ")).toBe(
      "/usr/bin/env HUGO_PUBLISHDIR=/out HUGO_CACHEDIR=/cache /usr/bin/hugo config mounts --source /source",
    );
  });

  test("builds for production, without git, and keeps its resources in the cache", () => {
    expect(environment("/cache", { exec: [], http: [] })).toMatchObject({
      ...{ HUGO_ENVIRONMENT: "production", HUGO_ENABLEGITINFO: "false", HUGO_RESOURCEDIR: "/cache/resources" },
    });
  });

  test("may run and read nothing, unless the configuration names it", () => {
    const of = (exec: string[], http: string[]) => Object.entries(environment("/cache", { exec, http }));
    const policies = (all: [string, string][]) =>
      all.filter(([name]) => /SECURITY/.test(name)).map(([, value]) => value);
    expect(policies(of([], []))).toEqual(["none", "none"]);
    expect(policies(of(["^npx$"], ["^https://a/"]))).toEqual(['["^npx$"]', '["^https://a/"]']);
  });
});
