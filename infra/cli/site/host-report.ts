/** What a host reports of its hooks. It is untrusted: its answer passes a schema, and texts lose control characters. */
import * as v from "valibot";
import { printable, printableLines } from "../../../service/printable.ts";
import { runOnHost, type Target } from "../../apply/run-on-host.ts";
import { call, scriptBeside, variables } from "../../apply/shell.ts";
import { versionsOf } from "../../apply/version.ts";
import { builderPaths, oneOf, paths, units } from "../../host/paths.ts";
import { objectIn } from "../../trace/attempts.ts";
import { UserError } from "../../user-error.ts";
import { linesIn } from "./logs.ts";

export const text = v.pipe(v.string(), v.transform(printable));
export const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const commit = v.nullable(text);

/** As the builder names them: it becomes part of a script. */
const releaseId = v.pipe(v.string(), v.regex(/^\d{6}-[0-9a-z]+$/));

export const lastShape = v.object({
  ...{ result: text, reason: text, commit, at: text, trigger: v.array(text), warnings: v.array(text) },
  milliseconds: v.record(v.string(), v.number()),
});

const statusShape = v.object({
  hook: text,
  deployed: v.nullable(v.object({ release: text, commit, at: text, warnings: v.optional(v.array(text), []) })),
  head: commit,
  held: v.optional(text),
  last: lastShape,
  failing: v.optional(v.object({ since: text, attempts: count, next: text })),
  releases: v.array(v.object({ id: releaseId, commit, at: text, pages: count, bytes: count })),
});
export type Status = v.InferOutput<typeof statusShape>;

/** Of a hook with a site the builder is looked at, too. */
type Hook = { readonly name: string; readonly site?: { readonly schedule?: unknown } | undefined };

function siteUnits({ name, site }: Hook): string[] {
  if (site === undefined) return [];
  const timers = [units.reconcileTimer, ...(site.schedule === undefined ? [] : [units.scheduleTimer])];
  // The reporter's is a pattern, which matches loaded units only: those of a hook whose results leave the host.
  const sockets = [units.generatorSocket, units.fetcherSocket];
  return [units.site, ...builderPaths, ...timers, ...sockets, units.build, units.reporter].map((of) => of(name));
}
const hostUnits = [units.nginxSocket, units.nginx, units.receiver, units.firewall, units.guardTimer];
/** Services that a socket or a path unit starts when there is work: inactive is normal, failed is not. */
const onDemand = oneOf([units.receiver, units.build("*"), units.report("*")]);

export const isDown = ({ name, active, enabled }: Unit): boolean =>
  onDemand.test(name) ? active === "failed" : active !== "active" || enabled === "disabled";

export function reportScript(hooks: readonly Hook[]): string {
  const egress = hooks.some(({ site }) => site) ? [units.egress] : [];
  return [
    variables({ spool: paths.spool, requests: paths.requests, rootRequests: paths.rootRequests }),
    variables({ sites: paths.sites, stamps: paths.stamps, receiver: units.receiver }),
    scriptBeside(import.meta.url, "host-report.sh"),
    call("units", "-", ...hostUnits, ...egress, units.socket("*")),
    ...hooks.map((hook) => call("hook", hook.name, ...siteUnits(hook))),
    "echo end",
    "",
  ].join("\n");
}

export async function readHost(host: Target, hooks: readonly Hook[]): Promise<Report> {
  return parseReport(host.name, await runOnHost(host, reportScript(hooks), 30), hooks);
}

export const decoded = (base64 = ""): string => printableLines(Buffer.from(base64, "base64").toString("utf8")).trim();

/** From a block of `systemctl show`, in systemd's words: "loaded active running", "enabled"; "-" where it has none. */
function unitOf(block: string) {
  const properties = new Map(block.split("\n").map((line) => line.split("=", 2) as [string, string]));
  const word = (property: string) => properties.get(property) || "-";
  return {
    ...{ name: word("Id"), load: word("LoadState"), active: word("ActiveState"), sub: word("SubState") },
    ...{ result: word("Result"), enabled: word("UnitFileState"), since: word("ActiveEnterTimestamp") },
  };
}
export type Unit = ReturnType<typeof unitOf>;

/** From what `systemctl show` prints, in base64. */
export const unitsIn = (base64?: string): Unit[] =>
  decoded(base64)
    .split(/\n{2,}/)
    .filter(Boolean)
    .map(unitOf);

export function parseReport(name: string, answer: string, hooks: readonly Hook[]) {
  const lines = printableLines(answer).trim().split("\n");
  const after = (words: string): string[] => {
    const found = lines.find((line) => line.startsWith(`${words} `));
    return found?.slice(words.length + 1).split(" ") ?? [];
  };
  const [now] = after("pushgate 1");
  if (now === undefined || lines.at(-1) !== "end")
    throw new UserError(`${name}: its answer is incomplete. Run the command again.`);
  const unitsOf = (owner: string) => unitsIn(after(`units ${owner}`)[0]);
  const reports = hooks.map(({ name: hook }) => {
    const [deliveries = 0, requests = 0, taken = 0] = after(`hook ${hook}`).map(Number);
    const [encoded] = after(`status ${hook}`);
    const [logged] = linesIn(`j ${decoded(after(`delivery ${hook}`)[0])}`, name);
    const { status, reason } = objectIn(logged?.text ?? "");
    const said = typeof reason === "string" ? { status: Number(status), reason: printable(reason) } : undefined;
    const own = unitsOf(hook);
    const builder = own.find((unit) => unit.name === units.build(hook) && unit.sub === "running");
    return {
      name: hook,
      status: encoded === undefined ? undefined : parseStatus(`${name}: ${hook}`, encoded),
      /** The newest request to the hook, as the receiver's journal of seven days has it. */
      delivery: said && { at: logged!.time, ...said },
      // systemd's "Mon 2026-11-23 10:00:00 UTC" in ISO 8601.
      building: builder?.since.replace(/^\w+ (\S+) (\S+) UTC$/, "$1T$2Z"),
      /** Files: deliveries and requests that no build took yet, and those that a build took and has not published. */
      pending: { deliveries, requests, taken },
      units: own,
    };
  });
  // `now` is the host's clock, so that ages do not depend on the operator's. `versions`: those that applied the layers.
  const versions = versionsOf(decoded(after("stamps")[0]).split("\n"));
  return { now, versions, guard: decoded(after("guard")[0]), units: unitsOf("-"), hooks: reports };
}
export type Report = ReturnType<typeof parseReport>;
export type HookReport = Report["hooks"][number];

export function parseStatus(object: string, base64: string): Status {
  const checked = v.safeParse(v.pipe(v.string(), v.parseJson(), statusShape), decoded(base64));
  if (checked.success) return checked.output;
  const where = v.getDotPath(checked.issues[0]) ?? "no JSON";
  throw new UserError(`${object}: its status.json is not the builder's (${where}). The next build writes it again.`);
}
