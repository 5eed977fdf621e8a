/** Layer 4, how Cloudflare connects to a host: two kinds of rules, so that no setting of the zone changes. */
import { allHostnames, hookHostnames, siteHostnames } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";
import { type Rule, rule, set } from "./zone/phase.ts";

/** One rule for each port, which is part of the ref, so that a new host changes no other. */
export function originRules(settings: Settings): Rule[] {
  const hosts = settings.hosts.filter(({ state }) => state !== "absent");
  const byPort = Map.groupBy(hosts, ({ originPort }) => originPort);
  // A site has one hostname for all hosts, so the configuration rejects a second port beside a served site.
  const sites = siteHostnames(settings);
  return [...byPort]
    .sort(([a], [b]) => a - b)
    .map(([port, alike], index) => {
      const names = [...hookHostnames({ hosts: alike }), ...(index === 0 ? sites : [])];
      const says = `${sites.length > 0 ? "hooks and sites" : "hooks"} come in on port ${port}`;
      const actionParameters = { origin: { port } };
      return rule(`origin_${port}`, "route", says, `(http.host in ${set(names)})`, { actionParameters });
    });
}

/** "full", the setting of most zones, accepts any certificate; "strict" accepts an origin certificate for this hostname. */
export function configRules(settings: Settings): Rule[] {
  const names = allHostnames(settings);
  if (names.length === 0) return [];
  const [says, actionParameters] = ["the origin must prove its name", { ssl: "strict" }];
  return [rule("strict_tls", "set_config", says, `(http.host in ${set(names)})`, { actionParameters })];
}
