/**
 * How the edge contacts the machine for these hostnames, and for no other: a port of their own, beside whatever serves
 * 443, and strict TLS. Both by rule, so that no setting of the zone is touched.
 */

import { allHostnames, hostnames, set, siteHostnames } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";
import { prefix, type Rule } from "./zone/phase.ts";

type Declared = Pick<Settings, "hosts" | "hooks">;

/** Phase `http_request_origin`: one rule a port. The port is part of the ref, so that a new host moves no rule. */
export function originRules({ hosts, hooks }: Declared): Rule[] {
  const byPort = Map.groupBy(
    hosts.filter(({ state }) => state !== "absent"),
    ({ originPort }) => originPort,
  );
  // A site has one name on all machines, so settings.ts refuses a second port beside one.
  const sites = siteHostnames({ hosts, hooks });
  return [...byPort]
    .sort(([a], [b]) => a - b)
    .map(([port, alike], index) => ({
      ref: `${prefix}origin_${port}`,
      action: "route",
      enabled: true,
      description: `pushgate: ${sites.length > 0 ? "hooks and sites" : "hooks"} come in on port ${port}`,
      expression: `(http.host in ${set([...hostnames({ hosts: alike }), ...(index === 0 ? sites : [])])})`,
      actionParameters: { origin: { port } },
    }));
}

/**
 * Phase `http_config_settings`. "full", most zones' setting, accepts any certificate, so whoever sits between edge and
 * machine could answer; "strict" accepts the Origin CA's for this name.
 */
export function configRules(settings: Declared): Rule[] {
  const names = allHostnames(settings);
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
