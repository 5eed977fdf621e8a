/**
 * How the edge contacts the machine for these hostnames, and for no other: a port of their own, beside whatever serves
 * 443, and strict TLS. Both by rule, so that no setting of the zone is touched.
 */
import type { Settings } from "../settings.ts";
import { prefix, type Rule } from "./phase.ts";
import { hostnames, set } from "./waf.ts";

type Declared = Pick<Settings, "hosts">;

/** Phase `http_request_origin`: one rule a port. The port is part of the ref, so that a new host moves no rule. */
export function originRules({ hosts }: Declared): Rule[] {
  const byPort = Map.groupBy(
    hosts.filter(({ state }) => state !== "absent"),
    ({ originPort }) => originPort,
  );
  return [...byPort]
    .sort(([a], [b]) => a - b)
    .map(([port, alike]) => ({
      ref: `${prefix}origin_${port}`,
      action: "route",
      enabled: true,
      description: `pushgate: hooks come in on port ${port}`,
      expression: `(http.host in ${set(hostnames({ hosts: alike }))})`,
      actionParameters: { origin: { port } },
    }));
}

/**
 * Phase `http_config_settings`. "full", most zones' setting, accepts any certificate, so whoever sits between edge and
 * machine could answer; "strict" accepts the Origin CA's for this name.
 */
export function configRules(settings: Declared): Rule[] {
  const names = hostnames(settings);
  if (names.length === 0) return [];
  return [
    {
      ref: `${prefix}strict_tls`,
      action: "set_config",
      enabled: true,
      description: "pushgate: the origin must prove its name",
      expression: `(http.host in ${set(names)})`,
      actionParameters: { ssl: "strict" },
    },
  ];
}
