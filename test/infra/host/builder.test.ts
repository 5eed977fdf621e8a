/** The builder's units as systemd reads them, and what each line of them prevents. The host suites test them running. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import type { Site } from "../../../infra/config/settings.ts";
import { builderLayer, builderSettings } from "../../../infra/host/builder/builder.ts";
import { builderUser, generatorUser, paths, reporterUser, units } from "../../../infra/host/paths.ts";
import { builderShape } from "../../../service/builder/settings.ts";
import { reporterShape } from "../../../service/reporter/settings.ts";
import { exampleHost, rebuilt } from "../../fixtures.ts";
import { missing, Root, unitText, verifyUnits } from "./namespace.ts";

const layer = builderLayer(rebuilt, exampleHost);
const root = new Root();
afterAll(() => root.remove());
const text = (name: string) => unitText(layer.files, name);
const site = rebuilt.hooks[1]!.site!;
/** The files of a host whose hook `docs` has this site. */
const filesOf = (changed: Site) => {
  const hooks = [rebuilt.hooks[0]!, { ...rebuilt.hooks[1]!, site: changed }];
  return builderLayer({ ...rebuilt, hooks }, exampleHost).files;
};
const hugoOf = (changed: Site) => filesOf(changed).find(({ path }) => path.endsWith(units.generator("docs")))!.text;
const values = (unit: string, key: string) =>
  unit
    .split("\n")
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));

/** Tenths, as `systemd-analyze security` counts a unit's text. */
function exposure(name: string, unit: string): number {
  const file = root.write(`${name}-${Math.random()}/${name}`, unit);
  const { stdout } = spawnSync("systemd-analyze", ["security", "--offline=true", "--no-pager", file], {
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C" },
  });
  return Math.round(10 * Number(/Overall exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]));
}

describe("read by the real parsers", () => {
  const tool = missing("systemd-analyze");
  beforeEach(({ skip }) => skip(tool !== undefined, tool));

  test("systemd reports no fault", () => {
    expect(verifyUnits(layer.files)).toBe("");
  });

  // systemd 252 and 257, of Debian 12 and 13, compute the same.
  test.each([
    // It needs git's network, the spool's group, and modes with which the web server reads what it makes.
    [units.build("site"), 11],
    [units.build("docs"), 11],
    // It needs modes that let another account remove what it made, and memory that may be written and run.
    [units.generator("site"), 2],
    // It reads an address, so it needs a network, and content of a group, so it needs that group.
    [units.generator("docs"), 11],
    // It talks to the service manager, and writes into a folder of another account.
    [units.reconcile("site"), 7],
    // It enters homes that are closed, as root, and has no network.
    [units.content("docs"), 14],
    // As reconcile.
    [units.schedule("docs"), 7],
    // It needs a network.
    [units.report("docs"), 11],
    // It talks to the service manager, and removes what other accounts made.
    [units.stop("site"), 9],
    // It makes a local socket, and limits its own core dumps.
    [units.agent("docs"), 3],
  ])("systemd rates %s at an exposure of %i tenths", (name, tenths) => {
    expect(exposure(name, text(name))).toBe(tenths);
  });

  test.each([
    [units.build("site"), "CapabilityBoundingSet="],
    [units.build("site"), "NoNewPrivileges=yes"],
    [units.build("site"), "ProtectSystem=strict"],
    [units.build("site"), "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX"],
    [units.build("site"), "SystemCallFilter=@system-service"],
    [units.generator("site"), "PrivateNetwork=yes"],
    [units.generator("site"), "RestrictAddressFamilies=none"],
    [units.generator("site"), "SystemCallFilter=@system-service"],
  ])("%s without %s is more exposed", (name, line) => {
    const unit = text(name);
    expect(unit).toContain(`\n${line}\n`);
    expect(exposure(name, unit.replace(`\n${line}\n`, "\n"))).toBeGreaterThan(exposure(name, unit));
  });
});

describe("Hugo's unit", () => {
  const [plain, docs] = [text(units.generator("site")), text(units.generator("docs"))];

  test("sees the distribution, the clone and the content, and writes what it made and its cache", () => {
    const bound = values(plain, "BindReadOnlyPaths").join(" ").split(" ");
    const work = `${paths.sites}/site/work`;
    expect(bound).toEqual([...["/usr", "-/bin", "-/lib", "-/lib64", "-/etc/localtime"], `${work}/clone:/source`]);
    expect(values(docs, "BindReadOnlyPaths")).toContain("-/home/docs/content:/content");
    expect(values(plain, "BindPaths")).toEqual([
      `${work}/out:/out ${work}/cache:/cache`,
      `${work}/stats.json:/source/hugo_stats.json`,
      `${paths.generator}/results/site:/result`,
    ]);
    expect(plain).not.toMatch(/LoadCredential|ReadWritePaths/);
    expect(values(plain, "User")).toEqual([generatorUser("site")]);
  });

  test("the builder learns from root how a build ended, in a folder that no build account can write", () => {
    // A fault in the configuration is reported by the build.
    expect(values(plain, "ExecStartPre")).toEqual([
      `/bin/sh -c 'echo "pushgate-generator build=$$INVOCATION_ID"; "$$@"; echo "pushgate-generator begins"' sh /usr/bin/env ` +
        "HUGO_PUBLISHDIR=/out HUGO_CACHEDIR=/cache /usr/bin/hugo config mounts --source /source",
    ]);
    expect(values(docs, "ExecStartPre")).toEqual(['/bin/echo "pushgate-generator build=$' + '{INVOCATION_ID}"']);
    expect(values(plain, "ExecStopPost")[0]).toMatch(
      /^\+\/bin\/sh -c 'umask 022; echo "\$INVOCATION_ID .*\/result\/last'$/,
    );
    expect(
      values(plain, "ExecStopPost")
        .join("\n")
        .match(/SERVICE_RESULT/g),
    ).toHaveLength(1);
    const { text: folders } = layer.files.find(({ path }) => path === paths.builderTmpfiles)!;
    for (const folder of ["", "/site", "/docs"])
      expect(folders).toContain(`\nd ${paths.generator}/results${folder} 0755 root root -\n`);
  });

  test("Hugo that runs programs, reads addresses or is outside /usr gets what that needs, and no more", () => {
    const bound = (unit: string) => values(unit, "BindReadOnlyPaths").flatMap((line) => line.split(" "));
    expect(bound(docs).filter((path) => !path.includes(":") && !bound(plain).includes(path))).toEqual([
      "/opt/hugo/hugo",
      "-/etc/alternatives",
      "-/etc/hosts",
      "-/etc/resolv.conf",
      "-/etc/ssl/certs",
    ]);
    expect(values(docs, "PrivateNetwork")).toEqual([]);
    expect(values(docs, "SupplementaryGroups")).toEqual(["docs"]);
  });

  test("policies are closed unless the configuration opens them, and reach Hugo as they are written", () => {
    expect(plain).toContain('Environment="HUGO_SECURITY_EXEC_ALLOW=none"');
    expect(plain).toContain('Environment="HUGO_SECURITY_HTTP_URLS=none"');
    expect(docs).toContain('Environment="HUGO_SECURITY_EXEC_ALLOW=[\\"^npx$\\"]"');
    expect(docs).toContain(String.raw`Environment="HUGO_SECURITY_HTTP_URLS=[\"^https://api\\\\.example\\\\.org/\"]"`);
  });

  test("each of a git host's keys is a line for ssh", () => {
    const files = filesOf({ ...site, knownHosts: ["a ssh-ed25519 A", "a ssh-rsa B"] });
    expect(files.map(({ text }) => text)).toContain("a ssh-ed25519 A\na ssh-rsa B\n");
  });

  test("systemd reads no specifier in a policy, and each variable is a line", () => {
    const unit = hugoOf({ ...site, hugo: { ...site.hugo, http: ["^https://api/%20$"] } });
    expect(unit).toContain('Environment="HUGO_SECURITY_HTTP_URLS=[\\"^https://api/%%20$\\"]"');
    expect(values(unit, "Environment").length).toBeGreaterThan(3);
  });

  test("systemd finds content outside the repository before Hugo, and notes it where Hugo's program compares it", () => {
    for (const key of ["Wants", "After"]) expect(values(docs, key)).toContain(units.content("docs"));
    const root = values(docs, "RootDirectory")[0];
    expect(values(docs, "ExecStart")[0]).toContain(" run /content-of-docs ");
    expect(values(text(units.content("docs")), "ExecStart")[0]).toMatch(
      new RegExp(` find \\S+ ${root}/content-of-docs$`),
    );
    const program = layer.files.find(({ path }) => path.endsWith("/generator-content"))!.text;
    for (const script of ["host/others.sh", "host/builder/content.sh"])
      expect(program).toContain(readFileSync(new URL(`../../../infra/${script}`, import.meta.url), "utf8"));
  });

  test("builds in the folder of the site, and has its program find a content folder only where one is outside", () => {
    expect(values(docs, "WorkingDirectory")).toEqual(["/source/docs"]);
    expect(values(docs, "ExecStart")[0]).toMatch(
      /generator-content run .* --source \/source\/docs --contentDir \/content /,
    );
    expect(values(docs, "BindPaths")[1]).toMatch(/:\/source\/docs\/hugo_stats\.json$/);
    expect(values(plain, "ExecStart")[0]).toMatch(/^\/usr\/bin\/hugo .* --source \/source --destination /);
    const without = { ...rebuilt, hooks: rebuilt.hooks.slice(0, 1) };
    const { files } = builderLayer(without, exampleHost);
    expect(unitText(files, units.generator("site"))).not.toMatch(/generator-content|pushgate-content|contentDir/);
    expect(unitText(files, units.content("site"))).not.toContain("ExecStart");
  });

  test("content outside the repository needs no group of writers", () => {
    const { writers: _, ...changed } = site;
    expect(values(hugoOf(changed), "SupplementaryGroups")).toEqual([]);
  });

  test("a group that may read content outside the repository is not the group of a build without such content", () => {
    const [site] = rebuilt.hooks;
    const hooks = [{ ...site!, site: { ...site!.site!, writers: "docs" } }];
    const { files } = builderLayer({ ...rebuilt, hooks }, exampleHost);
    const unit = files.find(({ path }) => path.endsWith(units.generator("site")))!;
    expect(values(unit.text, "SupplementaryGroups")).toEqual([]);
  });

  test("a path of the site that looks like a placeholder of the template stays as it is", () => {
    const content = "/home/@user@/content";
    expect(values(hugoOf({ ...site, content }), "BindReadOnlyPaths")).toContain(`-${content}:/content`);
  });

  test("limits are the site's", () => {
    const limits = ["MemoryMax", "LimitDATA", "CPUQuota", "TasksMax", "LimitNPROC", "RuntimeMaxSec", "MemorySwapMax"];
    expect(limits.flatMap((key) => values(docs, key))).toEqual(["256M", "512M", "100%", "256", "256", "600s", "0"]);
  });

  test("only the builder may connect, one build at a time", () => {
    const socket = text(units.generatorSocket("site"));
    for (const line of [`SocketUser=${builderUser("site")}`, "SocketMode=0600", "Accept=yes", "MaxConnections=1"])
      expect(socket).toContain(`\n${line}\n`);
  });
});

describe("the build's unit", () => {
  test("has no secret: the ssh-agent of a repository over SSH has the deploy key, the reporter what it sends with", () => {
    const credentials = layer.files.flatMap(({ path, text }) =>
      values(text, "LoadCredentialEncrypted").map((value) => [path, value]),
    );
    const agent = units.agent("docs");
    const reporter = `${paths.units}/${units.report("docs")}.d/site.conf`;
    expect(credentials).toEqual([
      [`${paths.units}/${units.agent()}`, `deploy-key:${paths.credentials}/%i.deploy-key`],
      [reporter, `status:${paths.credentials}/docs.status`],
      [reporter, `notify:${paths.credentials}/docs.notify`],
    ]);
    for (const line of ["PrivateNetwork=yes", "PrivateUsers=yes", "StopWhenUnneeded=yes", "LimitCORE=0"])
      expect(text(agent)).toContain(`\n${line}\n`);
    expect(values(text(units.build("docs")), "Wants").at(-1)).toBe(agent);
    expect(text(units.build("site"))).not.toContain("agent");
  });

  test("writes its own folders, and sees none of another site", () => {
    const kinds = [paths.spool, paths.requests, paths.rootRequests, paths.sites];
    for (const [hook, more] of [
      ["site", []],
      ["docs", [paths.reports]],
    ] as const) {
      const unit = text(units.build(hook));
      const lines = (of: (folder: string) => string) => [kinds.map(of).join(" "), ...more.map(of)];
      for (const key of ["ReadWritePaths", "BindPaths"])
        expect(values(unit, key)).toEqual(lines((folder) => `${folder}/${hook}`));
      expect(values(unit, "TemporaryFileSystem")).toEqual(lines((folder) => `${folder}:ro`));
    }
  });

  test("sees no home, and systemd mounts no path for it that another account can exchange", () => {
    for (const name of ["site", "docs"]) {
      expect(values(text(units.build(name)), "ProtectHome")).toEqual(["yes"]);
      expect(values(text(units.build(name)), "BindReadOnlyPaths")).toEqual([]);
    }
  });

  test("starts without another program before it, and its end has root load the table that limits its network", () => {
    for (const name of ["site", "docs"]) {
      const unit = text(units.build(name));
      expect([...values(unit, "ExecStartPre"), ...values(unit, "ExecStartPost")]).toEqual([]);
      expect(values(unit, "After").join(" ")).not.toContain(units.agent(name));
      expect(values(unit, "ExecStopPost")[1]).toContain(`exited69) ${paths.lib}/egress ||`);
    }
  });

  test("no account but root and the builder enters the folder of root's requests, and the tick's unit needs no capability", () => {
    const { text: folders } = builderLayer(rebuilt, exampleHost).files.find(
      ({ path }) => path === paths.builderTmpfiles,
    )!;
    for (const hook of ["site", "docs"])
      expect(folders).toContain(`d ${paths.rootRequests}/${hook} 0770 root ${builderUser(hook)} -\n`);
    expect(folders).toContain(`d ${paths.requests}/docs 1730 ${builderUser("docs")} docs -\n`);
    const tick = text(units.reconcile("docs"));
    expect(values(tick, "CapabilityBoundingSet")).toEqual([""]);
    expect(values(tick, "ReadWritePaths")).toEqual([paths.rootRequests]);
    expect(tick).not.toContain(paths.requests);
  });

  test("a schedule has a timer that makes up for missed runs, and a unit that requests a build as the tick's does", () => {
    const timer = text(units.scheduleTimer("docs"));
    expect([values(timer, "OnCalendar"), values(timer, "Persistent")]).toEqual([["Mon..Fri 06:00"], ["yes"]]);
    const [tick, schedule] = [text(units.reconcile("docs")), text(units.schedule("docs"))];
    const asTick = schedule.replaceAll("/.schedule-docs", "/.tick-docs").replace("/docs/schedule'", "/docs/tick'");
    expect(asTick.replace(/^Description=.*$/m, "")).toBe(tick.replace(/^Description=.*$/m, ""));
    expect(text(units.scheduleTimer("site"))).not.toContain("OnCalendar");
    expect(values(text(units.site("docs")), "Wants").at(-1)).toContain(units.scheduleTimer("docs"));
    expect(text(units.site("site"))).not.toContain("schedule");
  });

  test("systemd runs one builder for each site: no other unit of a site runs it", () => {
    const all = layer.files.filter(({ text }) =>
      values(text, "ExecStart").some((line) => line.includes(paths.builder)),
    );
    const names = all.map(({ path }) => path.split("/").at(-1)!).sort();
    expect(names).toEqual([units.build()]);
    expect(values(text(units.report("docs")), "ExecStart")).toEqual([`/usr/bin/node ${paths.reporter}`]);
    for (const name of ["site", "docs"]) {
      expect(values(text(units.build(name)), "KillMode")).toEqual([]);
      expect(values(text(units.buildPath(name)), "Unit")).toEqual([]);
    }
  });

  test("its limits are git's, one process that is killed does not end the builder, and its end is reported", () => {
    const unit = text(units.build("docs"));
    const limits = ["OOMPolicy", "MemoryMax", "LimitDATA", "LimitFSIZE", "TasksMax"];
    expect(limits.flatMap((key) => values(unit, key))).toEqual(["continue", "512M", "1024M", "8192M", "256"]);
    const [report, end] = values(unit, "ExecStopPost");
    expect(report).toContain(`exec /usr/bin/node ${paths.builder} ended`);
    expect(end).toContain('*) exec systemctl kill --signal=KILL "pushgate-generator-docs@*.service" ;;');
  });

  test("starts the socket by which the builder has Hugo killed, and only the builder may connect to it", () => {
    expect(text(units.build("site"))).toContain(units.stopSocket("site"));
    const socket = text(units.stopSocket("site"));
    const { generator } = builderSettings(sitesOf(rebuilt)[0]!);
    for (const line of [
      `ListenStream=${generator.socket}.stop`,
      `SocketUser=${builderUser("site")}`,
      "SocketMode=0600",
    ])
      expect(socket).toContain(`\n${line}\n`);
    const [kill, clear, ...more] = values(text(units.stop("site")), "ExecStart");
    expect(kill).toBe('/usr/bin/systemctl kill --signal=KILL "pushgate-generator-site@*.service"');
    expect(clear).toContain(`find ${paths.sites}/site/work -mindepth 1 -maxdepth 1 -name former-*`);
    expect(more).toEqual([]);
  });

  test("its .path unit watches states only, as a change during a build would be lost", () => {
    const path = text(units.buildPath("site"));
    expect(path).not.toMatch(/PathChanged|PathModified|PathExists=/);
    expect(path.match(/^(DirectoryNotEmpty|PathExistsGlob)=/gm)).toHaveLength(4);
  });
});

describe("the reporter", () => {
  test("has units only where results leave the host, and a result of its own for each host", () => {
    const names = (layer: ReturnType<typeof builderLayer>) =>
      layer.files.map(({ path }) => path).filter((path) => /report.*(site|docs)/.test(path));
    expect(names(layer)).toEqual([
      ...[`${paths.reporterSettings}/docs.json`, `${paths.units}/${units.report("docs")}.d/site.conf`],
    ]);
    expect(values(text(units.site("docs")), "Wants").at(-1)).toContain(units.reportPath("docs"));
    expect(text(units.site("site"))).not.toContain("report");
    const quiet = rebuilt.hooks.map(({ setsStatus: _, site, ...hook }) => {
      const { notify: __, ...rest } = site!;
      return { ...hook, site: rest };
    });
    expect(names(builderLayer({ ...rebuilt, hooks: quiet }, exampleHost))).toEqual([]);
    const context = (host: { readonly name: string }) =>
      JSON.parse(builderLayer(rebuilt, host).files.find(({ path }) => path.endsWith("reporter/docs.json"))!.text).status
        .context;
    expect([context({ name: "web1" }), context({ name: "web2" })]).toEqual([
      "pushgate/web1/docs",
      "pushgate/web2/docs",
    ]);
  });

  test("loads the table that limits its network before it starts, and sees neither clone, content nor spool", () => {
    const unit = text(units.report("docs"));
    expect(values(unit, "ExecStartPre")).toEqual([`+${paths.lib}/egress`]);
    expect(values(unit, "InaccessiblePaths")[0]).toContain(`-${paths.sites} -${paths.spool} `);
    expect(values(unit, "BindPaths")).toEqual([`${paths.reports}/docs`]);
    expect(unit).toContain("\nProtectHome=yes\n");
    const { text: folders } = layer.files.find(({ path }) => path === paths.builderTmpfiles)!;
    expect(folders).toContain(`d ${paths.reports}/docs 0770 ${builderUser("docs")} ${reporterUser("docs")} -\n`);
  });

  test("its .path unit watches a state, as a report during a run would be lost", () => {
    expect(text(units.reportPath("docs"))).toContain(`\nDirectoryNotEmpty=${paths.reports}/docs\n`);
  });

  test("its settings are what it reads", () => {
    const settings = JSON.parse(layer.files.find(({ path }) => path.endsWith("reporter/docs.json"))!.text);
    expect(v.parse(reporterShape, settings)).toEqual(settings);
  });
});

test("a target holds together what is started, stopped and enabled of a site", () => {
  const started = (hook: string) =>
    values(text(units.site(hook)), "Wants")
      .join(" ")
      .split(" ");
  const always = [units.buildPath, units.reconcileTimer, units.generatorSocket, units.stopSocket];
  expect(started("site")).toEqual(always.map((unit) => unit("site")));
  expect(started("docs")).toEqual([...always, units.scheduleTimer, units.reportPath].map((unit) => unit("docs")));
  const services = [units.build, units.agent, units.report, units.reconcile, units.schedule].map((unit) =>
    unit("docs"),
  );
  for (const unit of [...started("docs"), ...services])
    expect(values(text(unit), "PartOf"), unit).toEqual([units.site("docs")]);
  expect(values(text(units.generator("docs")), "StopPropagatedFrom")).toEqual([units.site("docs")]);
  const installed = layer.files.filter(({ text }) => text.includes("[Install]")).map(({ path }) => path);
  expect(installed).toEqual([`${paths.units}/${units.site()}`]);
});

test.each([units.build, units.agent, units.report])("without its drop-in a unit has no account", (unit) => {
  const users = values(text(unit("docs")), "User");
  expect(users).toEqual(["pushgate-no-account", expect.stringMatching(/^pushgate-(build|report)-docs$/)]);
  expect(values(text(unit("other")), "User")).toEqual(["pushgate-no-account"]);
});

describe("the accounts of sites", () => {
  test("no two sites share an account, whose name says which site and fits systemd's 31 characters", () => {
    const names = ["a", "site", "a".repeat(17), "a".repeat(32), `${"a".repeat(31)}b`, "-", "0"];
    const accounts = names.flatMap((name) => [builderUser(name), generatorUser(name)]);
    expect(new Set(accounts).size).toBe(accounts.length);
    for (const account of accounts) expect(account).toMatch(/^pushgate-(build|generator)-[a-z0-9-]+(_[0-9a-f]{8})?$/);
    for (const account of accounts) expect(account.length).toBeLessThanOrEqual(31);
    expect(builderUser("site")).toBe("pushgate-build-site");
  });

  test("each unit and folder of a site belongs to that site's accounts", () => {
    for (const [name, other] of [["site", "docs"] as const, ["docs", "site"] as const]) {
      const own = layer.files.filter(({ path }) => new RegExp(`[-@]${name}[.@]`).test(path));
      const users = own.flatMap(({ text }) => [...values(text, "User"), ...values(text, "SocketUser")]);
      const reporter = name === "docs" ? [reporterUser(name)] : [];
      expect(new Set(users)).toEqual(new Set([builderUser(name), generatorUser(name), ...reporter]));
      const { text: folders } = layer.files.find(({ path }) => path === paths.builderTmpfiles)!;
      const lines = folders.split("\n").filter((line) => line.includes(`/${name}`));
      expect(lines.join("\n")).not.toContain(builderUser(other));
    }
  });
});

test("no fact exceeds what a host's answer may hold, however many sites there are", () => {
  const [hook] = sitesOf(rebuilt);
  const hooks = Array.from({ length: 30 }, (_, i) => ({ ...hook!, name: `${i}`.padStart(32, "a") }));
  // apply.sh and probe.sh cut an answer at 2,048 bytes.
  for (const { name, want } of builderLayer({ ...rebuilt, hooks }, exampleHost).facts)
    expect(Buffer.byteLength(want), name).toBeLessThanOrEqual(2_048);
});

test("its settings name what the units hold, and are what the builder reads", () => {
  const [plain, docs] = sitesOf(rebuilt).map(builderSettings);
  expect(plain).toMatchObject({
    hook: "site",
    generator: { socket: `${paths.generator}/site.sock`, result: `${paths.generator}/results/site/last` },
  });
  for (const key of ["knownHosts", "agent"]) expect(plain).not.toHaveProperty(key);
  for (const settings of [plain, docs])
    expect(v.parse(builderShape, JSON.parse(JSON.stringify(settings)))).toEqual(settings);
  expect(v.is(builderShape, { ...plain, folder: "docs/" })).toBe(true);
  for (const folder of ["/docs", "docs/../..", ""]) expect(v.is(builderShape, { ...plain, folder })).toBe(false);
  expect(docs).toMatchObject({ knownHosts: `${paths.builderSettings}/docs.known_hosts`, submodules: false });
});
