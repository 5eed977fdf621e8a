/** The builder's units as systemd reads them, and what each line of them prevents. The host suites test them running. */
import { spawnSync } from "node:child_process";
import * as v from "valibot";
import { afterAll, describe, expect, test } from "vitest";
import { factCap } from "../../../infra/apply/manifest.ts";
import { sitesOf } from "../../../infra/config/derived.ts";
import { builderLayer, builderSettings } from "../../../infra/host/builder/builder.ts";
import { builderUser, hugoUser, paths, units } from "../../../infra/host/paths.ts";
import { builderShape } from "../../../service/builder/settings.ts";
import { rebuilt } from "../../fixtures.ts";
import { missing, Root, verifyUnits } from "./namespace.ts";

const layer = builderLayer(rebuilt);
const root = new Root();
afterAll(() => root.remove());
const text = (name: string) => layer.files.find(({ path }) => path === `${paths.units}/${name}`)!.text;
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

  test("systemd reports no fault", ({ skip }) => {
    skip(tool !== undefined, tool);
    expect(verifyUnits(layer.files)).toBe("");
  });

  test.each([
    // It needs git's network, the spool's group, and modes with which the web server reads what it makes.
    [units.build("site"), 11],
    [units.build("docs"), 11],
    // It needs modes that let another account remove what it made, and memory that may be written and run.
    [units.hugo("site"), 2],
    // It reads an address, so it needs a network, and content of a group, so it needs that group.
    [units.hugo("docs"), 11],
    // It talks to the service manager, and writes into a folder of another account.
    [units.reconcile("site"), 10],
  ])("%s: exposure of %i tenths at most", (name, most) => {
    if (tool !== undefined) return;
    expect(exposure(name, text(name))).toBeLessThanOrEqual(most);
  });

  test.each([
    [units.build("site"), "CapabilityBoundingSet="],
    [units.build("site"), "NoNewPrivileges=yes"],
    [units.build("site"), "ProtectSystem=strict"],
    [units.build("site"), "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX"],
    [units.build("site"), "SystemCallFilter=@system-service"],
    [units.hugo("site"), "PrivateNetwork=yes"],
    [units.hugo("site"), "RestrictAddressFamilies=none"],
    [units.hugo("site"), "SystemCallFilter=@system-service"],
  ])("%s without %s is more exposed", (name, line) => {
    if (tool !== undefined) return;
    const unit = text(name);
    expect(unit).toContain(`\n${line}\n`);
    expect(exposure(name, unit.replace(`\n${line}\n`, "\n"))).toBeGreaterThan(exposure(name, unit));
  });
});

describe("hugo's unit", () => {
  const [plain, docs] = [text(units.hugo("site")), text(units.hugo("docs"))];

  test("sees the distribution, the clone and the content, and writes what it made and its cache", () => {
    const bound = values(plain, "BindReadOnlyPaths").join(" ").split(" ");
    const work = `${paths.sites}/site/work`;
    expect(bound).toEqual([
      ...["/usr", "-/bin", "-/lib", "-/lib64", "-/etc/localtime"],
      ...[`${work}/clone:/source`, "/srv/content/site:/content"],
    ]);
    expect(values(plain, "BindPaths")).toEqual([`${work}/out:/out ${work}/cache:/cache`]);
    expect(plain).not.toMatch(/LoadCredential|ReadWritePaths/);
    expect(values(plain, "User")).toEqual([hugoUser]);
  });

  test("a hugo that runs programs, reads addresses or is outside /usr gets what that needs, and no more", () => {
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

  test("policies are closed unless the configuration opens them, and reach hugo as they are written", () => {
    expect(plain).toContain('Environment="HUGO_SECURITY_EXEC_ALLOW=none"');
    expect(plain).toContain('Environment="HUGO_SECURITY_HTTP_URLS=none"');
    expect(docs).toContain('Environment="HUGO_SECURITY_EXEC_ALLOW=[\\"^npx$\\"]"');
    expect(docs).toContain(String.raw`Environment="HUGO_SECURITY_HTTP_URLS=[\"^https://api\\\\.example\\\\.org/\"]"`);
  });

  test("a path of the site that looks like a placeholder of the template stays as it is", () => {
    const [site, docs] = rebuilt.hooks;
    const content = "/home/@user@/content";
    const { files } = builderLayer({ ...rebuilt, hooks: [site!, { ...docs!, site: { ...docs!.site!, content } }] });
    const unit = files.find(({ path }) => path.endsWith(units.build("docs")))!;
    expect(values(unit.text, "BindReadOnlyPaths")).toContain(`-${content}`);
  });

  test("limits are the site's", () => {
    const limits = ["MemoryMax", "LimitDATA", "CPUQuota", "TasksMax", "LimitNPROC", "RuntimeMaxSec", "MemorySwapMax"];
    expect(limits.flatMap((key) => values(docs, key))).toEqual(["256M", "512M", "100%", "256", "256", "600s", "0"]);
  });

  test("only the builder may connect, one build at a time", () => {
    const socket = text(units.hugoSocket("site"));
    for (const line of [`SocketUser=${builderUser}`, "SocketMode=0600", "Accept=yes", "MaxConnections=1"])
      expect(socket).toContain(`\n${line}\n`);
  });
});

describe("the build's unit", () => {
  test("has the deploy key where the repository is reached over ssh, and no other secret", () => {
    expect(values(text(units.build("site")), "LoadCredentialEncrypted")).toEqual([]);
    expect(values(text(units.build("docs")), "LoadCredentialEncrypted")).toEqual([
      `deploy-key:${paths.credentials}/docs-deploy-key`,
    ]);
  });

  test("writes its own three folders", () => {
    expect(values(text(units.build("docs")), "ReadWritePaths")).toEqual([
      [paths.spool, paths.requests, paths.sites].map((folder) => `${folder}/docs`).join(" "),
    ]);
  });

  test("sees the home folders that its site names, and no other", () => {
    expect(values(text(units.build("site")), "ProtectHome")).toEqual(["yes"]);
    expect(values(text(units.build("docs")), "BindReadOnlyPaths")).toEqual(["-/home/docs/content", "-/home/docs/www"]);
  });

  test("loads the table that limits its network before it starts", () => {
    expect(values(text(units.build("site")), "ExecStartPre")[0]).toBe(`+${paths.lib}/egress`);
  });

  test("its .path unit watches states only, as a change during a build would be lost", () => {
    const path = text(units.buildPath("site"));
    expect(path).not.toMatch(/PathChanged|PathModified|PathExists=/);
    expect(path.match(/^(DirectoryNotEmpty|PathExistsGlob)=/gm)).toHaveLength(4);
  });
});

test("no fact exceeds what a host's answer may hold, however many sites there are", () => {
  const [hook] = sitesOf(rebuilt);
  const hooks = Array.from({ length: 30 }, (_, i) => ({ ...hook!, name: `${i}`.padStart(32, "a") }));
  for (const { name, want } of builderLayer({ ...rebuilt, hooks }).facts)
    expect(Buffer.byteLength(want), name).toBeLessThanOrEqual(factCap);
});

test("its settings name what the units hold, and are what the builder reads", () => {
  const [plain, docs] = sitesOf(rebuilt).map(builderSettings);
  expect(plain).toMatchObject({ hook: "site", hugo: { socket: `${paths.hugo}/site.sock` } });
  expect(plain).not.toHaveProperty("knownHosts");
  for (const settings of [plain, docs])
    expect(v.parse(builderShape, JSON.parse(JSON.stringify(settings)))).toEqual(settings);
  expect(docs).toMatchObject({ knownHosts: `${paths.builderSettings}/docs.known_hosts`, submodules: true });
});
