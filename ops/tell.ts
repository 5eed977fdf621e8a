/** What was learned of the machines, for a person: what is not as it should be, and everything, line by line. Pure. */
import { type HookReport, isDown, type MachineReport, type Unit } from "./look.ts";
import type { Declared } from "./stack.ts";
import { age, duration, short, size } from "./words.ts";

export type Host = Declared["hosts"][number];
/** What was learned of one machine: a report, or why there is none. */
export type Seen = { readonly host: Host; readonly report?: MachineReport; readonly fault?: string };

const told = ({ name, load, active, sub, result, enabled }: Unit): string => {
  if (load === "not-found") return `${name} is not there`;
  const more = [sub !== active && sub, !["success", "-"].includes(result) && result, enabled === "disabled" && enabled];
  const rest = more.filter((word) => word !== false);
  return `${name} ${active}${rest.length > 0 ? ` (${rest.join(", ")})` : ""}`;
};

/** What is not as it should be, in a person's words. */
export function faultsOf({ report, fault, host }: Seen): string[] {
  if (report === undefined) return host.state === "present" ? [fault ?? ""] : [];
  const faults = [
    ...(report.guard === "proven" ? [] : [`guard: ${report.guard}`]),
    ...report.units.filter(isDown).map(told),
    ...report.hooks.flatMap(hookFaults),
  ];
  return faults.map((text) => `${host.name}: ${text}`);
}

function hookFaults({ name, status, units }: HookReport): string[] {
  const down = units.filter(isDown).map(told);
  if (status?.failing === undefined) return down;
  return [`${name} fails since ${status.failing.since}: ${status.last.reason}`, ...down];
}

function tellHook(hook: HookReport, declared: Declared["hooks"][number], now: string): string[] {
  const { status, building, pending, units } = hook;
  const lines = [`  ${hook.name}  ${declared.repository} ${declared.branch}`];
  const line = (word: string, says: string) => lines.push(`    ${word.padEnd(10)} ${says}`);
  const waiting = [
    pending.deliveries > 0 && `${pending.deliveries} ${pending.deliveries === 1 ? "delivery" : "deliveries"}`,
    pending.asks > 0 && `${pending.asks} ${pending.asks === 1 ? "request" : "requests"}`,
    pending.taken > 0 && `${pending.taken} taken and not published yet`,
  ].filter((one) => one !== false);
  if (declared.site === undefined) {
    line("pending", `${waiting.join(", ") || "nothing"}; no site, so nothing builds`);
    return lines;
  }
  if (status === undefined) line("published", "nothing yet: no build has ended");
  else {
    const { deployed, head, held, last, failing, releases, adoption } = status;
    line("published", deployed ? `${deployed.release}, ${age(deployed.at, now)}` : "nothing yet");
    const same = head !== null && head === deployed?.commit;
    line("head", `${short(head)}${same ? ", as published" : held === head ? ", held back by a rollback" : ""}`);
    line("last", `${last.result}, ${age(last.at, now)}, in ${duration(last.milliseconds.total ?? 0)}: ${last.reason}`);
    if (last.trigger.length > 0) line("started by", last.trigger.join(", "));
    if (failing !== undefined)
      line("failing", `since ${age(failing.since, now)}, ${failing.attempts} times; next try by ${failing.next}`);
    for (const warning of last.warnings) line("warning", warning);
    if (adoption !== undefined)
      line(
        "adoption",
        `waits: ${adoption.files.length + adoption.more} files of the web root that no build makes: ${adoption.files.slice(0, 5).join(", ")}`,
      );
    for (const [i, { id, at, pages, bytes }] of releases.entries())
      line(
        i === 0 ? "releases" : "",
        `${id}  ${at}  ${pages} pages, ${size(bytes)}${id === deployed?.release ? "  <- current" : ""}`,
      );
  }
  if (building !== undefined) line("building", `since ${age(building, now)}`);
  line("pending", waiting.join(", ") || "nothing");
  line("units", units.map(told).join(", "));
  return lines;
}

/** One machine, a line each. */
export function tell({ host, report, fault }: Seen, hooks: Declared["hooks"]): string[] {
  const head = `${host.name} (${host.ssh})`;
  if (report === undefined) return [head, `  ${fault}`, ""];
  const units = report.units.map(told).join(", ");
  const each = report.hooks.flatMap((hook) =>
    tellHook(hook, hooks.find(({ name }) => name === hook.name)!, report.now),
  );
  return [head, `  guard: ${report.guard}`, `  ${units}`, ...each, ""];
}
