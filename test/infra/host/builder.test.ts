/** What a site's configuration becomes, where golden.test.ts does not show it: settings, units, facts. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import type { Hook, Settings, Site } from "../../../infra/config/settings.ts";
import { builderLayer, builderSettings } from "../../../infra/host/builder/builder.ts";
import { startProgram } from "../../../infra/host/builder/generator.ts";
import { paths, units } from "../../../infra/host/paths.ts";
import { credentialFiles } from "../../../infra/host/secrets/secrets.ts";
import { beginOfBuild } from "../../../service/builder/build/content.ts";
import { builderShape } from "../../../service/builder/settings.ts";
import { reporterShape } from "../../../service/reporter/settings.ts";
import { exampleHost, rebuilt } from "../../fixtures.ts";
import { exposure, needs, unitText, values } from "./namespace.ts";

const layer = builderLayer(rebuilt, exampleHost);
const text = (name: string) => unitText(layer.files, name);
const [plainHook, docsHook] = rebuilt.hooks as readonly [Hook, Hook];
const site = docsHook.site!;
const changed = (change: Partial<Site>, more: Partial<Hook> = {}): Settings => ({
  ...rebuilt,
  hooks: [plainHook, { ...docsHook, ...more, site: { ...site, ...change } }],
});
const filesOf = (settings: Settings) => builderLayer(settings, exampleHost).files;
const endingIn = (end: string, files = layer.files) => files.find(({ path }) => path.endsWith(end))!.text;

describe("exposure", () => {
  needs("systemd-analyze");

  test.each([
    [units.fetcher("docs"), 2],
    [units.generator("site"), 2],
    [units.agent("docs"), 3],
    [units.reconcile("docs"), 7],
    // It removes what other accounts made.
    [units.stop("site"), 9],
    [units.build("docs"), 11],
    [units.generator("docs"), 11],
    [units.report("docs"), 11],
    // As root it enters homes that are closed.
    [units.content("docs"), 14],
    // It starts what is setuid, which no filter of system calls and no namespace of users may precede.
    [units.mail("docs"), 85],
  ])("systemd rates %s at %i tenths", (name, tenths) => {
    expect(exposure(name, text(name))).toBe(tenths);
  });
});

test("no placeholder is read in a path, and ssh reads a host key in each line", () => {
  const knownHosts = ["a ssh-ed25519 A", "a ssh-rsa B"];
  const files = filesOf(changed({ content: "/home/@user@/content", knownHosts }));
  expect(endingIn("docs.known_hosts", files)).toBe("a ssh-ed25519 A\na ssh-rsa B\n");
  const mounts = values(endingIn(units.generator("docs"), files), "BindReadOnlyPaths");
  expect(mounts).toContain("-/home/@user@/content:/content");
});

test("no fact exceeds what a host's answer may hold, however many sites there are", () => {
  const hooks = Array.from({ length: 30 }, (_, i) => ({ ...docsHook, name: `${i}`.padStart(32, "a") }));
  // apply.sh and probe.sh cut an answer at 2,048 bytes.
  for (const { name, want } of builderLayer({ ...rebuilt, hooks }, exampleHost).facts)
    expect(Buffer.byteLength(want), name).toBeLessThanOrEqual(2_048);
});

const [plain, docs] = sitesOf(rebuilt).map(builderSettings);

test("the settings are what the builder and the reporter read", () => {
  for (const settings of [plain, docs])
    expect(v.parse(builderShape, JSON.parse(JSON.stringify(settings)))).toEqual(settings);
  expect(v.is(builderShape, { ...plain, folder: "docs/" })).toBe(true);
  for (const folder of ["/docs", "docs/../..", ""]) expect(v.is(builderShape, { ...plain, folder })).toBe(false);
  const settings = JSON.parse(endingIn("reporter/docs.json"));
  expect(v.parse(reporterShape, settings)).toEqual(settings);
});

const team = { name: "team", url: "https://chat.example.org/x", format: "standard", published: true } as const;
const mail = { ...team, url: "mailto:a@example.org", format: "email" } as const;
const hostname = "www.example.org";
test.each<[of: string, change: Partial<Site>, setsStatus: true | undefined, credentials: string[]]>([
  ["a status", { notify: [] }, true, ["status"]],
  ["a notification", { notify: [team] }, undefined, ["notify"]],
  ["mail, which has no secret", { notify: [mail] }, undefined, []],
  ["all, and a purge of the zone", { notify: [team], purge: true, hostname }, true, ["status", "notify", "purge"]],
])("the settings of a reporter, and its unit's credentials, are those of %s", (_, change, setsStatus, credentials) => {
  const settings = changed(change, { setsStatus } as object);
  const { files } = builderLayer(settings, { name: "web2" }, {}, "z0");
  const { status, notify, purge, site: page } = JSON.parse(endingIn("reporter/docs.json", files));
  expect([status?.context, notify.length]).toEqual([setsStatus && "pushgate/web2/docs", change.notify!.length]);
  expect(purge).toBe(change.purge && "https://api.cloudflare.com/client/v4/zones/z0/purge_cache");
  expect(page).toBe(change.hostname && `https://${hostname}/`);
  const { reports } = builderSettings(sitesOf(settings)[1]!);
  const named = change.notify!.map(({ name, published }) => ({ name, published }));
  expect(reports).toMatchObject({ status: setsStatus ?? false, purge: change.purge ?? false, notify: named });
  const ofDocs = credentials.map((kind) => [kind, `docs.${kind}`] as const);
  const loaded = values(unitText(files, units.report("docs")), "LoadCredentialEncrypted");
  expect(loaded).toEqual(ofDocs.map(([kind, name]) => `${kind}:${paths.credentials}/${name}`));
  const names = ["docs", "docs.deploy-key", ...ofDocs.map(([, name]) => name), "site"];
  expect(credentialFiles(settings)).toEqual(names.sort());
});

test("the generator's shell says which build it is, lists folders and pages, and becomes Hugo; without Hugo it ends with systemd's 203", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-generator-"));
  const hugo = join(folder, "hugo");
  const previews = { hostname: "preview.example.org", branches: ["*"], keep: 10 };
  const hook = { ...plainHook, site: { ...plainHook.site!, previews } };
  const files = filesOf({ ...rebuilt, hooks: [hook, docsHook] });
  const shell = join(folder, "generator");
  writeFileSync(shell, endingIn(startProgram, files));
  const started = (name: string, input = "") => {
    const [command = ""] = values(endingIn(units.generator(name), files), "ExecStart");
    const words = command.replace(startProgram, `sh ${shell}`).replace("/usr/bin/hugo", hugo).replace("/cache", folder);
    const env = { PATH: process.env.PATH, INVOCATION_ID: "f".repeat(32) };
    const { status, stdout } = spawnSync("sh", ["-c", words], { cwd: folder, env, input, encoding: "utf8" });
    return [status, stdout.trimEnd().split("\n")] as const;
  };
  const first = `${beginOfBuild}${"f".repeat(32)}`;
  expect(started("site")).toEqual([203, [first]]);
  writeFileSync(hugo, '#!/bin/sh\necho "$HUGO_BASEURL$*"\n', { mode: 0o755 });
  const flags = "--minify --noChmod --noTimes";
  expect(started("site")).toEqual([0, [first, flags]]);
  const listed = () => ["mounts", "pages.csv"].map((name) => readFileSync(join(folder, name), "utf8"));
  // The shell does not wait for the first.
  await expect.poll(listed).toEqual(["config mounts\n", "list all\n"]);
  expect(started("site-previews")).toEqual([1, [first]]);
  const [status, printed] = started("site-previews", "https://preview.example.org/map/\n");
  expect([status, printed.at(-1)]).toEqual([0, `https://preview.example.org/map/${flags}`]);
});

test("the settings of previews name their address, and they have credentials of their own", () => {
  const settings = changed({ previews: { hostname: "preview.example.org", branches: ["*"], keep: 10 } });
  const files = filesOf(settings);
  expect(JSON.parse(endingIn("builder/docs-previews.json", files))).toMatchObject({
    hook: "docs-previews",
    previews: { branches: ["*"], keep: 10, url: "https://preview.example.org/" },
  });
  expect(credentialFiles(settings)).toEqual(
    [...credentialFiles(rebuilt), "docs-previews.deploy-key", "docs-previews.status"].sort(),
  );
});
