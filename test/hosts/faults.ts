/**
 * Faults that remove one layer of a running system, as an operator could by accident: rules deleted in the dashboard,
 * an nft rule deleted, nginx's file edited, a drop-in for a socket, another program in place of the receiver. No fault
 * has an undo: `pulumi up` repairs it.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { paths, units } from "../../infra/host/paths.ts";
import { attacks, edit } from "../scenarios.ts";
import { bundled, hollowSignature } from "../service/bundles.ts";
import { socketOfSite } from "./attackers.ts";
import type { Host } from "./lab/host.ts";
import { until } from "./lab/process.ts";
import { hostnameOf, type World } from "./world.ts";

export type Fault = {
  readonly says: string;
  readonly make: (world: World, host: Host) => Promise<void>;
};

/** A running guard would restore table, sockets and rule within a minute, in the middle of an attack. */
export const noGuard: Fault = {
  says: "the guard's timer is stopped",
  make: async (_world, host) => void (await host.inside(`systemctl stop ${units.guardTimer} ${units.guard}`)),
};

const emptied = (phase: string, says: string): Fault => ({
  says,
  make: async ({ api }) => {
    const ruleset = api.zone.rulesets.find((one) => one.phase === phase);
    if (ruleset === undefined || ruleset.rules.length === 0) throw new Error(`there is no rule in ${phase} to delete`);
    ruleset.rules = [];
  },
});

export const noRules = emptied("http_request_firewall_custom", attacks["3 bot management"].removal);
export const notStrict = emptied("http_config_settings", attacks["4 Cloudflare to origin"].removal);

/** A setting of the zone, which the program never changes. */
export const bots = (action: "managed_challenge" | "allow"): Fault => ({
  says: `bot management: ${action}`,
  make: async ({ api }) => {
    api.zone.bot_management.sbfm_definitely_automated = action;
  },
});

/** An attacker who can write the zone's records decides to which host Cloudflare connects. */
export const recordAt = (address: string): Fault => ({
  says: "the hostname's A record points to another host",
  make: async ({ api }, host) => {
    const record = api.zone.dns_records.find(({ name, type }) => name === hostnameOf(host) && type === "A");
    if (record === undefined) throw new Error(`${hostnameOf(host)} has no record to change`);
    record.content = address;
  },
});

export const noDrop: Fault = {
  says: attacks["5 firewall"].removal,
  make: async (_world, host) =>
    void (await host.inside(`set -e
handle=$(nft -a list chain inet pushgate input | sed -n 's/.*"not_edge" drop # handle //p')
nft delete rule inet pushgate input handle "$handle"`)),
};

/** Reloads nginx; returns when no worker of the former configuration accepts connections. */
async function reloadProxy(host: Host): Promise<void> {
  const children = `cat /proc/$(systemctl show -p MainPID --value ${units.nginx})/task/*/children`;
  const former = await host.read(children);
  await host.inside(`systemctl reload ${units.nginx}`);
  await until("nginx serves with the edited configuration", async () => {
    const serving = `for pid in ${former}; do tr -d '\\0' <"/proc/$pid/cmdline" 2>/dev/null; echo; done | grep -c 'worker process$'`;
    return (await host.inside(serving, { check: false })).stdout.trim() === "0" || undefined;
  });
}

const proxyEdited = (says: string, change: (conf: string) => string): Fault => ({
  says,
  make: async (_world, host) => {
    await host.writeFile(paths.nginx, change(await host.readFile(paths.nginx)));
    await reloadProxy(host);
  },
});

export const noClientCertificate = proxyEdited(attacks["6 nginx"].removal, (conf) =>
  edit(conf, "ssl_verify_client on;", "ssl_verify_client off;"),
);

export const anyPeer = proxyEdited("nginx no longer checks that the peer is Cloudflare", (conf) =>
  edit(conf, /if \(\$pushgate_peer_is_edge = 0\) \{\n.*\n *\}\n/, ""),
);

export const anyClient = proxyEdited("nginx no longer requires a client address", (conf) =>
  edit(conf, /if \(\$pushgate_has_client = 0\) \{\n.*\n *\}\n/, ""),
);

/**
 * systemd 257 enforces a changed list only after a unit of the slice has started (measured), so this starts one. The
 * receiver must not restart.
 */
export const noList: Fault = {
  says: attacks["7 systemd"].removal,
  make: async (_world, host) => {
    const socket = await socketOfSite(host);
    await host.writeFile(`${paths.units}/${socket}.d/open.conf`, "[Socket]\nIPAddressDeny=\nIPAddressAllow=\n");
    await host.inside("systemctl daemon-reload && systemd-run --quiet --wait --collect --slice=pushgate.slice true");
  },
};

export const noSignatureCheck: Fault = {
  says: attacks["8 receiver"].removal,
  make: async (_world, host) => {
    const folder = mkdtempSync(join(tmpdir(), "pushgate-hollow-"));
    const hollow = join(folder, "receiver.cjs");
    await bundled("receiver", hollow, hollowSignature);
    await host.writeFile(paths.receiver, readFileSync(hollow, "utf8"));
    rmSync(folder, { recursive: true });
    await host.inside(`systemctl restart ${units.receiver}`);
  },
};
