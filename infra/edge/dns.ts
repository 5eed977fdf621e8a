/** The names that make the machines findable, proxied always: unproxied, the Origin CA's certificate breaks clients. */
import * as cloudflare from "@pulumi/cloudflare";
import type * as pulumi from "@pulumi/pulumi";
import type { Settings } from "../settings.ts";

export type Record = {
  readonly name: string;
  readonly type: "A" | "AAAA";
  readonly content: string;
  readonly proxied: true;
  /** 1 is "automatic", the only one a proxied record can have. */
  readonly ttl: 1;
};

/** Two a host at most; none for a host that is to be absent. */
export function records({ hosts }: Pick<Settings, "hosts">): Record[] {
  return hosts
    .filter(({ state }) => state !== "absent")
    .flatMap(({ hostname, address, address6 }) => {
      const to = (type: Record["type"], content: string) =>
        ({ name: hostname, type, content, proxied: true, ttl: 1 }) as const;
      return [to("A", address), ...(address6 === undefined ? [] : [to("AAAA", address6)])];
    });
}

export function dns(
  settings: Pick<Settings, "hosts">,
  zoneId: pulumi.Input<string>,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.DnsRecord[] {
  return records(settings).map(
    (record) => new cloudflare.DnsRecord(`${record.name} ${record.type}`, { zoneId, ...record }, opts),
  );
}
