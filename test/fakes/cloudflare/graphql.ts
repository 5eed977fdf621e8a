/**
 * The GraphQL Analytics API for one data set of one zone, `firewallEventsAdaptive`, with its limits, for the two forms of
 * query that `npx pushgate trace` sends. The texts of its rejections are those of
 * developers.cloudflare.com/analytics/graphql-api/errors.
 */
import type { Plan } from "../../../infra/config/settings.ts";
import { StatusError } from "../status-error.ts";
import type { Call, Fields, Reply, Route } from "./refusal.ts";
import { columns, type Row, securityLog } from "./security-log.ts";
import type { ZoneState } from "./zone.ts";

/** Not among those that pushgate needs: `trace` reads less without it. */
export const analyticsPermission = "Analytics Read";

const day = 86_400;
/** Seconds: how wide a time range may be, and how long events are kept. */
const limits: Record<Plan, { readonly maxDuration: number; readonly notOlderThan: number }> = {
  free: { maxDuration: day, notOlderThan: 14 * day },
  pro: { maxDuration: day, notOlderThan: 31 * day },
  business: { maxDuration: 3 * day, notOlderThan: 31 * day },
  enterprise: { maxDuration: 31 * day, notOlderThan: 31 * day },
  "enterprise-bots": { maxDuration: 31 * day, notOlderThan: 31 * day },
};
const maxPageSize = 10_000;

class QueryError extends StatusError {}
const malformed = (message = "query contains error, please review it and retry"): never => {
  throw new QueryError(400, message);
};
const badArgument = (message: string): never => malformed(`error parsing args: ${message}`);

/** Spaces are single. */
const whole = /^query \((.*?)\) \{ viewer \{ zones\(filter: \{ zoneTag: \$zone \}\) \{ (\w+)(.*) \} \} \}$/;
const settingsForm = /^ \{ firewallEventsAdaptive \{ (.+) \} \}$/;
const eventsForm = /^\( filter: \{ (.*) \}, limit: (\$\w+), orderBy: \[(\w+)\] \) \{ (.+) \}$/;

/** Which values fit a type; the schema writes its scalars in lower case, but for Time. */
const types: Readonly<Record<string, (value: unknown) => boolean>> = {
  "string!": (value) => typeof value === "string",
  "[string!]!": (value) => Array.isArray(value) && value.every((one) => typeof one === "string"),
  "Time!": (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(String(value)),
  "uint64!": Number.isInteger,
};

/** The values of the variables that the query declares. */
function declared(list: string, values: Fields): (name: string) => unknown {
  const names = list.split(", ").map((one) => {
    const [, name = "", type = ""] = /^\$(\w+): (\S+)$/.exec(one) ?? malformed();
    const fits = types[type] ?? badArgument(`unknown type "${type}"`);
    return fits(values[name]) ? name : badArgument(`variable "$${name}" is no ${type}`);
  });
  const unknown = Object.keys(values).find((name) => !names.includes(name));
  if (unknown !== undefined) badArgument(`variable "${unknown}" is not declared`);
  return (name) =>
    names.includes(name.slice(1)) ? values[name.slice(1)] : badArgument(`variable "${name}" is not declared`);
}

function picked(row: Readonly<Record<string, unknown>>, fields: string): Fields {
  const unknown = fields.split(" ").find((name) => !(name in row));
  if (unknown !== undefined) malformed(`unknown field "${unknown}"`);
  return Object.fromEntries(fields.split(" ").map((name) => [name, row[name]]));
}

/** `filter` takes a list of values for a column, and both ends of a time range. */
function events(zone: ZoneState, selection: string, value: (name: string) => unknown): Fields[] {
  const [, filter = "", limitName = "", order, fields = ""] = eventsForm.exec(selection) ?? malformed();
  const limit = value(limitName) as number;
  if (limit < 1 || limit > maxPageSize) malformed(`limit must be positive number and not greater than ${maxPageSize}`);
  if (order !== "datetime_DESC") badArgument("unknown order");
  let [from, to] = [0, Date.now()];
  const wanted: [column: keyof Row, values: unknown][] = [];
  for (const one of filter.split(", ")) {
    const [name = "", variable = ""] = one.split(": ");
    const column = columns.find((known) => name === `${known}_in`);
    if (name === "datetime_geq") from = Date.parse(String(value(variable)));
    else if (name === "datetime_leq") to = Date.parse(String(value(variable)));
    else wanted.push([column ?? badArgument(`unknown field "${name}" of the filter`), value(variable)]);
  }
  const { maxDuration, notOlderThan } = limits[zone.plan];
  if (to - from > maxDuration * 1000)
    malformed(`zone '${zone.id}' cannot request a time range wider than ${maxDuration / day}d`);
  if (from < Date.now() - notOlderThan * 1000) malformed(`cannot request data older than ${notOlderThan}s`);
  picked(Object.fromEntries(columns.map((name) => [name, ""])), fields);
  return securityLog(zone)
    .filter((row) => Date.parse(row.datetime) >= from && Date.parse(row.datetime) <= to)
    .filter((row) => wanted.every(([column, values]) => [values].flat().includes(row[column])))
    .reverse()
    .slice(0, limit)
    .map((row) => picked(row, fields));
}

function answered(zone: ZoneState, { query, variables, ...others }: Fields, isAllowed: boolean): Fields {
  if (Object.keys(others).length > 0) malformed();
  const [, list = "", data, selection = ""] = whole.exec(String(query).replace(/\s+/g, " ")) ?? malformed();
  const value = declared(list, (variables ?? {}) as Fields);
  const tag = value("$zone");
  if (!isAllowed || tag !== zone.id) throw new QueryError(403, `zones [${tag}] are not authorized`);
  if (data === "firewallEventsAdaptive") return { [data]: events(zone, selection, value) };
  const [, fields = ""] = (data === "settings" && settingsForm.exec(selection)) || malformed(`unknown field "${data}"`);
  return { settings: { firewallEventsAdaptive: picked({ enabled: true, ...limits[zone.plan] }, fields) } };
}

export function graphqlRoutes(zone: ZoneState): Route[] {
  function handle({ body, holds }: Call): Reply {
    try {
      const zones = [answered(zone, body, holds(analyticsPermission))];
      return { raw: { data: { viewer: { zones } }, errors: null } };
    } catch (error) {
      if (!(error instanceof QueryError)) throw error;
      const { status, message } = error;
      const extensions = { timestamp: new Date().toISOString() };
      return { status, raw: { data: null, errors: [{ message, path: ["viewer", "zones"], extensions }] } };
    }
  }
  return [["POST", "/graphql", undefined, handle]];
}
