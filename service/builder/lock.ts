/**
 * One builder a site. systemd runs one at a time; this is for the one that is started by hand beside it. The file names
 * a process by its number and its start, so that what a kill leaves is known to be nobody's.
 */
import { linkSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { ifThere, remove } from "./files.ts";
import type { Places } from "./places.ts";
import { inReserve } from "./reserve.ts";
import { failed } from "./setback.ts";

/** Milliseconds in which a builder that was killed is gone. */
const dying = 2_000;

/** When a living process was started, in the kernel's ticks since boot: proc(5), fields 3 and 22. */
export function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function lives(owner: string): boolean {
  const [pid, start] = owner.split(" ");
  const now = startOf(Number(pid));
  return now !== undefined && now === start;
}

/** Rejects where another builder works on this site. Freed by whoever finds its owner gone. */
export async function lock(places: Places, patience = dying): Promise<void> {
  const { lock: file } = places;
  const until = performance.now() + patience;
  const mine = `${file}.${process.pid}`;
  remove(mine);
  inReserve(places, () => writeFileSync(mine, `${process.pid} ${startOf(process.pid) ?? ""}`));
  try {
    while (!linked(mine, file)) {
      const owner = ifThere(() => readFileSync(file, "utf8"));
      if (owner === undefined || !lives(owner)) remove(file);
      else if (performance.now() < until) await sleep(50);
      else throw failed(`another builder works on this site: process ${owner.split(" ")[0]}`);
    }
  } finally {
    remove(mine);
  }
}

/** A link is made whole or not at all, and never over another. */
function linked(mine: string, file: string): boolean {
  try {
    linkSync(mine, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

export const unlock = ({ lock: file }: Places): void => remove(file);
