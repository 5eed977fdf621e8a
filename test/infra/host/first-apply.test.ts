/** The lines that preview prints before the first `up` on a host: one for each layer that the host never had. */
import { expect, test } from "vitest";
import { parseProbe } from "../../../infra/apply/report.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { firstApply } from "../../../infra/host/first-apply.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { example, exampleHost, made, rebuilt, served } from "../../fixtures.ts";
import { bareHost } from "../evaluate.ts";

/** `had`: the layers whose stamp is on the host. */
function lines(settings: Settings, ...had: string[]): string[] | undefined {
  const layers = hostLayers(settings, exampleHost, made);
  const stamps = had.map((name) => ["stamp", name, "0.1.0-0123456789ab"]);
  const report = parseProbe(bareHost({}, ...stamps), Object.keys(layers));
  return firstApply(settings, exampleHost, layers, report)?.split("\n");
}

test("on a bare host each layer has a line with packages, accounts, ports or units", () => {
  expect(lines(served)).toEqual([
    "web1: `up` adds these layers:",
    "  packages            installs what is missing of ca-certificates, git, git-lfs, hugo, iproute2, nftables, nginx, nodejs, openssl",
    "  origin-key          makes the origin certificate's private key, which stays on the host",
    "  origin-certificate  installs the origin certificate for hooks.example.org",
    "  secrets             encrypts the secrets of site, docs with the host's key",
    "  routing             keeps the receiver's replies on the host, in routing table 9460",
    "  receiver            installs its program, makes the account pushgate-receiver and starts pushgate-receiver.service on loopback (9461, 9699)",
    "  egress              makes the accounts pushgate-build-site, pushgate-generator-site, pushgate-fetcher-site and limits their network access",
    "  builder             installs the programs and units that build site",
    "  site                makes /var/www/site a link to the current release",
    "  proxy               starts an nginx of its own on port 8443 for hooks and www.example.org; another nginx stays as it is",
    "  firewall            admits Cloudflare alone to TCP port 8443; other ports stay as they are",
    "  guard               starts pushgate-guard.timer, which checks all of this every minute",
    "  client-ca           has nginx trust the client certificate that Cloudflare presents, and no former one",
  ]);
});

test("without a site the builder's layers have no line, nor has a layer that the host has", () => {
  const named = (settings: Settings, ...had: string[]) =>
    lines(settings, ...had)?.flatMap((line) => /^ {2}(\S+)/.exec(line)?.[1] ?? []);
  expect(named(example)!.filter((name) => ["egress", "tools", "builder", "site"].includes(name))).toEqual([]);
  const layers = Object.keys(hostLayers(served, exampleHost, made));
  expect(named(served, ...layers.slice(0, -1))).toEqual(layers.slice(-1));
  expect(named(served, ...layers)).toBeUndefined();
  const tools = "downloads and installs hugo-0.152.2, sass-1.89.2, node-22.20.0";
  expect(lines(rebuilt)).toContain(`  tools               ${tools} below /usr/local/lib/pushgate/tools`);
  expect(lines(rebuilt, ...layers)).toEqual([`web1: \`up\` ${tools}.`]);
});
