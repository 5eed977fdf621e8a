/** The security events of a zone: the data plane writes them, and the GraphQL API of the same zone object reads them. */
import type { SecurityEvent, Source } from "./plane.ts";
import { rulesOf, type ZoneState } from "./zone.ts";

/** The fields of the data set `firewallEventsAdaptive` that the fake knows. */
export const columns = ["action", "datetime", "description", "rayName", "ruleId", "source"] as const;
export type Row = Readonly<Record<(typeof columns)[number], string>>;

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
export function record(zone: ZoneState, ray: string, events: readonly SecurityEvent[]): void {
  const log = securityLog(zone);
  for (const { source, ref, action } of events) {
    if (source === "dns") continue;
    const rule = rulesOf(zone, phases[source] ?? "").find((one) => one.ref === ref);
    log.push({
      ...{ action, source: sources[source] ?? source, ruleId: rule?.id ?? ref, description: rule?.description ?? "" },
      // Without the data centre, which the header has.
      ...{ rayName: ray.split("-")[0]!, datetime: new Date().toISOString() },
    });
  }
  log.splice(0, log.length - most);
}
