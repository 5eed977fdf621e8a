/** What a site's configuration becomes: settings, units as systemd reads them, folders, facts. Host suites run them. */
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import type { Hook, Settings, Site } from "../../../infra/config/settings.ts";
import { builderLayer, builderSettings, foldersOf } from "../../../infra/host/builder/builder.ts";
import { look } from "../../../infra/host/builder/hugo.ts";
import { builderUser, generatorUser, paths, reporterUser, units } from "../../../infra/host/paths.ts";
import { credentialFiles } from "../../../infra/host/secrets/secrets.ts";
import { endOfFolders } from "../../../service/builder/build/content.ts";
import { builderShape } from "../../../service/builder/settings.ts";
import { reporterShape } from "../../../service/reporter/settings.ts";
import { exampleHost, rebuilt } from "../../fixtures.ts";
import { exposure, needs, unitText, values } from "./namespace.ts";

const layer = builderLayer(rebuilt, exampleHost);
const text = (name: string) => unitText(layer.files, name);
const [plainHook, docsHook] = rebuilt.hooks as readonly [Hook, Hook];
const site = docsHook.site!;
/** The settings whose hook `docs` has this site. */
const changed = (change: Partial<Site>, more: Partial<Hook> = {}): Settings => ({
  ...rebuilt,
  hooks: [plainHook, { ...docsHook, ...more, site: { ...site, ...change } }],
});
const filesOf = (settings: Settings) => builderLayer(settings, exampleHost).files;
const endingIn = (end: string, files = layer.files) => files.find(({ path }) => path.endsWith(end))!.text;
const hugoOf = (settings: Settings) => endingIn(units.generator("docs"), filesOf(settings));
const folders = endingIn(paths.builderTmpfiles);

describe("exposure", () => {
  needs("systemd-analyze");

  test.each([
    // It needs a socket, modes that let another account remove what it made, and memory that may be written and run.
    [units.fetcher("docs"), 2],
    // It needs git's network, the spool's group, and modes with which the web server reads what it makes.
    [units.build("docs"), 11],
    // It needs modes that let another account remove what it made, and memory that may be written and run.
    [units.generator("site"), 2],
    // It reads an address, so it needs a network, and content of a group, so it needs that group.
    [units.generator("docs"), 11],
    // It talks to the service manager, and writes into a folder of another account.
    [units.reconcile("site"), 7],
    // It enters homes that are closed, as root, and has no network.
    [units.content("docs"), 14],
    // It needs a network.
    [units.report("docs"), 11],
    // It starts what is setuid, which no filter of system calls and no namespace of users may precede.
    [units.mail("docs"), 85],
    // It talks to the service manager, and removes what other accounts made.
    [units.stop("site"), 9],
    // It makes a local socket, and limits its own core dumps.
    [units.agent("docs"), 3],
  ])("systemd rates %s at %i tenths", (name, tenths) => {
    expect(exposure(name, text(name))).toBe(tenths);
  });
});

describe("units", () => {
  const hugo = { site: units.generator("site"), docs: units.generator("docs") };

  // Whose effect no test of test/hosts has. golden.test.ts has the whole units.
  test.each<[unit: string, key: string, value: string]>([
    [
      hugo.site,
      "User|LoadCredential|LoadCredentialEncrypted|ReadWritePaths|SupplementaryGroups",
      generatorUser("site"),
    ],
    [units.build("docs"), "MemoryMax|LimitDATA|LimitFSIZE|TasksMax", "512M\n256\n1024M\n8192M"],
    // A .path unit watches states, as a change during a run would be lost.
    [units.reportPath("docs"), "DirectoryNotEmpty|PathChanged|PathModified", `${paths.reports}/docs`],
    [units.buildPath("site"), "PathChanged|PathModified|PathExists|Unit", ""],
    // The tick's unit needs no capability, and enters only the folder of root's requests.
    [units.reconcile("docs"), "CapabilityBoundingSet", ""],
    [units.reconcile("docs"), "ReadWritePaths", paths.rootRequests],
  ])("%s has %s=%j", (unit, key, expected) => {
    expect(values(text(unit), key).join("\n")).toBe(expected);
  });

  test("nothing but the ssh-agent has the deploy key, and nothing but the reporter what it sends with", () => {
    const credentials = layer.files.flatMap(({ path, text }) =>
      values(text, "LoadCredentialEncrypted").map((value) => [path, value]),
    );
    const reporter = `${paths.units}/${units.report("docs")}.d/site.conf`;
    expect(credentials).toEqual([
      [`${paths.units}/${units.agent()}`, `deploy-key:${paths.credentials}/%i.deploy-key`],
      [reporter, `status:${paths.credentials}/docs.status`],
      [reporter, `notify:${paths.credentials}/docs.notify`],
    ]);
  });

  test("a part of a site that is not configured has no file, folder, group or program", () => {
    const alone = builderLayer({ ...rebuilt, hooks: [plainHook] }, exampleHost);
    const has = ({ files }: typeof alone, path: string) => files.some((file) => file.path.includes(path));
    for (const path of ["content@docs", "docs.known_hosts", "report@docs", "reporter/docs.json", "pushgate-mail-docs"])
      expect([path, has(alone, path), has(layer, path)]).toEqual([path, false, true]);
    const common = ({ facts }: typeof alone) => facts.find(({ name }) => name === "the builder's folders")!.want;
    expect([common(alone), common(layer)].map((want) => want.includes("reports"))).toEqual([false, true]);
    for (const { want } of [...alone.facts, ...layer.facts]) expect(want).not.toContain("undefined");
    expect(unitText(alone.files, hugo.site)).not.toMatch(/generator-content|pushgate-content|contentDir/);
    for (const key of ["writers", "content"])
      expect(values(hugoOf(changed({ [key]: undefined })), "SupplementaryGroups")).toEqual([]);
    const quiet = changed({ notify: [] } as object, { setsStatus: undefined } as object);
    expect(filesOf(quiet).filter(({ path }) => /report.*docs/.test(path))).toEqual([]);
  });

  test("sendmail has the addresses as its arguments, and its unit nothing that implies NoNewPrivileges", () => {
    const unit = text(units.mail("docs"));
    expect(values(unit, "ExecStart")).toEqual([
      "/usr/bin/timeout 8 /usr/sbin/sendmail -i team@example.org ops@example.org",
      "/bin/echo sent",
    ]);
    // systemd.exec(5), NoNewPrivileges=
    expect(unit).not.toMatch(
      /^(NoNewPrivileges|DynamicUser|LockPersonality|MemoryDenyWriteExecute|PrivateDevices|PrivateUsers|ProtectClock|ProtectHostname|ProtectKernel\w+|Restrict\w+|SystemCall\w+)=/m,
    );
    const mail = { name: "mail", url: "mailto:a@example.org", format: "email" as const, published: false };
    const alone = changed({ notify: [mail] }, { setsStatus: undefined } as object);
    expect(values(unitText(filesOf(alone), units.report("docs")), "LoadCredentialEncrypted")).toEqual([]);
    expect(credentialFiles(alone)).toEqual(["docs", "docs.deploy-key", "site"]);
  });

  test("each of a git host's keys is a line", () => {
    const files = filesOf(changed({ knownHosts: ["a ssh-ed25519 A", "a ssh-rsa B"] }));
    expect(endingIn("docs.known_hosts", files)).toBe("a ssh-ed25519 A\na ssh-rsa B\n");
  });

  test("for content on the host a shell prints what the builder reads", () => {
    const program = endingIn("generator-content", filesOf(changed({})));
    for (const line of [`"$1" ${look.folders}`, `"$1" ${look.pages} `, `say "${endOfFolders}"`])
      expect(program).toContain(line);
  });

  test("systemd reads no specifier in a policy, and no placeholder of the template in a path", () => {
    const hugo = { ...site.hugo, http: ["^https://api/%20$"] };
    const unit = hugoOf(changed({ content: "/home/@user@/content", hugo }));
    expect(unit).toContain('Environment="HUGO_SECURITY_HTTP_URLS=(^https://api/%%20$)"');
    expect(values(unit, "BindReadOnlyPaths")).toContain("-/home/@user@/content:/content");
  });
});

describe("the layer", () => {
  test("a site's requests are for its writers, who cannot list them, or for the builder alone; root's are for neither", () => {
    const [plain, docs] = sitesOf(rebuilt).map((hook) => foldersOf(hook)[0]!);
    expect(plain).toEqual([`${paths.requests}/site`, "700", "pushgate-build-site:pushgate-build-site"]);
    expect(docs).toEqual([`${paths.requests}/docs`, "1730", "pushgate-build-docs:docs"]);
    for (const hook of ["site", "docs"])
      expect(folders).toContain(`d ${paths.rootRequests}/${hook} 0770 root ${builderUser(hook)} -\n`);
    expect(folders).toContain(`d ${paths.reports}/docs 0770 ${builderUser("docs")} ${reporterUser("docs")} -\n`);
    for (const hook of ["site", "docs"])
      expect(folders).toContain(`\nd ${paths.generator}/${hook}/result 0755 root root -\n`);
  });

  test("its facts look at the units of each target, and at units that systemd has not read", () => {
    const active = layer.facts.filter(({ read }) => read.startsWith("not_active")).map(({ read }) => read);
    expect(active.map((read) => /@(\w+)\.target/.exec(read)?.[1])).toEqual(["site", "docs"]);
    expect(active.map((read) => /report|schedule/.test(read))).toEqual([false, true]);
    expect(layer.facts.find(({ name }) => name.startsWith("the builder's units"))).toMatchObject({
      read: "stale 'pushgate-*@*' 'pushgate-generator-*.socket' 'pushgate-fetcher-*.socket' 'pushgate-stop-*.socket' 'pushgate-mail-*.socket'",
      want: "none",
    });
  });

  test("no fact exceeds what a host's answer may hold, however many sites there are", () => {
    const hooks = Array.from({ length: 30 }, (_, i) => ({ ...docsHook, name: `${i}`.padStart(32, "a") }));
    // apply.sh and probe.sh cut an answer at 2,048 bytes.
    for (const { name, want } of builderLayer({ ...rebuilt, hooks }, exampleHost).facts)
      expect(Buffer.byteLength(want), name).toBeLessThanOrEqual(2_048);
  });
});

describe("settings", () => {
  const [plain, docs] = sitesOf(rebuilt).map(builderSettings);

  test("are what the builder and the reporter read", () => {
    for (const settings of [plain, docs])
      expect(v.parse(builderShape, JSON.parse(JSON.stringify(settings)))).toEqual(settings);
    expect(v.is(builderShape, { ...plain, folder: "docs/" })).toBe(true);
    for (const folder of ["/docs", "docs/../..", ""]) expect(v.is(builderShape, { ...plain, folder })).toBe(false);
    const settings = JSON.parse(endingIn("reporter/docs.json"));
    expect(v.parse(reporterShape, settings)).toEqual(settings);
  });

  test.each([
    [undefined, true, ["status"]],
    ["https://chat.example.org/hooks/builds", undefined, ["notify"]],
    ["https://chat.example.org/hooks/builds", true, ["status", "notify"]],
  ])("of a reporter name its recipients: notify %s, status %s", (notify, setsStatus, names) => {
    const settings = changed(
      { notify: notify ? [{ name: "team", url: notify, format: "standard", published: true }] : [] } as object,
      { setsStatus } as object,
    );
    const files = filesOf(settings);
    const { status, notify: recipients } = JSON.parse(endingIn("reporter/docs.json", files));
    expect([status !== undefined, recipients.length > 0]).toEqual(
      ["status", "notify"].map((key) => names.includes(key)),
    );
    const credentials = values(unitText(files, units.report("docs")), "LoadCredentialEncrypted");
    expect(credentials.map((line) => line.split(":")[0])).toEqual(names);
    expect(builderSettings(sitesOf(settings)[1]!).reports).toMatchObject({
      ...{
        status: names.includes("status"),
        notify: names.includes("notify") ? [{ name: "team", published: true }] : [],
      },
    });
  });

  test("of a reporter that purges name the zone, and the builder's say so; its unit has that credential", () => {
    const settings = changed({ notify: [], purge: true, hostname: "www.example.org" });
    const { files } = builderLayer({ ...settings, hooks: settings.hooks.slice(1) }, exampleHost, {}, "z0");
    expect(JSON.parse(endingIn("reporter/docs.json", files)).purge).toBe(
      "https://api.cloudflare.com/client/v4/zones/z0/purge_cache",
    );
    expect(builderSettings(sitesOf(settings)[1]!).reports).toMatchObject({ notify: [], purge: true });
    expect(values(unitText(files, units.report("docs")), "LoadCredentialEncrypted")).toContain(
      `purge:${paths.credentials}/docs.purge`,
    );
    expect(credentialFiles(settings)).toContain("docs.purge");
    expect(credentialFiles(rebuilt)).not.toContain("docs.purge");
  });

  test("of previews name their address, which the builder sends to Hugo; they have a reporter and credentials of their own", () => {
    const previews = { hostname: "preview.example.org", branches: ["*"], keep: 10 };
    const files = filesOf(changed({ previews }));
    expect(JSON.parse(endingIn("builder/docs-previews.json", files))).toMatchObject({
      hook: "docs-previews",
      previews: { branches: ["*"], keep: 10, url: "https://preview.example.org/" },
    });
    expect(JSON.parse(endingIn("builder/docs.json", files))).not.toHaveProperty("previews");
    const start = values(endingIn(units.generator("docs-previews"), files), "ExecStart")[0];
    expect(start).toMatch(
      /^\/bin\/sh -c '.*; read -r HUGO_BASEURL && export HUGO_BASEURL \|\| exit; .*exec "\$\$@"' sh \/\S+ --minify /,
    );
    expect(credentialFiles(changed({ previews }))).toEqual(
      [...credentialFiles(rebuilt), "docs-previews.deploy-key", "docs-previews.status"].sort(),
    );
  });

  test("of a reporter have the address of a site that pushgate serves, and a result of its own for each host", () => {
    const of = (settings: Settings, name = "web1") =>
      JSON.parse(endingIn("reporter/docs.json", builderLayer(settings, { name }).files));
    expect([of(rebuilt), of(changed({ hostname: "www.example.org" }))].map((one) => one.site)).toEqual([
      ...[undefined, "https://www.example.org/"],
    ]);
    expect(["web1", "web2"].map((name) => of(rebuilt, name).status.context)).toEqual([
      ...["pushgate/web1/docs", "pushgate/web2/docs"],
    ]);
  });
});
