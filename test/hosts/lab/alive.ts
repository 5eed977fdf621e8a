/**
 * Names for things that a run leaves in the file system, from which a later run can tell whether their owner still
 * lives: the process id together with its start time, as ids are used again.
 */
import { readFileSync } from "node:fs";

/** Field 22 of /proc/PID/stat; the command name before it may hold spaces and brackets. */
function startTime(pid: string): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

export const self = (): string => `${process.pid}-${startTime("self")}`;

export function isAlive(owner: string): boolean {
  const [pid = "", started] = owner.split("-");
  return startTime(pid) === started;
}
