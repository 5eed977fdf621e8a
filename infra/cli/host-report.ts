/**
 * The report on a host's hooks: the builder's status.json, the work that waits for a build, and the units.
 * The host is untrusted input: its answer passes a schema, and texts lose their control characters.
 */
import * as v from "valibot";
import { printable } from "../apply/report.ts";
import { call, scriptBeside, variables } from "../apply/shell.ts";
import { paths, units } from "../host/paths.ts";
import { runOnHost, type Target } from "./run-on-host.ts";
import { UserError } from "./stack.ts";

const text = v.pipe(v.string(), v.transform(printable));
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const commit = v.nullable(text);

/** As service/builder writes it. */
const statusShape = v.object({
  hook: text,
  deployed: v.nullable(v.object({ release: text, commit, at: text })),
  head: commit,
  held: v.optional(text),
  last: v.object({
    result: text,
    reason: text,
    commit,
    at: text,
    trigger: v.array(text),
    warnings: v.array(text),
    milliseconds: v.record(v.string(), v.number()),
  }),
  failing: v.optional(v.object({ since: text, attempts: count, next: text })),
  releases: v.array(v.object({ id: text, commit, at: text, pages: count, bytes: count })),
  adoption: v.optional(v.object({ release: text, files: v.array(text), more: count })),
});
export type Status = v.InferOutput<typeof statusShape>;

export type Unit = {
  readonly name: string;
  /** In systemd's words: "loaded active running", "enabled". */
  readonly load: string;
  readonly active: string;
  readonly sub: string;
  readonly result: string;
  readonly enabled: string;
  /** Since when it is active; ISO 8601, UTC. */
  readonly since?: string;
};

export type HookReport = {
  readonly name: string;
  /** Absent for a hook without a site, and until the first build. */
  readonly status?: Status;
  /** When the running build began; ISO 8601, UTC. */
  readonly building?: string;
  /** Files: deliveries and requests that no build took yet, and those that a build took and has not published. */
  readonly pending: { readonly deliveries: number; readonly requests: number; readonly taken: number };
  readonly units: readonly Unit[];
};

export type Report = {
  /** The host's clock, so that ages do not depend on the operator's. */
  readonly now: string;
  readonly guard: string;
  readonly units: readonly Unit[];
  readonly hooks: readonly HookReport[];
};

/** `built`: whether the hook has a site. */
export type Hook = { readonly name: string; readonly built: boolean };

const hookUnits = (hook: string): string[] => [
  units.buildPath(hook),
  units.reconcileTimer(hook),
  units.hugoSocket(hook),
  units.build(hook),
];
const hostUnits = ["nginx.service", units.receiver, units.firewall, units.guardTimer];
/** Services that run only while there is work: inactive is normal, failed is not. */
const onDemand = (unit: string): boolean => unit === units.receiver || /^pushgate-build-.*\.service$/.test(unit);

export const isDown = ({ name, active, enabled }: Unit): boolean =>
  onDemand(name) ? active === "failed" : active !== "active" || enabled === "disabled";

export function reportScript(hooks: readonly Hook[]): string {
  const egress = hooks.some(({ built }) => built) ? [units.egress] : [];
  return [
    variables({ spool: paths.spool, requests: paths.requests, sites: paths.sites }),
    scriptBeside(import.meta.url, "host-report.sh"),
    call("units", "-", ...hostUnits, ...egress, "pushgate-receiver-*.socket"),
    ...hooks.map(({ name, built }) => (built ? call("site", name, ...hookUnits(name)) : call("hook", name))),
    "echo end",
    "",
  ].join("\n");
}

/** Throws a UserError if the host is unreachable, or if something other than the script answers. */
export async function readHost(host: Target, hooks: readonly Hook[]): Promise<Report> {
  return parseReport(host.name, await runOnHost(host, reportScript(hooks), 30), hooks);
}

const decoded = (base64 = ""): string => Buffer.from(base64, "base64").toString("utf8");

export function parseReport(name: string, answer: string, hooks: readonly Hook[]): Report {
  const lines = answer
    .trim()
    .split("\n")
    .map((line) => printable(line).split(" "));
  const of = (kind: string) => lines.filter(([first]) => first === kind).map(([, ...rest]) => rest);
  const [first] = of("pushgate");
  if (first === undefined || lines.at(-1)?.[0] !== "end")
    throw new UserError(`${name}: its answer is incomplete. If a login shell prints (~/.bashrc), make it silent.`);
  const unitsOf = (owner: string): Unit[] =>
    of("unit")
      .filter(([first]) => first === owner)
      .map(([, name = "", load = "", active = "", sub = "", result = "", enabled = "", entered = ""]) => ({
        ...{ name, load, active, sub, result, enabled },
        ...(active === "active" && /^@\d{1,12}$/.test(entered) && { since: iso(Number(entered.slice(1)) * 1000) }),
      }));
  const now = first[1] ?? "";
  const hookReport = (hook: string): HookReport => {
    const [, deliveries, requests, taken] = of("hook").find(([first]) => first === hook) ?? [];
    const json = of("status").find(([first]) => first === hook)?.[1];
    const status = json === undefined ? undefined : parseStatus(`${name}: ${hook}`, decoded(json));
    const units = unitsOf(hook);
    const building = buildingSince(hook, units, status, now);
    return {
      name: hook,
      ...(status && { status }),
      ...(building !== undefined && { building }),
      pending: { deliveries: Number(deliveries), requests: Number(requests), taken: Number(taken) },
      units,
    };
  };
  const guard = printable(decoded(of("guard")[0]?.[0])).trim();
  return { now, guard, units: unitsOf("-"), hooks: hooks.map((hook) => hookReport(hook.name)) };
}

const iso = (milliseconds: number): string => new Date(milliseconds).toISOString();

/**
 * One builder process runs several builds, and pauses before it tries again: the present build began with the service,
 * at the end of the last build, or at the end of the pause.
 */
function buildingSince(hook: string, running: readonly Unit[], status: Status | undefined, now: string) {
  const service = running.find(({ name }) => name === units.build(hook));
  if (service?.since === undefined || service.sub !== "running") return undefined;
  const { last, failing } = status ?? {};
  const began = [service.since, last?.at, failing?.next].flatMap((at) => (at === undefined ? [] : Date.parse(at)));
  const latest = Math.max(...began.filter((at) => !Number.isNaN(at)));
  return failing !== undefined && latest > Date.parse(now) ? undefined : iso(latest);
}

/** Throws a UserError for a status.json that the builder did not write. */
export function parseStatus(object: string, json: string): Status {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {}
  const checked = v.safeParse(statusShape, value);
  if (checked.success) return checked.output;
  const where = v.getDotPath(checked.issues[0]) ?? "no JSON";
  throw new UserError(`${object}: its status.json is not the builder's (${where}). The next build writes it again.`);
}
