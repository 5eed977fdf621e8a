/**
 * The neighbours that a host may already have: another site on 443, Docker, ufw, fail2ban and a policy route of the
 * operator, as their own tools leave them. Units restore them at boot, as their daemons would.
 */
import { request } from "../world.ts";
import type { Host } from "./host.ts";
import { actors } from "./net.ts";
import { until } from "./process.ts";

const neighbourSite = "shop.example.net";
const log = "/var/log/nginx/shop.access.log";
const page = "the shop is open";

const site = `server {
    listen 443 ssl;
    listen [::]:443 ssl;
    server_name ${neighbourSite};
    ssl_certificate /etc/ssl/shop.pem;
    ssl_certificate_key /etc/ssl/private/shop.key;
    access_log ${log} combined;
    root /srv/shop;
}
`;

/**
 * Rules of Docker 27 and ufw 0.36 through iptables-nft; both share the compat tables. The operator has opened the origin
 * port; otherwise Cloudflare could not reach it.
 */
const dockerAndUfw = () => {
  const ufw = (icmp: string) => `
  chain INPUT {
    type filter hook input priority filter; policy drop;
    iifname "lo" counter accept
    ct state related,established counter accept
    ${icmp} counter accept
    counter jump ufw-user-input
  }
  chain ufw-user-input {
    tcp dport { 22, 443, 8443 } counter accept
  }`;
  return `table ip filter {${ufw("ip protocol 1")}
  chain FORWARD {
    type filter hook forward priority filter; policy drop;
    iifname "docker0" oifname != "docker0" counter accept
  }
}
table ip6 filter {${ufw("meta l4proto 58")}
}
table ip nat {
  chain PREROUTING {
    type nat hook prerouting priority dstnat; policy accept;
    fib daddr type local iifname != "docker0" tcp dport 8081 counter dnat to 172.17.0.2:80
  }
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    oifname != "docker0" ip saddr 172.17.0.0/16 counter masquerade
  }
}
`;
};

/** The table of fail2ban's nftables action, with one banned address. */
const fail2ban = `table inet f2b-table {
  set addr-set-sshd {
    type ipv4_addr
    elements = { 198.51.100.99 }
  }
  chain f2b-chain {
    type filter hook input priority filter - 1; policy accept;
    tcp dport 22 ip saddr @addr-set-sshd reject with icmp port-unreachable
  }
}
`;

/** Ordered after nftables.service, whose start empties the ruleset. */
const unit = (...starts: string[]) => `[Unit]
After=nftables.service
[Service]
Type=oneshot
RemainAfterExit=yes
${starts.map((start) => `ExecStart=${start}\n`).join("")}
[Install]
WantedBy=multi-user.target
`;

/** Installs the neighbours; the host needs nginx, nftables, openssl and IPv6. */
export async function addNeighbours(host: Host): Promise<void> {
  await host.inside(`set -e
mkdir -p /srv/shop /etc/ssl/private /etc/neighbours
printf '${page}' >/srv/shop/index.html
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=${neighbourSite} \\
  -keyout /etc/ssl/private/shop.key -out /etc/ssl/shop.pem
chmod 0600 /etc/ssl/private/shop.key`);
  await host.writeFile("/etc/nginx/sites-available/shop", site);
  await host.writeFile("/etc/neighbours/docker-ufw.nft", dockerAndUfw());
  await host.writeFile("/etc/neighbours/fail2ban.nft", fail2ban);
  const units = {
    "docker-ufw-like": unit("/usr/sbin/nft -f /etc/neighbours/docker-ufw.nft"),
    "fail2ban-like": unit("/usr/sbin/nft -f /etc/neighbours/fail2ban.nft"),
    // Without `protocol kernel` networkd 257 would delete the rule at its next start, even without pushgate.
    "policy-route": unit(
      "/usr/sbin/ip route add unreachable default table 200",
      "/usr/sbin/ip rule add from 10.66.0.0/24 lookup 200 pref 1000 protocol kernel",
    ),
  };
  for (const [name, text] of Object.entries(units)) await host.writeFile(`/etc/systemd/system/${name}.service`, text);
  await host.inside(`set -e
ln -s ../sites-available/shop /etc/nginx/sites-enabled/shop
systemctl daemon-reload
systemctl --quiet enable --now ${Object.keys(units).join(" ")}
nginx -q -t
systemctl reload-or-restart nginx`);
}

/** Names of nft tables and lines of `ip rule` that are pushgate's own. */
const own = /pushgate|lookup 9460\b/;

/**
 * Reads the state of the neighbours, which must be equal before, during and after an `up`, without pushgate's own objects;
 * throws if the shop does not serve.
 */
export async function neighbourhood(host: Host) {
  const foreign = (names: readonly string[]) => names.filter((name) => name !== "" && !own.test(name));
  const tables: Record<string, string> = {};
  for (const table of foreign((await host.read("nft list tables")).split("\n")))
    tables[table.replace("table ", "")] = await host.read(`nft -s list ${table}`);
  const rules = foreign((await host.read("ip rule; ip -6 rule 2>/dev/null || true")).split("\n"));
  const files = await host.snapshot("/etc/nginx");
  const unit = await host.read("systemctl show -p MainPID -p ActiveState -p UnitFileState nginx.service");
  const before = await logged(host);
  await visitShop(host.address, actors.stranger.v4[0]);
  await visitShop(host.address6!, actors.stranger.v6[0]);
  // nginx writes the line after the answer, so it may appear a moment later. An extra line would also be seen.
  const lines = await until("the shop's log has both visits", async () => {
    const now = (await logged(host)).slice(before.length);
    return now.length >= 2 ? now : undefined;
  });
  return {
    tables,
    rules,
    nginx: { files, unit },
    // Two workers of nginx may have answered: neither waits for the other's line.
    visits: lines.map((line) => line.replace(/\[.*?\]/, "[time]")).sort(),
  };
}

async function logged(host: Host): Promise<string[]> {
  return (await host.read(`cat ${log} 2>/dev/null || true`)).split("\n").filter((line) => line !== "");
}

/** Throws if the shop does not show its page. */
async function visitShop(host: string, localAddress: string): Promise<void> {
  const sent = {
    method: "GET",
    path: "/",
    host: neighbourSite,
    headers: {},
    source: localAddress,
    body: Buffer.alloc(0),
  };
  const { status, body, error } = await request(sent, { host, port: 443, localAddress, rejectUnauthorized: false });
  if (body !== page) throw new Error(`${neighbourSite} at ${host} does not show its page: ${status} ${error ?? body}`);
}
