/**
 * What a machine says of its hooks: status.json as the builder left it, what lies there unbuilt, and how its units are.
 * Reads only. The machine is untrusted input: what it answers passes a schema, and text loses its control characters.
 */
import * as v from "valibot";
import { printable } from "../apply/report.ts";
import { paths, units } from "../host/paths.ts";
import { onMachine, type Target } from "./run-on-host.ts";
import { Refused } from "./stack.ts";

const text = v.pipe(v.string(), v.transform(printable));
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const known = v.nullable(text);
const release = v.object({ id: text, commit: known, at: text, pages: count, bytes: count });

/** As service/builder writes it. */
const statusShape = v.object({
  hook: text,
  deployed: v.nullable(v.object({ release: text, commit: known, at: text })),
  head: known,
  held: v.optional(text),
  last: v.object({
    result: text,
    reason: text,
    commit: known,
    at: text,
    trigger: v.array(text),
    warnings: v.array(text),
    milliseconds: v.record(v.string(), v.number()),
  }),
  failing: v.optional(v.object({ since: text, attempts: count, next: text })),
  releases: v.array(release),
  adoption: v.optional(v.object({ release: text, files: v.array(text), more: count })),
});
export type Status = v.InferOutput<typeof statusShape>;

export type Unit = {
  readonly name: string;
  /** As systemd words them: "loaded active running", "enabled". */
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
  /** Since when the build that runs now does; ISO 8601, UTC. */
  readonly building?: string;
  /** Files: deliveries and asks nobody took yet, and what is taken and not published. */
  readonly pending: { readonly deliveries: number; readonly asks: number; readonly taken: number };
  readonly units: readonly Unit[];
};

export type MachineReport = {
  readonly name: string;
  /** The machine's clock, so that an age is not off by the difference to ours. */
  readonly now: string;
  readonly guard: string;
  readonly units: readonly Unit[];
  readonly hooks: readonly HookReport[];
};

/** `built`: whether its pushes become a site. */
export type Asked = { readonly name: string; readonly built: boolean };

const hookUnits = (hook: string): string[] => [
  units.buildPath(hook),
  units.reconcileTimer(hook),
  units.hugoSocket(hook),
  units.build(hook),
];
const ofMachine = ["nginx.service", units.receiver, units.firewall, units.guardTimer];
/** Services that run only while there is something to do: one that does not run is no fault of theirs, a failed one is. */
const onDemand = (unit: string): boolean => unit === units.receiver || /^pushgate-build-.*\.service$/.test(unit);

export const isDown = ({ name, active, enabled }: Unit): boolean =>
  onDemand(name) ? active === "failed" : active !== "active" || enabled === "disabled";

const asked = "Id,LoadState,ActiveState,SubState,Result,UnitFileState,ActiveEnterTimestamp";

/** Lines of words; a text is in base64, so that it can't be taken for another line. */
export const question = (hooks: readonly Asked[]): string => `set -u
export LC_ALL=C
text() { base64 2>/dev/null | tr -d '\\n'; }
files() { find "$1" -mindepth 1 -maxdepth 1 ! -name '.*' 2>/dev/null | wc -l; }
units() {
  of=$1
  shift
  systemctl show -p ${asked} --timestamp=unix "$@" 2>/dev/null | awk -F= -v of="$of" '
    function out() { if (u["Id"] != "") print "unit", of, u["Id"], u["LoadState"], u["ActiveState"], u["SubState"], \\
      (u["Result"] == "" ? "-" : u["Result"]), (u["UnitFileState"] == "" ? "-" : u["UnitFileState"]), u["ActiveEnterTimestamp"]; delete u }
    /^$/ { out(); next } { u[$1] = $2 } END { out() }'
}
echo "pushgate 1 $(date -u +%Y-%m-%dT%H:%M:%SZ)"
echo "guard $({ cat /run/pushgate-guard/verdict 2>/dev/null || echo 'the guard has not run'; } | text)"
units - ${ofMachine.join(" ")} ${hooks.some(({ built }) => built) ? units.egress : ""} 'pushgate-receiver-*.socket'
${hooks
  .map(
    ({ name, built }) => `
spool=${paths.spool}/${name} asks=${paths.asks}/${name}
echo "hook ${name} $(files "$spool") $(files "$asks") $(($(files "$spool/.taken") + $(files "$asks/.taken")))"${
      built
        ? `
[ ! -f ${paths.sites}/${name}/status.json ] || echo "status ${name} $(text <${paths.sites}/${name}/status.json)"
units ${name} ${hookUnits(name).join(" ")}`
        : ""
    }`,
  )
  .join("")}
echo end
`;

/** Throws Refused where the machine can't be reached, or where what answers is not this script. */
export async function look(host: Target, hooks: readonly Asked[]): Promise<MachineReport> {
  return readAnswer(host.name, await onMachine(host, question(hooks), 30), hooks);
}

const decoded = (base64: string | undefined): string => Buffer.from(base64 ?? "", "base64").toString("utf8");

export function readAnswer(name: string, said: string, hooks: readonly Asked[]): MachineReport {
  const lines = said
    .trim()
    .split("\n")
    .map((line) => printable(line).split(" "));
  const of = (word: string) => lines.filter(([first]) => first === word).map(([, ...rest]) => rest);
  const [first] = of("pushgate");
  if (first === undefined || lines.at(-1)?.[0] !== "end")
    throw new Refused(`${name}: what it answered is not whole: a login shell that prints (~/.bashrc) must be silent`);
  const unitsOf = (whose: string): Unit[] =>
    of("unit")
      .filter(([owner]) => owner === whose)
      .map(([, id = "", load = "", active = "", sub = "", result = "", enabled = "", entered = ""]) => ({
        ...{ name: id, load, active, sub, result, enabled },
        ...(active === "active" && /^@\d{1,12}$/.test(entered) && { since: iso(Number(entered.slice(1)) * 1000) }),
      }));
  const now = first[1] ?? "";
  return {
    name,
    now,
    guard: printable(decoded(of("guard")[0]?.[0])).trim(),
    units: unitsOf("-"),
    hooks: hooks.map((hook) => {
      const [, deliveries, asks, taken] = of("hook").find(([whose]) => whose === hook.name) ?? [];
      const text = of("status").find(([whose]) => whose === hook.name)?.[1];
      const status = text === undefined ? undefined : readStatus(`${name}: ${hook.name}`, decoded(text));
      const units = unitsOf(hook.name);
      const building = buildingSince(hook.name, units, status, now);
      return {
        name: hook.name,
        ...(status && { status }),
        ...(building !== undefined && { building }),
        pending: { deliveries: Number(deliveries), asks: Number(asks), taken: Number(taken) },
        units,
      };
    }),
  };
}

const iso = (milliseconds: number): string => new Date(milliseconds).toISOString();

/**
 * A builder goes on from one build to the next, and stays while it waits to try again: the present one began with the
 * service, with the end of the last one, or with the end of its pause.
 */
function buildingSince(
  hook: string,
  running: readonly Unit[],
  status: Status | undefined,
  now: string,
): string | undefined {
  const service = running.find(({ name }) => name === units.build(hook));
  if (service?.since === undefined || service.sub !== "running") return undefined;
  const { last, failing } = status ?? {};
  const began = [service.since, last?.at, failing?.next].flatMap((at) => (at === undefined ? [] : Date.parse(at)));
  const latest = Math.max(...began.filter((at) => !Number.isNaN(at)));
  return failing !== undefined && latest > Date.parse(now) ? undefined : iso(latest);
}

/** Throws Refused: status.json is what the builder wrote, or somebody else wrote it. */
export function readStatus(whose: string, said: string): Status {
  let json: unknown;
  try {
    json = JSON.parse(said);
  } catch {}
  const checked = v.safeParse(statusShape, json);
  if (checked.success) return checked.output;
  const [issue] = checked.issues;
  throw new Refused(
    `${whose}: its status.json is not the builder's (${v.getDotPath(issue) ?? "no JSON"}): the next run writes it anew`,
  );
}
