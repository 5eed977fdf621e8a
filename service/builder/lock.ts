/**
 * One builder a site. systemd runs one at a time; this is for the one that is started by hand beside it. The file names
 * a process by its number and its start, so that what a kill leaves is known to be nobody's.
 */
import { linkSync, readFileSync, writeFileSync } from "node:fs";
import { ifThere, remove } from "./files.ts";
import type { Places } from "./places.ts";
import { failed } from "./setback.ts";

/** Since boot, in the kernel's ticks: proc(5), field 22. Where there is no /proc, the number alone has to do. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}

const me = (): string => `${process.pid} ${startOf(process.pid) ?? ""}`;

function lives(owner: string): boolean {
  const [pid, start] = owner.split(" ");
  const now = startOf(Number(pid));
  return now !== undefined && now === start;
}

/** Throws where another builder works on this site. Freed by whoever finds its owner gone. */
export function lock({ lock: file }: Places): void {
  const mine = `${file}.${process.pid}`;
  remove(mine);
  writeFileSync(mine, me());
  try {
    for (;;)
      try {
        // A link is made whole or not at all, and never over another.
        linkSync(mine, file);
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
        const owner = ifThere(() => readFileSync(file, "utf8"));
        if (owner !== undefined && lives(owner))
          throw failed(`another builder works on this site: process ${owner.split(" ")[0]}`);
        remove(file);
      }
  } finally {
    remove(mine);
  }
}

export const unlock = ({ lock: file }: Places): void => remove(file);
