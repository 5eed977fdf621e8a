/** What holds for every layer of a host: its files are its own, and its facts are complete. */
import picomatch from "picomatch";
import { describe, expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { builderSettings } from "../../../infra/host/builder/builder.ts";
import { foldersOf } from "../../../infra/host/builder/folders.ts";
import { hugoArguments, hugoEnvironment, mountsCommand } from "../../../infra/host/builder/hugo.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { template } from "../../../infra/host/kit.ts";
import { packagesLayer } from "../../../infra/host/packages/packages.ts";
import { receiverSettings } from "../../../infra/host/receiver/receiver.ts";
import { example, exampleHost, rebuilt, served } from "../../fixtures.ts";

const made = {
  certificate: "PEM",
  clientCaPem: "PEM",
  programs: { receiver: { sha256: "" }, builder: { sha256: "" } },
};

describe.each([
  ["without a site", example],
  ["with a served site", served],
  ["with two sites and every option", rebuilt],
] as const)("the layers of a host %s", (_, settings) => {
  const layers = Object.values(hostLayers(settings, exampleHost, made));

  test("own each of their files, so that a file that is no longer declared is removed", () => {
    for (const { name, files, owns } of layers)
      for (const { path } of files)
        expect(
          owns.some((glob) => picomatch.isMatch(path, glob, { dot: true })),
          `${name}: ${path}`,
        ).toBe(true);
  });

  test("of receiver and builder own the drop-ins of their units, so that one made by hand is found and removed", () => {
    for (const { name, files, owns } of layers.filter((layer) => /^(receiver|builder)$/.test(layer.name)))
      for (const { path } of files.filter((one) =>
        /^\/etc\/systemd\/system\/[^/]+\.(service|socket|timer|path)$/.test(one.path),
      ))
        expect(
          owns.some((glob) => picomatch.isMatch(`${path}.d/manual.conf`, glob)),
          `${name}: ${path}.d`,
        ).toBe(true);
  });

  test("have units that say what they are, and programs that name their interpreter", () => {
    for (const { files } of layers)
      for (const { path, text, mode } of files) {
        if (/\.(service|socket|timer|path)$/.test(path)) expect(text, path).toMatch(/^Description=pushgate: \S.{6,}$/m);
        if (mode === "0755") expect(text.split("\n")[0], path).toMatch(/^#!\/(bin\/sh|usr\/bin\/perl)$/);
      }
  });

  test("have facts with a name, a command and a result, each name once", () => {
    for (const { name, facts } of layers) {
      for (const fact of facts)
        for (const text of Object.values(fact)) expect(text, `${name}: ${fact.name}`).toMatch(/\S/);
      expect(new Set(facts.map((fact) => fact.name)).size, name).toBe(facts.length);
    }
  });

  test("call functions that their script defines", () => {
    const defined = (script = "") => [...script.matchAll(/^(\w+)\(\) [{(]/gm)].map(([, name]) => name);
    const programs = ["cat", "echo", "getent", "ls", "stat", "systemctl"];
    for (const { name, script, activate, retire, facts } of layers)
      for (const text of [activate, retire, ...facts.map(({ read }) => read)]) {
        const [, word] = /^(?:\w+=\S*\s+)*([a-z_]+)\b/.exec(text) ?? [];
        if (word !== undefined && !programs.includes(word)) expect(defined(script), `${name}: ${text}`).toContain(word);
      }
  });

  test("have files with a text and a mode that only root can write", () => {
    for (const { name, files } of layers)
      for (const { path, text, mode, owner } of files) {
        expect([`${name}: ${path}`, owner.split(":")[0]]).toEqual([`${name}: ${path}`, "root"]);
        expect(Number.parseInt(mode, 8) & 0o022, path).toBe(0);
        expect(text, path).toMatch(/\S/);
      }
  });
});

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
    const { files } = hostLayers({ ...rebuilt, hooks }, exampleHost, made).builder;
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
  const layer = hostLayers(rebuilt, exampleHost, made).builder;
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

test("the receiver has the place of a site's status.json, and none for a hook without a site", () => {
  const [site, docs] = receiverSettings(served).hooks;
  expect(site?.status).toBe("/var/lib/pushgate-sites/site/status.json");
  expect(docs).not.toHaveProperty("status");
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

test("a template rejects a place without a value, and a value without a place", () => {
  const base = new URL("../../../infra/host/builder/builder.ts", import.meta.url).href;
  expect(() => template(base, "pushgate-reconcile.timer", {})).toThrow(
    /^pushgate-reconcile\.timer: @\w+@ has no value$/,
  );
  const values = { hook: "site", minutes: 15, more: 1, still: 2 };
  expect(() => template(base, "pushgate-reconcile.timer", values)).toThrow(/has no place for .*more, still$/);
});

test("each layer has the name that it had in stacks of an earlier version, whose stamp it takes over", () => {
  const formerly = Object.values(hostLayers(rebuilt, exampleHost, made)).map(({ name, formerly }) => [name, formerly]);
  expect(Object.fromEntries(formerly.filter(([, former]) => former !== undefined))).toEqual({
    ...{ "origin-key": "keys", "origin-certificate": "certificate", "receiver-program": "bundle" },
    ...{ "builder-program": "program", "client-ca": "pulls" },
  });
});

describe("the packages", () => {
  const of = (settings: Settings) => packagesLayer(settings).facts.map(({ name }) => name.replace("package ", ""));
  const always = ["iproute2", "nftables", "nginx", "nodejs", "openssl"];
  const [hook] = served.hooks;
  const withSite = (change: object, repository = "https://github.com/example/site.git") => ({
    ...served,
    hooks: [{ ...hook!, repository, site: { ...hook!.site!, ...change } }],
  });
  const another = { ...hook!.site!.hugo, path: "/opt/hugo/hugo" };

  test.each<[string, Settings, string[]]>([
    ["without a site", example, always],
    ["of a site over https", withSite({}), [...always, "ca-certificates", "git", "hugo"]],
    ["of a site with a hugo of its own", withSite({ hugo: another }), [...always, "ca-certificates", "git"]],
    [
      ...(["of a site over SSH", withSite({}, "git@github.com:example/site.git")] as const),
      [...always, "ca-certificates", "git", "hugo", "openssh-client"],
    ],
  ])("%s are those that run there, sorted", (_, settings, names) => {
    expect(of(settings)).toEqual(names.sort());
    expect(packagesLayer(settings).script).toContain(`packages='${names.sort().join(" ")}'\n`);
    for (const { name, read, want } of packagesLayer(settings).facts)
      expect([read, want]).toEqual([`state_of ${name.replace("package ", "")}`, "installed"]);
  });
});
