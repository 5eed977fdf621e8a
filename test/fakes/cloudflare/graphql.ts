/**
 * The GraphQL Analytics API for one data set of one zone, `firewallEventsAdaptive`, with its limits. The texts of its
 * rejections are those of developers.cloudflare.com/analytics/graphql-api/errors.
 */
import type { Plan } from "../../../infra/config/settings.ts";
import { type Field, malformed, parse, QueryError, type Value } from "./graphql-query.ts";
import type { Fields, Reply, Route } from "./refusal.ts";
import { type Row, securityLog } from "./security-log.ts";
import type { ZoneState } from "./zone.ts";

/** Not among those that pushgate needs: `trace` reads less without it. */
export const analyticsPermission = "Analytics Read";

const day = 86_400;
/** Seconds: how wide a time range may be, and how long events are kept. */
export const limits: Record<Plan, { readonly maxDuration: number; readonly notOlderThan: number }> = {
  free: { maxDuration: day, notOlderThan: 14 * day },
  pro: { maxDuration: day, notOlderThan: 31 * day },
  business: { maxDuration: 3 * day, notOlderThan: 31 * day },
  enterprise: { maxDuration: 31 * day, notOlderThan: 31 * day },
  "enterprise-bots": { maxDuration: 31 * day, notOlderThan: 31 * day },
};
const maxPageSize = 10_000;

const columns: readonly (keyof Row)[] = [
  ...(["action", "clientIP", "clientRequestHTTPHost", "clientRequestHTTPMethodName", "clientRequestPath"] as const),
  ...([
    "clientRequestQuery",
    "datetime",
    "description",
    "kind",
    "matchIndex",
    "rayName",
    "ruleId",
    "rulesetId",
  ] as const),
  ...(["source", "userAgent"] as const),
];
const settingFields = ["enabled", "maxDuration", "notOlderThan", "maxPageSize", "availableFields"];

const leaf = ({ name, fields }: Field, known: readonly string[]): void => {
  if (!known.includes(name)) malformed(`unknown field "${name}"`);
  if (fields.length > 0) malformed("scalar fields must have no selections");
};
const only = (args: Field["args"], ...known: readonly string[]): void => {
  const unknown = Object.keys(args).find((name) => !known.includes(name));
  if (unknown !== undefined) malformed(`error parsing args: unknown argument "${unknown}"`);
};
const needsFields = ({ fields }: Field): void => {
  if (fields.length === 0) malformed("object field must have selections");
};

function timeOf(value: Value | undefined): number | undefined {
  if (value === undefined) return undefined;
  const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(String(value)) ? Date.parse(String(value)) : Number.NaN;
  return Number.isNaN(time) ? malformed(`error parsing args: cannot parse "${String(value)}" as Time`) : time;
}

/** A filter's name is that of a column, or has an operator after it. */
const columnOf = (name: string): string => name.replace(/_in$/, "");

/** `filter` takes a value for a column, and a time range, which must have both of its ends. */
function events(zone: ZoneState, field: Field): Row[] {
  const { filter = {}, limit, orderBy = [] } = field.args;
  only(field.args, "filter", "limit", "orderBy");
  needsFields(field);
  for (const one of field.fields) leaf(one, columns);
  if (typeof limit !== "number" || limit < 1 || limit > maxPageSize)
    malformed(`limit must be positive number and not greater than ${maxPageSize}`);
  const { datetime_geq, datetime_leq, datetime_gt, datetime_lt, ...wanted } = filter as Record<string, Value>;
  const unknown = Object.keys(wanted).find((name) => !(columns as readonly string[]).includes(columnOf(name)));
  if (unknown !== undefined) malformed(`error parsing args: unknown field "${unknown}" of the filter`);
  const order = [orderBy].flat();
  if (order.some((one) => !/^datetime_(ASC|DESC)$/.test(String(one)))) malformed("error parsing args: unknown order");
  const { maxDuration, notOlderThan } = limits[zone.plan];
  const [from, to] = [timeOf(datetime_geq ?? datetime_gt) ?? 0, timeOf(datetime_leq ?? datetime_lt) ?? Date.now()];
  if (to - from > maxDuration * 1000)
    malformed(`zone '${zone.id}' cannot request a time range wider than ${maxDuration / day}d`);
  if (from < Date.now() - notOlderThan * 1000) malformed(`cannot request data older than ${notOlderThan}s`);
  const found = securityLog(zone).filter(
    (row) =>
      Date.parse(String(row.datetime)) >= from &&
      Date.parse(String(row.datetime)) <= to &&
      Object.entries(wanted).every(([name, value]) =>
        (name.endsWith("_in") ? [value].flat() : [value]).includes(row[columnOf(name) as keyof Row]),
      ),
  );
  if (order.includes("datetime_DESC")) found.reverse();
  return found.slice(0, limit as number);
}

const picked = (row: Readonly<Record<string, unknown>>, fields: readonly Field[]): Fields =>
  Object.fromEntries(fields.map(({ alias, name }) => [alias, row[name]]));

function settings(zone: ZoneState, field: Field): Fields {
  needsFields(field);
  return Object.fromEntries(
    field.fields.map((set) => {
      if (set.name !== "firewallEventsAdaptive") malformed(`unknown field "${set.name}"`);
      needsFields(set);
      for (const one of set.fields) leaf(one, settingFields);
      const known = { enabled: true, ...limits[zone.plan], maxPageSize, availableFields: columns };
      return [set.alias, picked(known, set.fields)];
    }),
  );
}

function viewed(zone: ZoneState, field: Field, allowed: boolean): Fields {
  if (field.name !== "zones") malformed(`unknown field "${field.name}"`);
  only(field.args, "filter", "limit");
  needsFields(field);
  const { zoneTag, ...others } = (field.args.filter ?? {}) as Record<string, Value>;
  if (Object.keys(others).length > 0 || typeof zoneTag !== "string")
    malformed("error parsing args: zoneTag is required");
  if (!allowed || zoneTag !== zone.id) throw new QueryError(403, `zones [${String(zoneTag)}] are not authorized`);
  const selected = field.fields.map((one): [string, unknown] => {
    if (one.name === "settings") return [one.alias, settings(zone, one)];
    if (one.name !== "firewallEventsAdaptive") malformed(`unknown field "${one.name}"`);
    return [one.alias, events(zone, one).map((row) => picked(row, one.fields))];
  });
  return { [field.alias]: [Object.fromEntries(selected)] };
}

export const graphqlRoutes = (zone: ZoneState): Route[] => [
  [
    "POST",
    "/graphql",
    undefined,
    ({ body, holds }): Reply => {
      try {
        const { query, variables = {}, ...others } = body;
        if (typeof query !== "string" || Object.keys(others).some((name) => name !== "operationName"))
          malformed("query contains error, please review it and retry");
        const data = Object.fromEntries(
          parse(String(query), variables as Fields).map((root) => {
            if (root.name !== "viewer") malformed(`unknown field "${root.name}"`);
            needsFields(root);
            const zones = root.fields.map((field) => viewed(zone, field, holds(analyticsPermission)));
            return [root.alias, Object.assign({}, ...zones) as Fields];
          }),
        );
        return { raw: { data, errors: null } };
      } catch (error) {
        if (!(error instanceof QueryError)) throw error;
        const { status, message } = error;
        const extensions = { timestamp: new Date().toISOString() };
        return { status, raw: { data: null, errors: [{ message, path: ["viewer", "zones"], extensions }] } };
      }
    },
  ],
];
