/**
 * The report on a host's hooks: the builder's status.json, the work that waits for a build, and the units.
 * The host is untrusted input: its answer passes a schema, and texts lose their control characters.
 */
import * as v from "valibot";
import { printable, printableLines } from "../../../service/printable.ts";
import { call, scriptBeside, variables } from "../../apply/shell.ts";
import { paths, units } from "../../host/paths.ts";
import { runOnHost, type Target } from "../run-on-host.ts";
import { UserError } from "../stack.ts";

const text = v.pipe(
  v.string(),
  v.transform((said) => printable(said)),
);
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const commit = v.nullable(text);

const lastShape = v.object({
  result: text,
  reason: text,
  commit,
  at: text,
  trigger: v.array(text),
  warnings: v.array(text),
  milliseconds: v.record(v.string(), v.number()),
});

/** As service/builder writes it. */
const statusShape = v.object({
  hook: text,
  deployed: v.nullable(v.object({ release: text, commit, at: text })),
  head: commit,
  held: v.optional(text),
  last: lastShape,
  failing: v.optional(v.object({ since: text, attempts: count, next: text })),
  releases: v.array(v.object({ id: text, commit, at: text, pages: count, bytes: count })),
});
export type Status = v.InferOutput<typeof statusShape>;

/** `built`: whether the hook has a site; `scheduled`: whether that is built by a schedule, too. */
export type Hook = { readonly name: string; readonly built: boolean; readonly scheduled?: boolean };

const hookUnits = ({ name, scheduled }: Hook): string[] => {
  const timers = [units.reconcileTimer, ...(scheduled ? [units.scheduleTimer] : [])];
  const all = [units.site, units.buildPath, ...timers, units.generatorSocket, units.build].map((nameOf) =>
    nameOf(name),
  );
  // A pattern matches loaded units only: those of a hook whose results leave the host.
  return [...all, units.reporter(name)];
};
const hostUnits = [units.nginxSocket, units.nginx, units.receiver, units.firewall, units.guardTimer];
/** Services that a socket or a path unit starts when there is work: inactive is normal, failed is not. */
const onDemand = (unit: string): boolean =>
  unit === units.receiver || [units.build, units.report].some((nameOf) => unit === nameOf(instanceOf(unit)));

const instanceOf = (unit: string): string => /@(.*)\.[a-z]+$/.exec(unit)?.[1] ?? "";

export const isDown = ({ name, active, enabled }: Unit): boolean =>
  onDemand(name) ? active === "failed" : active !== "active" || enabled === "disabled";

export function reportScript(hooks: readonly Hook[]): string {
  const egress = hooks.some(({ built }) => built) ? [units.egress] : [];
  return [
    variables({ spool: paths.spool, requests: paths.requests, rootRequests: paths.rootRequests, sites: paths.sites }),
    scriptBeside(import.meta.url, "host-report.sh"),
    call("units", "-", ...hostUnits, ...egress, units.socket("*")),
    ...hooks.map((hook) => (hook.built ? call("site", hook.name, ...hookUnits(hook)) : call("hook", hook.name))),
    "echo end",
    "",
  ].join("\n");
}

/** Throws a UserError if the host is unreachable, or if something other than the script answers. */
export async function readHost(host: Target, hooks: readonly Hook[]): Promise<Report> {
  return parseReport(host.name, await runOnHost(host, reportScript(hooks), 30), hooks);
}

const iso = (milliseconds: number): string => new Date(milliseconds).toISOString();
const decoded = (base64 = ""): string => printableLines(Buffer.from(base64, "base64").toString("utf8")).trim();

/** From a block of `systemctl show`, in systemd's words: "loaded active running", "enabled"; "-" where it has none. */
function unitOf(block: string) {
  const properties = new Map(block.split("\n").map((line) => line.split("=", 2) as [string, string]));
  const word = (property: string) => properties.get(property) || "-";
  return {
    ...{ name: word("Id"), load: word("LoadState"), active: word("ActiveState"), sub: word("SubState") },
    ...{ result: word("Result"), enabled: word("UnitFileState") },
  };
}
export type Unit = ReturnType<typeof unitOf>;

export function parseReport(name: string, answer: string, hooks: readonly Hook[]) {
  const lines = answer
    .trim()
    .split("\n")
    .map((line) => printable(line).split(" "));
  /** The rest of the line that begins with these words. */
  const after = (...words: readonly string[]) =>
    lines.find((line) => words.every((word, i) => line[i] === word))?.slice(words.length);
  const now = after("pushgate", "1")?.[0];
  if (now === undefined || lines.at(-1)?.[0] !== "end")
    throw new UserError(`${name}: its answer is incomplete. If a login shell prints (~/.bashrc), make it silent.`);
  const unitsOf = (owner: string): Unit[] =>
    decoded(after("units", owner)?.[0])
      .split(/\n{2,}/)
      .flatMap((block) => (block === "" ? [] : [unitOf(block)]));
  const hookReport = (hook: string) => {
    const [deliveries = 0, requests = 0, taken = 0, oldest] = (after("hook", hook) ?? []).map(Number);
    const encoded = after("status", hook)?.[0];
    /** Absent for a hook without a site, and until the first build. */
    const status = encoded === undefined ? undefined : parseJson(statusShape, `${name}: ${hook}`, encoded);
    const owned = unitsOf(hook);
    const runs = owned.some(({ name, sub }) => name === units.build(hook) && sub === "running");
    return {
      name: hook,
      status,
      building: runs ? buildingSince(oldest, status, now) : undefined,
      /** Files: deliveries and requests that no build took yet, and those that a build took and has not published. */
      pending: { deliveries, requests, taken },
      units: owned,
    };
  };
  const reports = hooks.map((hook) => hookReport(hook.name));
  // `now` is the host's clock, so that ages do not depend on the operator's.
  return { now, guard: decoded(after("guard")?.[0]), units: unitsOf("-"), hooks: reports };
}
export type Report = ReturnType<typeof parseReport>;
export type HookReport = Report["hooks"][number];

/** When the running build began: as it took its markers, or after the build or the pause before it. */
function buildingSince(oldest = 0, status: Status | undefined, now: string) {
  // A file's time can be any number, and no date is beyond 8.6e12 s.
  if (!(oldest > 0 && oldest < 1e12)) return undefined;
  const { last, failing } = status ?? {};
  const began = [iso(oldest * 1000), last?.at, failing?.next].flatMap((at) => (at === undefined ? [] : Date.parse(at)));
  const latest = Math.max(...began.filter((at) => !Number.isNaN(at)));
  return failing !== undefined && latest > Date.parse(now) ? undefined : iso(latest);
}

/** The result of one run, from status.json or from the run's line in the builder's journal. */
export function parseResult(object: string, base64: string): Status["last"] {
  const wrapped = v.pipe(
    v.object({ last: lastShape }),
    v.transform(({ last }) => last),
  );
  return parseJson(v.union([lastShape, wrapped]), object, base64);
}

/** Throws a UserError for what the builder did not write. */
function parseJson<S extends v.GenericSchema>(shape: S, object: string, base64: string): v.InferOutput<S> {
  const checked = v.safeParse(v.pipe(v.string(), v.parseJson(), shape), decoded(base64));
  if (checked.success) return checked.output;
  const where = v.getDotPath(checked.issues[0]) ?? "no JSON";
  throw new UserError(`${object}: its status.json is not the builder's (${where}). The next build writes it again.`);
}
