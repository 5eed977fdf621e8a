/** The report of a host for a person: its faults, and everything line by line. Pure. */
import type { SiteHook } from "../../config/derived.ts";
import { age, duration, size } from "../format.ts";
import type { Declared, Host } from "../stack.ts";
import { type HookReport, isDown, type Report, type Unit } from "./host-report.ts";

type Hook = Declared["hooks"][number] & Pick<SiteHook, "previews">;

export type Seen = { readonly host: Host; readonly report?: Report; readonly fault?: string };

const unitText = ({ name, load, active, sub, result, enabled }: Unit): string => {
  if (load === "not-found") return `${name} does not exist`;
  const more = [sub !== active && sub, !["success", "-"].includes(result) && result, enabled === "disabled" && enabled];
  const rest = more.filter(Boolean).join(", ");
  return `${name} ${active}${rest && ` (${rest})`}`;
};

export function faultsOf({ report, fault, host }: Seen): string[] {
  if (report === undefined) return host.state === "present" ? [fault ?? ""] : [];
  const faults = [
    ...(report.guard === "proven" ? [] : [`guard: ${report.guard}`]),
    ...report.units.filter(isDown).map(unitText),
    ...report.hooks.flatMap(hookFaults),
  ];
  return faults.map((text) => `${host.name}: ${text}`);
}

function hookFaults({ name, status, units }: HookReport): string[] {
  const down = units.filter(isDown).map(unitText);
  if (status?.failing === undefined) return down;
  return [`${name} has been failing since ${status.failing.since}: ${status.last.reason}`, ...down];
}

export function pendingText({ pending: { deliveries, requests, taken } }: Pick<HookReport, "pending">): string {
  const parts = [
    deliveries !== 0 && `${deliveries} ${deliveries === 1 ? "delivery" : "deliveries"}`,
    requests !== 0 && `${requests} ${requests === 1 ? "request" : "requests"}`,
    taken !== 0 && `${taken} taken and not published yet`,
  ];
  return parts.filter(Boolean).join(", ") || "nothing";
}

type Line = readonly [word: string, text: string];

function statusLines({ status }: HookReport, now: string): Line[] {
  if (status === undefined) return [["published", "nothing yet: no build has ended"]];
  const { deployed, head, held, last, failing, releases } = status;
  const commit = head?.slice(0, 12) ?? "none";
  const same = head !== null && head === deployed?.commit;
  const lines: Line[] = [
    ["published", deployed ? `${deployed.release}, ${age(deployed.at, now)}` : "nothing yet"],
    ["head", `${commit}${same ? ", as published" : held === head ? ", held back by a rollback" : ""}`],
    ["last", `${last.result}, ${age(last.at, now)}, in ${duration(last.milliseconds.total ?? 0)}: ${last.reason}`],
  ];
  if (last.trigger.length > 0) lines.push(["trigger", last.trigger.join(", ")]);
  if (failing !== undefined) {
    const { since, attempts, next } = failing;
    lines.push(["failing", `since ${age(since, now)}, ${attempts} times; next attempt by ${next}`]);
  }
  for (const warning of new Set([...(deployed?.warnings ?? []), ...last.warnings])) lines.push(["warning", warning]);
  for (const [i, { id, at, pages, bytes }] of releases.entries()) {
    const current = id === deployed?.release ? "  <- current" : "";
    lines.push([i === 0 ? "releases" : "", `${id}  ${at}  ${pages} pages, ${size(bytes)}${current}`]);
  }
  return lines;
}

function hookLines(hook: HookReport, { site }: Hook, now: string): Line[] {
  const { at, status, reason } = hook.delivery ?? {};
  const latest: Line[] = at === undefined ? [] : [["delivery", `${status}, ${age(at, now)}: ${reason}`]];
  if (site === undefined) return [...latest, ["pending", `${pendingText(hook)}; no site, so nothing builds`]];
  return [
    ...latest,
    ...statusLines(hook, now),
    ...(hook.building === undefined ? [] : [["building", `begun ${age(hook.building, now)}`] as const]),
    ["pending", pendingText(hook)],
    ["units", hook.units.map(unitText).join(", ")],
  ];
}

export function reportText({ host, report, fault }: Seen, hooks: readonly Hook[]): string[] {
  const head = `${host.name} (${host.ssh})`;
  if (report === undefined) return [head, `  ${fault}`, ""];
  const each = report.hooks.flatMap((hook) => {
    const declared = hooks.find(({ name }) => name === hook.name)!;
    const of = declared.previews?.branches.join(" ") ?? declared.branch;
    const lines = hookLines(hook, declared, report.now).map(([word, text]) => `    ${word.padEnd(10)} ${text}`);
    return [`  ${hook.name}  ${declared.repository} ${of}`, ...lines];
  });
  const applied = report.versions.map((version) => `pushgate ${version}`).join(", ") || "nothing";
  return [
    head,
    `  applied by ${applied}`,
    `  guard: ${report.guard}`,
    `  ${report.units.map(unitText).join(", ")}`,
    ...each,
    "",
  ];
}
