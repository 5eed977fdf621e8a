/**
 * Evaluates the program without an engine, for an empty zone and, unless the caller gives other answers, bare hosts, and
 * returns the resources that it declares. For the stack tests and the demo.
 *
 * It works once per process, or after vi.resetModules(): a second import of the program's module registers nothing.
 * It does not show Pulumi.yaml's types and defaults, dependsOn, protect, and inputs that a provider would reject.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { quote } from "../../infra/apply/shell.ts";
import type { Resource } from "../../infra/cli/stack/live-objects.ts";
import type { RawConfig } from "../../infra/config/settings.ts";
import { stackConfig } from "../fixtures.ts";
import { setMocks } from "./mocks.ts";

type World = {
  readonly config?: RawConfig;
  /** Answers of the hosts to the probe, by the target of ssh; by default a bare Debian host's. */
  readonly probe?: (target: string) => string;
};

const base64 = (text: string) => Buffer.from(text).toString("base64");

/** The answer of probe.sh on a Debian 12 that was just installed, with `more` rows. */
export function bareHost(overrides: Readonly<Record<string, string>> = {}, ...more: readonly unknown[]): string {
  const facts: Record<string, string> = {
    os: "debian 12",
    uid: "0",
    pid1: "systemd",
    apt: "/usr/bin/apt-get",
    systemd: "systemd 252 (252.39-1~deb12u1)",
    nft: "",
    nginx: "",
    nodejs: "",
    free: Array(3).fill("/dev/vda 10000000 1000000 9000000 10% /").join("\n"),
    ipv6: "2",
    iprule: "usable",
    nftables: "usable",
    cgroup: "cgroup2fs",
    controllers: "cpuset cpu io memory pids",
    bpf: "enforced",
    dnat: "",
    ...overrides,
  };
  // Enough for the folders and schedules of each test's sites.
  const questions = [0, 1, 2, 3, 4, 5].flatMap((i) => [
    ["fact64", "folders", i, 0, base64("fit")],
    ["fact64", "schedules", i, 0, base64("Tue 2026-11-24 06:00:00 UTC")],
  ]);
  const rows = [
    ...Object.entries(facts).map(([name, output]) => ["system64", name, 0, output === "" ? 127 : 0, base64(output)]),
    ["fact", "request", 0, 1, ""],
    ...questions,
    ["listens", 22, "sshd", "ssh.service"],
    ["ssh", "22"],
    ...more,
    ["end"],
  ];
  return JSON.stringify({ pushgate: 1, rows });
}

const plans: Readonly<Record<string, string>> = { "enterprise-bots": "enterprise" };

/** All resources that the program declares, in its order. */
export async function evaluate(world: World = {}): Promise<Resource[]> {
  const config = world.config ?? stackConfig();
  const { plan } = JSON.parse(config["pushgate:edge"] ?? "{}") as { plan: string };
  const zone = config["pushgate:zone"];
  const declared: Resource[] = [];

  const call = (token: string, args: Record<string, unknown>) => {
    switch (token) {
      case "cloudflare:index/getZone:getZone":
        return { id: "0".repeat(32), name: zone, status: "active", plan: { legacyId: plans[plan] ?? plan } };
      case "cloudflare:index/getRulesets:getRulesets":
        return { zoneId: args.zoneId, results: [] };
      case "cloudflare:index/getBotManagement:getBotManagement":
        return { zoneId: args.zoneId, fightMode: plan === "free" };
      case "cloudflare:index/getAuthenticatedOriginPulls:getAuthenticatedOriginPulls":
        throw Object.assign(new Error(), { details: "failed to make http request: GET: 404 Not Found" });
      default:
        throw new Error(`evaluate: the program calls ${token}, which has no answer here`);
    }
  };

  await setMocks(
    {
      call: ({ token, inputs }) => call(token, inputs),
      newResource: ({ type, name, inputs }) => {
        declared.push({ type, name, inputs });
        return { id: `${name}-id`, state: { ...inputs, ...outputs(type, name) } };
      },
    },
    "pushgate",
    "prod",
    false,
  );
  pulumi.runtime.setAllConfig({ ...config }, ["pushgate:secrets", "cloudflare:apiToken"]);
  // The program itself sends no request here: it has no token of its own, and the provider's calls are mocked.
  process.env.CLOUDFLARE_API_TOKEN = "of-the-provider";
  // A fake ssh: a shell alone, as the demo also runs where no other program is.
  const folder = mkdtempSync(join(tmpdir(), "pushgate-evaluate-"));
  const targets = (JSON.parse(config["pushgate:hosts"] ?? "[]") as { ssh: string }[]).map(({ ssh }) => ssh);
  const answers = targets.map((ssh) => `${quote(ssh)}) printf %s ${quote(world.probe?.(ssh) ?? bareHost())} ;;`);
  const script = ["#!/bin/sh", "for last; do target=$before before=$last; done", "case $target in", ...answers, "esac"];
  writeFileSync(join(folder, "ssh"), `${script.join("\n")}\n`, { mode: 0o755 });
  const { PATH } = process.env;
  process.env.PATH = `${folder}:${PATH}`;
  try {
    await import("../../infra/index.ts");
  } finally {
    process.env.PATH = PATH;
    rmSync(folder, { recursive: true });
  }
  await pulumi.runtime.disconnect();
  return declared;
}

/** Outputs that a provider computes. */
function outputs(type: string, name: string): Record<string, unknown> {
  if (type === "cloudflare:index/originCaCertificate:OriginCaCertificate")
    return { certificate: base64(name), expiresOn: "2041-11-01 00:00:00 +0000 UTC" };
  if (type === "command:local:Command") return { stdout: "", stderr: "" };
  return {};
}
