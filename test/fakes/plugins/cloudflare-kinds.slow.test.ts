/**
 * The fake plugin is as blind as docs/decisions/022 says of the real one: each property that the program declares is
 * changed at the fake Cloudflare, and a refresh and a diff see it or not. And it is as strict: what the real one rejects,
 * fills in and sends.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test, vi } from "vitest";
import { rulesOf } from "../../../infra/edge/zone/fits.ts";
import { example, stackConfig } from "../../fixtures.ts";
import { evaluate } from "../../infra/evaluate.ts";
import { type Api, apiToken, startApi } from "../cloudflare/api.ts";
import { createAuthority } from "../cloudflare/authority.ts";
import { emptyZone, type ZoneState } from "../cloudflare/zone.ts";
import { configureApi } from "./cloudflare-api.ts";
import { kinds } from "./cloudflare-kinds.ts";
import { resource } from "./cloudflare-resource.ts";
import type { Context, Props } from "./provider.ts";

const decision = new URL("../../../docs/decisions/022-what-a-refresh-does-not-see.md", import.meta.url);
const page = readFileSync(decision, "utf8");
type Row = readonly [resource: string, property: string, refresh: string, instead?: string];
const matches = (text: string, row: RegExp) => [...text.matchAll(row)].map(([, ...cells]) => cells as unknown as Row);
const rows = matches(page, /^\| (\w+) \| (\w+) \| (seen|restored|identity|ignored) \| ?(.*?) ?\|$/gm);
/** What the program does not declare. */
const [, second = ""] = page.split("What the program does not declare");
const undeclared = matches(second, /^\| (?!BotManagement)(\w+) \| ([^|]+) \| (not seen|seen)/gm);
const kindOf = (type: string) => Object.entries(kinds).find(([token]) => token.endsWith(`:${type}`))![1];
const hostname = "hooks.example.org";
const csr = readFileSync(new URL("request.pem", import.meta.url), "utf8");
const context: Context = { preview: false, name: "", urn: "", log: async () => undefined };

let api: Api;
let inputs: Record<string, Props>;
const authority = await createAuthority("stack CA");
afterAll(() => authority.close());
beforeEach(async () => {
  await api?.close();
  api = await startApi({ zone: emptyZone("example.org", "free"), authority });
  configureApi({ apiToken, baseUrl: api.url });
  const zoneId = api.zone.id;
  const { certificate, key } = await authority.issue("pushgate");
  inputs = {
    AuthenticatedOriginPulls: { zoneId, configs: [{ hostname, certId: "", enabled: true }] },
    AuthenticatedOriginPullsHostnameCertificate: { zoneId, certificate, privateKey: key },
    BotManagement: { zoneId, fightMode: false, enableJs: true, isRobotsTxtManaged: false },
    DnsRecord: { zoneId, name: hostname, type: "A", content: "203.0.113.10", proxied: true, ttl: 1 },
    OriginCaCertificate: { csr, hostnames: [hostname], requestType: "origin-ecc" },
    Ruleset: {
      ...{ zoneId, kind: "zone", phase: "http_request_firewall_custom", name: "default", description: "" },
      rules: rulesOf(example).custom,
    },
  };
});
afterAll(() => api?.close());

async function made(type: string, given = inputs[type]!) {
  if (type === "AuthenticatedOriginPulls") {
    const certificate = inputs.AuthenticatedOriginPullsHostnameCertificate!;
    const { id } = await resource(kindOf("AuthenticatedOriginPullsHostnameCertificate")).create(certificate, context);
    given = { ...given, configs: [{ hostname, certId: id, enabled: true }] };
  }
  return { given, ...(await resource(kindOf(type)).create(given, context)) };
}

/** Creates the object, changes the live one, and returns what a refresh and a diff then find changed. */
async function afterwards(type: string, change: (zone: ZoneState) => unknown, wanted?: Props) {
  const kind = resource(kindOf(type));
  const { given, id, outputs } = await made(type, wanted);
  await change(api.zone);
  const live = await kind.read!(id, { inputs: given, outputs });
  const { changed } = await kind.diff({ inputs: live!.inputs, outputs: live!.outputs }, given, context);
  return changed;
}

test("each output of a creation, a refresh and an update has its name and its type in the provider's schema", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-types-"));
  symlinkSync(new URL("../../../node_modules", import.meta.url), join(folder, "node_modules"));
  for (const token of Object.keys(kinds)) {
    const [, module = "", type = ""] = /\/(\w+):(\w+)$/.exec(token)!;
    const kind = resource(kindOf(type));
    const { given, id, outputs } = await made(type);
    const all = [outputs, (await kind.read!(id, { inputs: given, outputs }))?.outputs];
    if (kindOf(type).update) all.push(await kind.update!(id, { inputs: given, outputs }, given, context));
    const text = `import type * as pulumi from "@pulumi/pulumi";
import type { ${type} } from "@pulumi/cloudflare/${module}.js";
type Some<T> = T extends (infer U)[] ? Some<U>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;
type Outputs<T> = { [K in keyof T]?: T[K] extends pulumi.Output<infer V> ? Some<V> : never };
${all.map((one, i) => `export const is${i}: Outputs<${type}> = ${JSON.stringify(one, null, 1)};`).join("\n")}`;
    writeFileSync(join(folder, `${type}.ts`), text);
  }
  const tsc = new URL("../../../node_modules/.bin/tsc", import.meta.url).pathname;
  const flags = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--types", "node"];
  const files = readdirSync(folder).filter((file) => file.endsWith(".ts"));
  const { stdout } = spawnSync(tsc, [...flags, ...files], { cwd: folder, encoding: "utf8" });
  rmSync(folder, { recursive: true });
  expect(stdout).toBe("");
});

const ofOtherRules = "Ruleset rules[].logging of a rule that is no skip";
const live: Readonly<Record<string, (zone: ZoneState) => object>> = {
  AuthenticatedOriginPulls: (zone) => zone.origin_pulls.hostnames[0]!,
  AuthenticatedOriginPullsHostnameCertificate: (zone) => zone.origin_pulls.hostname_certificates[0]!,
  BotManagement: (zone) => zone.bot_management,
  DnsRecord: (zone) => zone.dns_records[0]!,
  OriginCaCertificate: (zone) => zone.origin_certificates[0]!,
  Ruleset: (zone) => zone.rulesets[0]!,
  [ofOtherRules]: (zone) => zone.rulesets[0]!.rules.find(({ action }) => action !== "skip")!,
};

/** A manual change of each property whose row says that it is seen or not. */
const changes: Readonly<Record<string, object>> = {
  "AuthenticatedOriginPulls configs": { enabled: false, cert_id: "another" },
  "AuthenticatedOriginPullsHostnameCertificate certificate": { certificate: "another" },
  "AuthenticatedOriginPullsHostnameCertificate privateKey": { private_key: "another" },
  "BotManagement fightMode": { fight_mode: true },
  "BotManagement enableJs": { enable_js: false },
  "BotManagement isRobotsTxtManaged": { is_robots_txt_managed: true },
  "DnsRecord name": { name: "other.example.org" },
  "DnsRecord content": { content: "198.51.100.7" },
  "DnsRecord proxied": { proxied: false },
  "DnsRecord ttl": { ttl: 300 },
  "OriginCaCertificate csr": { csr: "another" },
  "OriginCaCertificate hostnames": { hostnames: ["a.example.org"] },
  "OriginCaCertificate requestType": { request_type: "origin-rsa" },
  "Ruleset name": { name: "other" },
  "Ruleset description": { description: "other" },
  "Ruleset rules": { rules: [] },
  "DnsRecord settings": { settings: { ipv4_only: true } },
  "DnsRecord tags": { tags: ["a"] },
  "DnsRecord comment": { comment: "manual" },
  [ofOtherRules]: { logging: { enabled: true } },
};

test("every property that the program declares has one row", async () => {
  const declared = new Set<string>();
  for (const edge of [{ plan: "free", botFightMode: "off" }, { plan: "pro" }]) {
    vi.resetModules();
    for (const { type, inputs: given } of await evaluate({ config: stackConfig({ "pushgate:edge": edge }) }))
      if (type.startsWith("cloudflare:"))
        for (const property of Object.keys(given)) declared.add(`${type.split(":").at(-1)} ${property}`);
  }
  expect(rows.map(([type, property]) => `${type} ${property}`).sort()).toEqual([...declared].sort());
  for (const [type, property, refresh, instead] of rows)
    if (refresh === "restored" || refresh === "ignored") expect(instead, `${type} ${property}`).not.toBe("");
});

describe("a manual change at Cloudflare", () => {
  const judged = [...rows.filter(([, , refresh]) => ["seen", "restored"].includes(refresh)), ...undeclared].map(
    ([type, property, refresh]) => ({ name: `${type} ${property}`, type, property, refresh }),
  );
  test.each(judged)("of $name is $refresh by a refresh", async ({ name, type, property, refresh }) => {
    const change = (zone: ZoneState) => Object.assign((live[name] ?? live[type]!)(zone), changes[name]);
    expect(await afterwards(type, change)).toEqual(refresh === "seen" ? [property.replace(/\[.*/, "")] : []);
  });
  test("has a row", () => {
    expect(judged.map(({ name }) => name).sort()).toEqual(Object.keys(changes).sort());
  });
});

describe("the fake plugin", () => {
  const ruleset = (change: object) => ({
    rules: [{ ref: "a", action: "block", expression: "ssl", enabled: true, description: "", ...change }],
  });
  const skip = { action: "skip", actionParameters: { ruleset: "current" } };
  test.each<[string, type: string, Props, differs: string[]]>([
    ["a validity without ignoreChanges", "OriginCaCertificate", { requestedValidity: 5475 }, ["requestedValidity"]],
    ["a skip rule without logging", "Ruleset", ruleset(skip), ["rules"]],
    ["a skip rule with logging", "Ruleset", ruleset({ ...skip, logging: { enabled: true } }), []],
    ["empty parameters of a rule", "Ruleset", ruleset({ actionParameters: {} }), ["rules"]],
    ["a rule without parameters", "Ruleset", ruleset({}), []],
    ["enableJs: false on the free plan, where it is always true", "BotManagement", { enableJs: false }, ["enableJs"]],
  ])("compares %s of %s: %j differs in %j", async (_, type, change, differs) => {
    expect(await afterwards(type, () => undefined, { ...inputs[type]!, ...change })).toEqual(differs);
  });
  test("switches a managed robots.txt off that the program leaves out, and shows no difference", async () => {
    const { isRobotsTxtManaged: _, ...rest } = inputs.BotManagement!;
    api.zone.bot_management.is_robots_txt_managed = true;
    expect(await afterwards("BotManagement", () => undefined, rest)).toEqual([]);
    expect(api.zone.bot_management.is_robots_txt_managed).toBe(false);
  });
  test("has the engine replace a record of another type", async () => {
    const { outputs } = await made("DnsRecord");
    const wanted = { ...inputs.DnsRecord!, type: "AAAA", content: "2001:db8::10" };
    const found = await resource(kindOf("DnsRecord")).diff({ inputs: inputs.DnsRecord!, outputs }, wanted, context);
    expect(found.replaces).toEqual(["type"]);
  });
});

test("the fake plugin sends empty parameters and an empty description for a rule that has none", async () => {
  const rules = [{ ref: "a", action: "managed_challenge", expression: "ssl" }];
  await resource(kindOf("Ruleset")).create({ ...inputs.Ruleset!, rules }, context);
  expect(api.requests.at(-1)?.body.rules).toEqual([{ ...rules[0], action_parameters: {}, description: "" }]);
});
