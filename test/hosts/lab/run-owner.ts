/**
 * Names the run that owns a file or a control group, so that a later run can see whether that owner is still alive: the
 * process id together with its start time, because the kernel reuses ids.
 */
import { readFileSync } from "node:fs";

/** Field 22 of /proc/PID/stat; the command name before it may contain spaces and brackets. */
function startTime(pid: string): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

/** The owner's name of things that this process makes. */
export const self = (): string => `${process.pid}-${startTime("self")}`;

export function isAlive(owner: string): boolean {
  const [pid = "", started] = owner.split("-");
  return startTime(pid) === started;
}
