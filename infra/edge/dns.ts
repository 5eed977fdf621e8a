/** The names that make the machines findable, proxied always: unproxied, the Origin CA's certificate breaks clients. */
import * as cloudflare from "@pulumi/cloudflare";
import type * as pulumi from "@pulumi/pulumi";
import { siteHostnames } from "../config/derived.ts";
import type { Host, Settings } from "../config/settings.ts";

type Declared = Pick<Settings, "hosts" | "hooks">;

export type Record = {
  readonly name: string;
  readonly type: "A" | "AAAA";
  readonly content: string;
  readonly proxied: true;
  /** 1 is "automatic", the only one a proxied record can have. */
  readonly ttl: 1;
};

/** Two at most. */
function leading(name: string, { address, address6 }: Pick<Host, "address" | "address6">): Record[] {
  const to = (type: Record["type"], content: string) => ({ name, type, content, proxied: true, ttl: 1 }) as const;
  return [to("A", address), ...(address6 === undefined ? [] : [to("AAAA", address6)])];
}

/** A hostname for hooks is one machine's; none for a host that is to be absent. */
const hookRecords = ({ hosts }: Declared): Record[] =>
  hosts.filter(({ state }) => state !== "absent").flatMap((host) => leading(host.hostname, host));

/**
 * A site's name leads to every machine that is there, and the edge spreads visitors over them: a lost one would get its
 * share, so it is left out, where a hook's name waits for it.
 */
const siteRecords = (settings: Declared): Record[] =>
  siteHostnames(settings).flatMap((name) =>
    settings.hosts.filter(({ state }) => state === "present").flatMap((host) => leading(name, host)),
  );

export const records = (settings: Declared): Record[] => [...hookRecords(settings), ...siteRecords(settings)];

export function dns(
  settings: Declared,
  zoneId: pulumi.Input<string>,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.DnsRecord[] {
  const declare = (name: string, record: Record) => new cloudflare.DnsRecord(name, { zoneId, ...record }, opts);
  return [
    ...hookRecords(settings).map((record) => declare(`${record.name} ${record.type}`, record)),
    // Several of one name and type: what they lead to tells them apart, so that a host that comes or goes moves no other's.
    ...siteRecords(settings).map((record) => declare(`${record.name} ${record.type} ${record.content}`, record)),
  ];
}
