/** The program, evaluated without an engine: its resources, their order, and the secret marks. */
import { beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Resource } from "../../infra/cli/stack/live-objects.ts";
import { hostLayers } from "../../infra/host/index.ts";
import { originCertificate } from "../../infra/host/origin-certificate/origin-certificate.ts";
import { paths } from "../../infra/host/paths.ts";
import { exampleHost, made, secrets, served, stackConfig } from "../fixtures.ts";
import { bareHost, evaluate } from "./evaluate.ts";

let example: readonly Resource[];
beforeAll(async () => {
  const withReporter = { ...secrets, site: { ...secrets.site, status: `ghp_${"x".repeat(36)}` } };
  example = await evaluate({ config: stackConfig({ "pushgate:secrets": withReporter }) });
});

beforeEach(() => void vi.resetModules());

const names = (declared: readonly Resource[]) =>
  declared.map(({ type, name }) => `${type.split(":").at(-1)} ${name}`).sort();
const [host] = JSON.parse(stackConfig()["pushgate:hosts"]!) as [Record<string, unknown>];
const hosts = (...changes: object[]) => ({ "pushgate:hosts": changes.map((change) => ({ ...host, ...change })) });
const another = (n: number, change: object = {}) => ({
  ...{ name: `web${n}`, ssh: `root@web${n}`, hostname: `hooks${n}.example.org`, ...change },
  ...{ address: `203.0.113.1${n}`, address6: `2001:db8::1${n}` },
});

test("the program declares every layer on the host and at Cloudflare", () => {
  const declared = Object.values(hostLayers(served, exampleHost, made)).filter(({ present = true }) => present);
  const layers = declared.map(({ name }) => `Command web1-${name}`);
  const others = [
    ...["hooks", "www"].map((name) => `AuthenticatedOriginPulls ${name}.example.org client certificate`),
    "AuthenticatedOriginPullsHostnameCertificate client certificate",
    "Command client certificate",
    "DnsRecord hooks.example.org A",
    "DnsRecord hooks.example.org AAAA",
    "DnsRecord www.example.org A 203.0.113.10",
    "DnsRecord www.example.org AAAA 2001:db8::10",
    "Host web1",
    "Lock rules of the zone's own",
    "Lock web1 lock",
    "OriginCaCertificate hooks.example.org origin certificate",
    ...["configuration", "custom", "origin"].map((kind) => `Ruleset ${kind} rules`),
    "Zone example.org",
  ];
  expect(names(example)).toEqual([...layers, ...others].sort());
});

test("the program passes a secret only to the secrets layer, and marked as a secret", () => {
  const words = Object.values(secrets).flatMap((entry) => Object.values(entry));
  const marked = example.filter(({ inputs }) => words.some((word) => JSON.stringify(inputs).includes(word)));
  expect(marked.map(({ name }) => name)).toEqual(["web1-secrets"]);
  // A mock is given a secret as an object with this signature; plain inputs are plain strings.
  const stdin = marked[0]?.inputs.stdin;
  expect(stdin).toMatchObject({ "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270" });
});

test("no command has triggers, a delete script or an environment, so that an update runs in place", () => {
  for (const { type, inputs } of example) {
    if (!type.startsWith("command:")) continue;
    for (const key of ["triggers", "delete", "environment"]) expect(inputs).not.toHaveProperty(key);
    expect(inputs.addPreviousOutputInEnv).toBe(false);
  }
});

describe("several hosts without a site", () => {
  const file = (path: string) => ["file", path, "regular file", "644", "root:root"];
  const left = [
    ["stamp", "site", "absent-0.1.0-0123456789ab"],
    ["stamp", "builder", "0.1.0-0123456789ab"],
    ["owned", "egress", "/etc/systemd/system/pushgate-egress.service"],
  ];
  const request = ["fact", "request", 0, 0, Buffer.from("a request").toString("base64")];
  const key = (state: string) => ["fact", "origin-key", 0, 0, state];
  const answers: Readonly<Record<string, string>> = {
    "root@web2": bareHost({ os: "ubuntu 24.04" }, ...left, file(paths.nginx)),
    "root@web3": bareHost({}, file(originCertificate), request, key("valid")),
    "root@web4": bareHost({}, file(originCertificate), request, key("no key")),
  };
  let declared: readonly Resource[];
  let warned: string[];
  beforeAll(async () => {
    vi.resetModules();
    const warn = vi.spyOn(console, "warn").mockImplementation(() => undefined);
    const hooks = JSON.parse(stackConfig()["pushgate:hooks"]!) as { site?: object }[];
    const lost = [another(5, { state: "lost" }), another(6, { state: "lost" })];
    const config = stackConfig({
      "pushgate:hooks": hooks.map(({ site: _, ...hook }) => hook),
      ...hosts({}, another(2), another(3), another(4), ...lost),
    });
    declared = await evaluate({ config, probe: (target) => answers[target] ?? bareHost() });
    warned = warn.mock.calls.map(([line]) => String(line));
    warn.mockRestore();
  });
  const of = (name: string) =>
    declared.flatMap((one) => (one.name.startsWith(`${name}-`) ? [one.name.slice(name.length + 1)] : []));

  test("each has all layers, and the builder's only where a host still has them, in reverse order", () => {
    expect(of("web3")).toEqual(of("web1"));
    const rebuild = (name: string) => of(name).filter((layer) => /^(egress|builder|site)$/.test(layer));
    expect(rebuild("web1")).toEqual([]);
    expect(rebuild("web2")).toEqual(["site", "builder", "egress"]);
  });

  test("preview warns of each host under its name, as of one with its certificate and no valid request", () => {
    expect(warned.filter((line) => /certificate request is missing|not among the tested/.test(line))).toEqual([
      ...[expect.stringContaining("web2: ubuntu 24.04 "), expect.stringContaining("web4: ")],
    ]);
  });

  test("no command reaches a lost one, its record stays, and preview is never clean", () => {
    expect(names(declared).filter((name) => name.includes("web5"))).toEqual(["Command web5-lost", "Host web5"]);
    expect(names(declared)).toContain("DnsRecord hooks5.example.org A");
    const inputs = declared.filter(({ name }) => name.endsWith("-lost")).map((one) => one.inputs.stdin);
    expect(new Set(inputs).size).toBe(2);
  });
});

test("the program has the canary sent, to the API's own zone, once the records are there", async () => {
  const canary = vi.fn();
  vi.doMock("../../infra/edge/canary.ts", async (original) => ({ ...(await original<object>()), canary }));
  await evaluate().finally(() => vi.doUnmock("../../infra/edge/canary.ts"));
  const records = Array(4).fill(expect.objectContaining({ proxied: expect.anything() }));
  expect(canary.mock.calls).toEqual([[expect.objectContaining(served), expect.stringContaining("127.0.0.1"), records]]);
});

test("the layers of an absent host leave, and no record and no rule stays at Cloudflare", async () => {
  const declared = await evaluate({ config: stackConfig(hosts({ state: "absent" })) });
  expect(declared.filter(({ type }) => type.startsWith("cloudflare:"))).toEqual([]);
  const leaving = declared.filter(({ inputs }) => String(inputs.stdin).includes("\npresent=0\n"));
  const layers = Object.keys(hostLayers(served, exampleHost, made));
  expect(leaving.map(({ name }) => name.replace("web1-", "")).sort()).toEqual(layers.sort());
});

test("a host that cannot carry it or gives no answer ends the run, which reports the faults of all hosts", async () => {
  const config = stackConfig(hosts({}, another(2)));
  const probe = (target: string) => (target === "root@web2" ? "Welcome to Debian!" : bareHost({ bpf: "absent" }));
  await expect(evaluate({ config, probe })).rejects.toThrow(
    /^web2: the probe's answer is not whole[\s\S]*^web1 cannot carry pushgate/m,
  );
});
