/**
 * Layers taken away on the live system, each as a person would do it by accident: rules deleted in the dashboard, an
 * nft rule deleted, nginx's file edited, a drop-in for a socket, another program under the receiver's name. None has an
 * undo: that is what `pulumi up` is for.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { paths, units } from "../../infra/host/paths.ts";
import { attacks, edit } from "../scenarios.ts";
import { bundled, hollowSignature } from "../service/bundles.ts";
import type { Host } from "./lab/host.ts";
import { until } from "./lab/process.ts";
import { hostnameOf, type World } from "./world.ts";

export type Fault = {
  readonly says: string;
  readonly make: (world: World, host: Host) => Promise<void>;
};

/** It would put table, sockets and rule back within a minute, in the middle of an attack. */
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

export const noRules = emptied("http_request_firewall_custom", attacks["3 bots"].removal);
export const notStrict = emptied("http_config_settings", attacks["4 origin"].removal);

/** The zone's own setting: the program never touches it. */
export const bots = (action: "managed_challenge" | "allow"): Fault => ({
  says: `bot management: ${action}`,
  make: async ({ api }) => {
    api.zone.bot_management.sbfm_definitely_automated = action;
  },
});

/** Whoever can write the zone's names can say where the edge finds the machine. */
export const recordsAt = (addresses: { readonly A: string; readonly AAAA: string }): Fault => ({
  says: "the hostname's records lead to another machine",
  make: async ({ api }, host) => {
    const ours = api.zone.dns_records.filter(({ name }) => name === hostnameOf(host));
    if (ours.length === 0) throw new Error(`${hostnameOf(host)} has no record to change`);
    for (const record of ours) record.content = addresses[record.type as keyof typeof addresses];
  },
});

export const noDrop: Fault = {
  says: attacks["5 firewall"].removal,
  make: async (_world, host) =>
    void (await host.inside(`set -e
handle=$(nft -a list chain inet pushgate input | sed -n 's/.*"not_edge" drop # handle //p')
nft delete rule inet pushgate input handle "$handle"`)),
};

/** Returns when no worker of the former configuration takes connections any more. */
export async function reloadProxy(host: Host): Promise<void> {
  const children = "cat /proc/$(cat /run/nginx.pid)/task/*/children";
  const former = await host.read(children);
  await host.inside("nginx -q -t && systemctl reload nginx");
  await until("nginx has taken the edited configuration up", async () => {
    const serving = `for pid in ${former}; do tr -d '\\0' <"/proc/$pid/cmdline" 2>/dev/null; echo; done | grep -c 'worker process$'`;
    return (await host.inside(serving, { check: false })).stdout.trim() === "0" || undefined;
  });
}

export const proxyEdited = (says: string, change: (conf: string) => string): Fault => ({
  says,
  make: async (_world, host) => {
    await host.writeFile(paths.nginx, change(await host.readFile(paths.nginx)));
    await reloadProxy(host);
  },
});

export const noClientCertificate = proxyEdited(attacks["6 proxy"].removal, (conf) =>
  edit(conf, "ssl_verify_client on;", "ssl_verify_client off;"),
);

export const anyPeer = proxyEdited("the peer is not asked to be the edge", (conf) =>
  edit(conf, /if \(\$pushgate_peer_is_edge = 0\) \{\n.*\n *\}\n/, ""),
);

export const anyClient = proxyEdited("a client address is not asked for", (conf) =>
  edit(conf, /if \(\$pushgate_has_client = 0\) \{\n.*\n *\}\n/, ""),
);

/** What most guides write, with the reason that "Cloudflare sends both". */
export const forwardedForBelieved = proxyEdited("X-Forwarded-For is believed", (conf) =>
  edit(conf, "real_ip_header CF-Connecting-IP;", "real_ip_header X-Forwarded-For;"),
);

/** The keepalive trap: the allowlist is asked once a connection, and the proxy's connections are everybody's. */
export const keptConnections = proxyEdited("the proxy keeps its connections to the receiver", (conf) => {
  const port = /\$pushgate_loopback:(\d+)/.exec(conf)?.[1];
  const kept = edit(conf, "proxy_http_version 1.0;", "proxy_http_version 1.1;");
  const open = edit(kept, "proxy_set_header Connection close;", 'proxy_set_header Connection "";');
  const used = edit(open, `proxy_pass http://$pushgate_loopback:${port};`, "proxy_pass http://kept;");
  return `upstream kept { server 127.0.0.1:${port}; keepalive 16; }\n${used}`;
});

/**
 * On systemd 257 a changed list is enforced only once something starts in the slice (measured), so something does; that
 * a running receiver is let be is the point.
 */
export const noList: Fault = {
  says: attacks["7 service manager"].removal,
  make: async (_world, host) => {
    const socket = units.socket("github");
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
