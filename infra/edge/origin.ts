/** Layer 4, how Cloudflare connects to a host: two kinds of rules, so that no setting of the zone changes. */
import { allHostnames, hookHostnames, siteHostnames } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";
import { prefix, type Rule, set } from "./zone/phase.ts";

/** One rule for each port, which is part of the ref, so that a new host changes no other. */
export function originRules(settings: Settings): Rule[] {
  const hosts = settings.hosts.filter(({ state }) => state !== "absent");
  const byPort = Map.groupBy(hosts, ({ originPort }) => originPort);
  // A site has one hostname for all hosts, so the configuration rejects a second port beside a served site.
  const sites = siteHostnames(settings);
  return [...byPort]
    .sort(([a], [b]) => a - b)
    .map(([port, alike], index) => ({
      ref: `${prefix}origin_${port}`,
      action: "route",
      enabled: true,
      description: `pushgate: ${sites.length > 0 ? "hooks and sites" : "hooks"} come in on port ${port}`,
      expression: `(http.host in ${set([...hookHostnames({ hosts: alike }), ...(index === 0 ? sites : [])])})`,
      actionParameters: { origin: { port } },
    }));
}

/** "full", the setting of most zones, accepts any certificate; "strict" accepts an origin certificate for this hostname. */
export function configRules(settings: Settings): Rule[] {
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
