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
import type { Plan } from "../../infra/config/settings.ts";
import { startApi } from "../fakes/cloudflare/api.ts";
import type { Authority } from "../fakes/cloudflare/authority.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { stackConfig } from "../fixtures.ts";
import { setMocks } from "./mocks.ts";

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
    sendmail: "",
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

/** All resources that the program declares, in its order. `probe`: the answer of each target of ssh. */
export async function evaluate({
  config = stackConfig(),
  probe = (_target: string) => bareHost(),
} = {}): Promise<Resource[]> {
  const { plan } = JSON.parse(config["pushgate:edge"] ?? "{}") as { plan: Plan };
  const zone = emptyZone(config["pushgate:zone"] ?? "", plan);
  Object.assign(zone.bot_management, { fight_mode: plan === "free" });
  // Nothing is signed here, and a real authority needs openssl.
  const api = await startApi({ zone, authority: {} as Authority });
  const declared: Resource[] = [];

  const newResource = ({ type, name, inputs }: pulumi.runtime.MockResourceArgs) => {
    declared.push({ type, name, inputs });
    const certificate = { certificate: base64(name), expiresOn: "2041-11-01 00:00:00 +0000 UTC" };
    const computed = type.endsWith(":OriginCaCertificate") ? certificate : { stdout: "", stderr: "" };
    return { id: `${name}-id`, state: { ...inputs, ...computed } };
  };
  await setMocks({ newResource }, "pushgate", "prod", false);
  const withApi = { ...config, "cloudflare:baseUrl": api.url };
  pulumi.runtime.setAllConfig(withApi, ["pushgate:secrets", "cloudflare:apiToken"]);
  // A fake ssh: a shell alone, as the demo also runs where no other program is.
  const folder = mkdtempSync(join(tmpdir(), "pushgate-evaluate-"));
  const targets = (JSON.parse(config["pushgate:hosts"] ?? "[]") as { ssh: string }[]).map(({ ssh }) => ssh);
  const answers = targets.map((ssh) => `${quote(ssh)}) printf %s ${quote(probe(ssh))} ;;`);
  const script = `#!/bin/sh
echo Welcome; echo pushgate: begin
for last; do target=$before before=$last; done
case $target in
${answers.join("\n")}
esac
`;
  writeFileSync(join(folder, "ssh"), script, { mode: 0o755 });
  const { PATH } = process.env;
  process.env.PATH = `${folder}:${PATH}`;
  try {
    await import("../../infra/index.ts");
  } finally {
    process.env.PATH = PATH;
    await api.close();
    rmSync(folder, { recursive: true });
  }
  await pulumi.runtime.disconnect();
  return declared;
}
