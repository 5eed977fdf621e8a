/**
 * Layer 1, the DNS records. They are always proxied: a direct connection would show browsers a certificate of
 * Cloudflare's Origin CA, which they do not trust.
 */
import * as cloudflare from "@pulumi/cloudflare";
import type * as pulumi from "@pulumi/pulumi";
import { siteHostnames } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";

/** A, and AAAA if the host has an IPv6 address. A proxied record's ttl is 1, "automatic". */
function recordsOf(name: string, { address, address6 }: Pick<Host, "address" | "address6">) {
  const to = (type: "A" | "AAAA", content: string) => ({ name, type, content, proxied: true, ttl: 1 }) as const;
  return [to("A", address), ...(address6 === undefined ? [] : [to("AAAA", address6)])];
}

/** Each host has a hostname for hooks, which a lost host keeps. */
const hookRecords = ({ hosts }: Settings) =>
  hosts.filter(({ state }) => state !== "absent").flatMap((host) => recordsOf(host.hostname, host));

/** A site's hostname leads to every host. Not to a lost one, as Cloudflare would send it a share of the visitors. */
const siteRecords = (settings: Settings) =>
  siteHostnames(settings).flatMap((name) =>
    settings.hosts.filter(({ state }) => state === "present").flatMap((host) => recordsOf(name, host)),
  );

export const records = (settings: Settings) => [...hookRecords(settings), ...siteRecords(settings)];

export function dns(settings: Settings, zoneId: pulumi.Input<string>, opts: pulumi.CustomResourceOptions = {}) {
  const declare = (name: string, record: ReturnType<typeof records>[number]) =>
    new cloudflare.DnsRecord(name, { zoneId, ...record }, opts);
  return [
    ...hookRecords(settings).map((record) => declare(`${record.name} ${record.type}`, record)),
    // A site has several records of one type. Their addresses tell them apart, so that a new host renames none of them.
    ...siteRecords(settings).map((record) => declare(`${record.name} ${record.type} ${record.content}`, record)),
  ];
}
