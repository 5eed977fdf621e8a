/** Layer 1, the DNS records, always proxied: browsers do not trust Cloudflare's Origin CA on a direct connection. */
import type * as pulumi from "@pulumi/pulumi";
import { normalizeCidr } from "cidr-tools";
import { siteHostnames } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";
import { cloudflare } from "./provider.ts";

/** An IPv6 address in the short form in which Cloudflare's API returns it: another would be a change in each preview. */
function recordsOf(name: string, { address, address6 }: Pick<Host, "address" | "address6">) {
  const to = (type: "A" | "AAAA", content: string) => ({ name, type, content, proxied: true, ttl: 1 }) as const;
  return [to("A", address), ...(address6 === undefined ? [] : [to("AAAA", normalizeCidr(address6))])];
}

/** A lost host keeps its hostname for hooks. No site leads to it, as Cloudflare would send it a share of the visitors. */
export function records(settings: Settings) {
  const hosts = settings.hosts.filter(({ state }) => state !== "absent");
  const present = hosts.filter(({ state }) => state === "present");
  return [
    ...hosts.flatMap((host) => recordsOf(host.hostname, host)),
    ...siteHostnames(settings).flatMap((name) => present.flatMap((host) => recordsOf(name, host))),
  ];
}

export function dns(settings: Settings, zoneId: pulumi.Input<string>, opts: pulumi.CustomResourceOptions = {}) {
  const sites = siteHostnames(settings);
  return records(settings).map((record) => {
    const { name, type, content } = record;
    // A site has several records of one type: by their addresses, a new host renames none of them.
    const address = sites.includes(name) ? ` ${content}` : "";
    return new cloudflare.DnsRecord(`${name} ${type}${address}`, { zoneId, ...record }, opts);
  });
}
