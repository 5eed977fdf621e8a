/** The security events of a zone: the data plane writes them, and the GraphQL API of the same zone object reads them. */
import type { SecurityEvent, Source } from "./plane.ts";
import type { EdgeRequest } from "./request.ts";
import { headerValues } from "./request.ts";
import { type Rule, rulesOf, type ZoneState } from "./zone.ts";

/** A row of the data set `firewallEventsAdaptive`, with those of its fields that the fake knows. */
export type Row = Readonly<
  Record<
    | ("action" | "clientIP" | "clientRequestHTTPHost" | "clientRequestHTTPMethodName" | "clientRequestPath")
    | ("clientRequestQuery" | "datetime" | "description" | "kind" | "matchIndex" | "rayName" | "ruleId" | "rulesetId")
    | ("source" | "userAgent"),
    string | number
  >
>;

/** As many as one page of the API has. */
const most = 10_000;
const logs = new WeakMap<ZoneState, Row[]>();

/** Beside the zone and not in it: a zone that only handled requests has not changed. */
export function securityLog(zone: ZoneState): Row[] {
  const log = logs.get(zone) ?? [];
  logs.set(zone, log);
  return log;
}

const phases: Partial<Record<Source, string>> = {
  firewallCustom: "http_request_firewall_custom",
  rateLimit: "http_ratelimit",
};
/** As the data set writes them, where the data plane has another name. */
const sources: Partial<Record<Source, string>> = {
  rateLimit: "ratelimit",
  sbfm: "botManagement",
  securityLevel: "securitylevel",
};

/** What has no proxied record has no zone, and so no log. */
export function record(
  zone: ZoneState,
  { source: client, method, host, target, headers }: EdgeRequest,
  ray: string,
  events: readonly SecurityEvent[],
): void {
  const [path = "", query = ""] = target.split("?");
  const rows = events
    .filter(({ source }) => source !== "dns")
    .map(({ source, ref, action }, index, all): Row => {
      const ruleset = zone.rulesets.find(({ kind, phase }) => kind === "zone" && phase === phases[source]);
      const rule: Rule | undefined = rulesOf(zone, phases[source] ?? "").find((one) => one.ref === ref);
      return {
        ...{ action, source: sources[source] ?? source, ruleId: rule?.id ?? ref, rulesetId: ruleset?.id ?? "" },
        ...{ description: rule?.description ?? "", kind: "firewall", matchIndex: all.length - 1 - index },
        // Without the data centre, which the header has.
        ...{ rayName: ray.split("-")[0]!, datetime: new Date().toISOString(), clientIP: client },
        ...{ clientRequestHTTPHost: host, clientRequestHTTPMethodName: method, clientRequestPath: path },
        clientRequestQuery: query === "" ? "" : `?${query}`,
        userAgent: headerValues({ headers } as EdgeRequest, "user-agent")[0] ?? "",
      };
    });
  const log = securityLog(zone);
  log.push(...rows);
  log.splice(0, log.length - most);
}
