/** The program, evaluated without an engine: its resources, their order, and the secret marks. */
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Resource } from "../../infra/cli/stack/live-objects.ts";
import { hostLayers } from "../../infra/host/index.ts";
import { originCertificate } from "../../infra/host/origin-certificate/origin-certificate.ts";
import { paths } from "../../infra/host/paths.ts";
import { exampleHost, made, secrets, served, stackConfig } from "../fixtures.ts";
import { bareHost, evaluate, type World } from "./evaluate.ts";

let example: readonly Resource[];
beforeAll(async () => {
  example = await evaluate();
});

beforeEach(() => {
  vi.resetModules();
});

const names = (declared: readonly Resource[]) =>
  declared.map(({ type, name }) => `${type.split(":").at(-1)} ${name}`).sort();
const rejection = (world: World) =>
  evaluate(world).then(
    () => "no error",
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );

const config = JSON.parse(stackConfig()["pushgate:hosts"]!) as [Record<string, unknown>];
const hosts = (...changes: object[]) =>
  stackConfig({ "pushgate:hosts": changes.map((change) => ({ ...config[0], ...change })) });
const second = {
  name: "web2",
  ssh: "root@web2",
  hostname: "two.example.org",
  address: "203.0.113.11",
  address6: "2001:db8::11",
};

test("the program declares every layer on the host and at Cloudflare", () => {
  expect(names(example)).toMatchInlineSnapshot(`
    [
      "AuthenticatedOriginPulls hooks.example.org client certificate",
      "AuthenticatedOriginPulls www.example.org client certificate",
      "AuthenticatedOriginPullsHostnameCertificate client certificate",
      "Command client certificate",
      "Command web1-builder",
      "Command web1-builder-program",
      "Command web1-client-ca",
      "Command web1-egress",
      "Command web1-firewall",
      "Command web1-guard",
      "Command web1-origin-certificate",
      "Command web1-origin-key",
      "Command web1-packages",
      "Command web1-proxy",
      "Command web1-receiver",
      "Command web1-receiver-program",
      "Command web1-routing",
      "Command web1-secrets",
      "Command web1-site",
      "DnsRecord hooks.example.org A",
      "DnsRecord hooks.example.org AAAA",
      "DnsRecord www.example.org A 203.0.113.10",
      "DnsRecord www.example.org AAAA 2001:db8::10",
      "Host web1",
      "Lock rules of the zone's own",
      "Lock web1 lock",
      "OriginCaCertificate hooks.example.org origin certificate",
      "Ruleset configuration rules",
      "Ruleset custom rules",
      "Ruleset origin rules",
      "Zone example.org",
    ]
  `);
});

test("the program applies each layer that hostLayers lists", async () => {
  // With a reporter.
  const reported = { ...secrets, site: { ...secrets.site, status: `ghp_${"x".repeat(36)}` } };
  const config = stackConfig({ "pushgate:secrets": reported });
  const declared = (await evaluate({ config })).map(({ name }) => name);
  const layers = Object.keys(hostLayers(served, exampleHost, made));
  expect(layers.filter((name) => !declared.includes(`web1-${name}`))).toEqual([]);
});

test("the program passes a secret only to the secrets layer, and marked as a secret", () => {
  const marked = example.filter(({ inputs }) => JSON.stringify(inputs).includes(secrets.site.current));
  expect(marked.map(({ name }) => name)).toEqual(["web1-secrets"]);
  // A mock is given a secret as an object with this signature; plain inputs are plain strings.
  const stdin = marked[0]?.inputs.stdin;
  expect(stdin).toMatchObject({ "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" });
});

test("no command has triggers, a delete script or an environment, so that an update runs in place", () => {
  for (const { type, inputs } of example) {
    if (!type.startsWith("command:")) continue;
    expect(inputs.triggers).toBeUndefined();
    expect(inputs.delete).toBeUndefined();
    expect(inputs.environment).toBeUndefined();
    expect(inputs.addPreviousOutputInEnv).toBe(false);
  }
});

/** The answer of a bare host's probe, with more rows. */
function answer(...rows: unknown[]): string {
  const bare = JSON.parse(bareHost()) as { rows: unknown[] };
  bare.rows.splice(-1, 0, ...rows);
  return JSON.stringify(bare);
}

test("without a site the builder's layers are declared only where a host still has them, in reverse order", async () => {
  const hooks = JSON.parse(stackConfig()["pushgate:hooks"]!) as { site?: object }[];
  const alone = stackConfig({ "pushgate:hooks": hooks.map(({ site: _, ...hook }) => hook) });
  const rebuild = (declared: readonly Resource[]) =>
    declared
      .map(({ name }) => name)
      .filter((name) => /^web1-(builder-program|reporter-program|egress|builder|site)/.test(name));
  expect(rebuild(await evaluate({ config: alone }))).toEqual([]);
  vi.resetModules();
  const left = [
    ["stamp", "builder-program", "absent-0123456789ab"],
    ["stamp", "reporter-program", "0123456789ab"],
    ["stamp", "builder", "0123456789ab"],
    ["owned", "egress", "/etc/systemd/system/pushgate-egress.service"],
  ];
  const declared = await evaluate({ config: alone, probe: () => answer(...left) });
  expect(rebuild(declared)).toEqual(["web1-builder", "web1-egress", "web1-reporter-program", "web1-builder-program"]);
});

test("preview warns if a host has its certificate and no valid request", async () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
  const installed = ["file", originCertificate, "regular file", "644", "root:root"];
  const request = ["fact", "request", 0, 0, Buffer.from("a request").toString("base64")];
  const warned: number[] = [];
  const other = ["file", paths.nginx, "regular file", "644", "root:root"];
  for (const rows of [[other], [installed, request], [installed]]) {
    vi.resetModules();
    warn.mockClear();
    await evaluate({ probe: () => answer(...rows) });
    warned.push(
      warn.mock.calls.filter(([line]) => /web1: the certificate request is missing/.test(String(line))).length,
    );
  }
  warn.mockRestore();
  expect(warned).toEqual([0, 0, 1]);
});

describe("the state of a host", () => {
  test("absent: its layers leave, and no record and no rule stays at Cloudflare", async () => {
    const declared = await evaluate({ config: hosts({ state: "absent" }) });
    expect(declared.filter(({ type }) => type.startsWith("cloudflare:"))).toEqual([]);
    const leaving = declared.filter(({ inputs }) => String(inputs.stdin).includes("\npresent=0\n"));
    expect(leaving.map(({ name }) => name.replace("web1-", "")).sort()).toEqual([
      "builder",
      "builder-program",
      "client-ca",
      "egress",
      "firewall",
      "guard",
      "origin-certificate",
      "origin-key",
      "packages",
      "proxy",
      "receiver",
      "receiver-program",
      "reporter-program",
      "routing",
      "secrets",
      "site",
    ]);
  });

  test("lost: no command reaches it, its record stays, and preview is never clean", async () => {
    const declared = await evaluate({
      config: hosts({}, { ...second, state: "lost" }),
    });
    expect(names(declared).filter((name) => name.includes("web2"))).toEqual(["Command web2-lost", "Host web2"]);
    expect(names(declared)).toContain("DnsRecord two.example.org A");
    vi.resetModules();
    const alone = await evaluate({ config: hosts({ state: "lost" }) });
    const [again] = alone.filter(({ name }) => name === "web1-lost");
    const [once] = declared.filter(({ name }) => name === "web2-lost");
    expect(again?.inputs.stdin).not.toBe(once?.inputs.stdin);
  });

  test("two hosts each have a hostname, a certificate and all layers, and share the rules", async () => {
    const declared = await evaluate({
      config: hosts({}, second),
    });
    const rulesets = declared.filter(({ type }) => type.endsWith(":Ruleset"));
    expect(rulesets).toHaveLength(3);
    for (const { inputs } of rulesets) expect(JSON.stringify(inputs)).toContain("two.example.org");
    expect(declared.filter(({ name }) => name.startsWith("web2-"))).toHaveLength(
      declared.filter(({ name }) => name.startsWith("web1-")).length,
    );
  });
});

describe("the program declares nothing", () => {
  test("while the configuration has faults", async () => {
    expect(await rejection({ config: stackConfig({ "pushgate:zone": "", "pushgate:hooks": [] }) })).toMatch(
      /^\d faults in the stack configuration\. Nothing was changed\.\n/m,
    );
  });

  test("while a host cannot carry it, and reports the faults of all hosts together", async () => {
    const message = await rejection({
      config: hosts({}, second),
      probe: (target) => bareHost(target === "root@web2" ? { uid: "1000" } : { bpf: "absent" }),
    });
    expect(message).toMatch(/web1 cannot carry pushgate/);
    expect(message).toMatch(/web2 cannot carry pushgate/);
  });

  test("while the zone is on another plan than declared", async () => {
    const edge = (token: string) =>
      token.includes("getZone:") ? { id: "0".repeat(32), name: "example.org", plan: { legacyId: "free" } } : undefined;
    expect(await rejection({ edge })).toMatch(/edge\.plan is pro, but the zone example\.org is on free/);
  });

  test("while a host's answer is not the probe's", async () => {
    expect(await rejection({ probe: () => "Welcome to Debian!" })).toMatch(/the probe's answer is not whole/);
  });
});
