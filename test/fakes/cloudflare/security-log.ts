/** The security events of a zone, which the GraphQL API of the same zone object reads. A test writes them. */
import type { ZoneState } from "./zone.ts";

/** The fields of the data set `firewallEventsAdaptive` that the fake knows. */
export const columns = ["action", "datetime", "description", "rayName", "ruleId", "source"] as const;
export type Row = Readonly<Record<(typeof columns)[number], string>>;

const logs = new WeakMap<ZoneState, Row[]>();

/** Beside the zone and not in it: a zone that only handled requests has not changed. */
export function securityLog(zone: ZoneState): Row[] {
  const log = logs.get(zone) ?? [];
  logs.set(zone, log);
  return log;
}
