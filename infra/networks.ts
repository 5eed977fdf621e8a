/** Every address that this project knows. Each list is sorted and free of overlaps. */
import { isIPv4 } from "node:net";

export type Network = {
  readonly source: string; // where the owner publishes it: read it there again before you change a line
  readonly confirmed: string; // the day the list was last confirmed, YYYY-MM-DD
  readonly cidrs: readonly string[]; // IPv4 before IPv6, each family in numeric order
};

const listed = (cidrs: string): readonly string[] => cidrs.trim().split(/\s+/);

export const networks = {
  /** Only Cloudflare may connect to the origin port. It announces changes; the last was on 2021-04-08. */
  cloudflare: {
    source: "https://api.cloudflare.com/client/v4/ips",
    confirmed: "2026-02-11",
    cidrs: listed(`
      103.21.244.0/22 103.22.200.0/22 103.31.4.0/22 104.16.0.0/13 104.24.0.0/14 108.162.192.0/18 131.0.72.0/22
      141.101.64.0/18 162.158.0.0/15 172.64.0.0/13 173.245.48.0/20 188.114.96.0/20 190.93.240.0/20
      197.234.240.0/22 198.41.128.0/17
      2400:cb00::/32 2405:8100::/32 2405:b500::/32 2606:4700::/32 2803:f800::/32 2a06:98c0::/29 2c0f:f248::/32
    `),
  },

  /** GitHub sends webhooks from these, for all its users: a source in here is not an identity. */
  githubHooks: {
    source: "https://api.github.com/meta",
    confirmed: "2026-10-29",
    cidrs: listed(`
      9.234.98.160/28 9.234.98.176/28 9.234.106.48/28 140.82.112.0/20 143.55.64.0/20 185.199.108.0/22
      192.30.252.0/22
      2606:50c0::/32 2a0a:a440::/29
    `),
  },

  /** GitLab.com's egress for webhooks; IPv4 only, its CI runners excluded. GitLab has no API for them. */
  gitlabHooks: {
    source: "https://docs.gitlab.com/user/gitlab_com/#ip-range",
    confirmed: "2026-10-29",
    cidrs: ["34.74.90.64/28", "34.74.226.0/24"],
  },

  /** Bitbucket Cloud's egress: product "bitbucket", direction "egress" in the vendor's file. */
  bitbucketHooks: {
    source: "https://ip-ranges.atlassian.com/",
    confirmed: "2025-11-01",
    cidrs: listed(`
      13.52.5.96/28 13.236.8.224/28 18.136.214.96/28 18.184.99.224/28 18.234.32.224/28 18.246.31.224/28
      52.215.192.224/28 104.192.137.240/28 104.192.138.240/28 104.192.140.240/28 104.192.142.240/28
      104.192.143.240/28 185.166.142.240/28 185.166.143.240/28
      2401:1d80:3000:100::/61 2401:1d80:3000:200::/61 2401:1d80:3000:300::/61 2401:1d80:3000:400::/61
      2401:1d80:3000:500::/61 2401:1d80:3000:600::/61 2401:1d80:3000:700::/61 2406:da18:809:e04::/63
      2406:da18:809:e06::/64 2406:da1c:1e0:a204::/63 2406:da1c:1e0:a206::/64 2600:1f14:824:304::/63
      2600:1f14:824:306::/64 2600:1f18:2146:e304::/63 2600:1f18:2146:e306::/64 2600:1f1c:cc5:2304::/63
      2a05:d014:f99:dd04::/63 2a05:d014:f99:dd06::/64 2a05:d018:34d:5804::/63 2a05:d018:34d:5806::/64
    `),
  },

  /** Reserved for documentation: no host has such an address, so one in a stack is the example's. */
  documentation: {
    source: "https://www.rfc-editor.org/rfc/rfc5737 (and RFC 3849, RFC 9637)",
    confirmed: "2026-11-22",
    cidrs: ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"],
  },

  /**
   * Not the internet: what the registry calls not globally reachable, prefixes with an IPv4 address inside (Teredo, 6to4),
   * multicast. Without 64:ff9b::/96, by which a network without IPv4 reaches all IPv4 addresses.
   */
  notPublic: {
    source: "https://www.iana.org/assignments/iana-ipv4-special-registry (and iana-ipv6-special-registry)",
    confirmed: "2026-11-21",
    cidrs: listed(`
      0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.168.0.0/16
      198.18.0.0/15 224.0.0.0/3
      ::/127 ::ffff:0:0/96 64:ff9b:1::/48 100::/64 2001::/32 2001:2::/48 2002::/16 5f00::/16 fc00::/7 fe80::/9
      ff00::/8
    `),
  },

  /** Azure gives its virtual machines their certificates and settings at this address, which never changes. */
  azurePlatform: {
    source: "https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16",
    confirmed: "2026-11-21",
    cidrs: ["168.63.129.16/32"],
  },
} as const satisfies Record<string, Network>;

export const anywhere = { v4: "0.0.0.0/0", v6: "::/0" } as const;

/** The receiver listens here, and no allowlist may name it. */
export const loopback = { v4: "127.0.0.1", v6: "::1", v4range: "127.0.0.0/8" } as const;

/** The host itself, and its link, where clouds keep an instance's metadata: no repository is there. */
export const local = [loopback.v4range, "169.254.0.0/16", loopback.v6, "fe80::/10"] as const;

/** Reserved for documentation. The guard connects from them; the routing layer looks up the way of a reply to them. */
export const exampleAddress = { v4: "192.0.2.1", v6: "2001:db8::1" } as const;

export const isV4 = (cidr: string): boolean => isIPv4(cidr.split("/")[0] ?? "");
export const v4 = (cidrs: readonly string[]): string[] => cidrs.filter(isV4);
export const v6 = (cidrs: readonly string[]): string[] => cidrs.filter((cidr) => !isV4(cidr));
