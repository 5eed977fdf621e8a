/**
 * The control groups the hosts boot in. They are the one thing of a run that lives outside its namespaces: named
 * after the run's owner, removed when it ends, and by the next run when it was killed.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { isAlive, self } from "./alive.ts";
import { until } from "./process.ts";

const prefix = "pushgate-lab-";

/** Folders of our own group in the unified hierarchy first, then in systemd's old one, where nspawn mirrors it. */
function hierarchies(): string[] {
  const own = readFileSync("/proc/self/cgroup", "utf8").split("\n");
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const folder = (isMount: (line: string) => boolean, isOwn: (line: string) => boolean) => {
    const at = mounts.find(isMount)?.split(" ")[4];
    return at === undefined ? [] : [join(at, own.find(isOwn)?.split(":")[2] ?? "/")];
  };
  return [
    ...folder(
      (line) => line.includes(" - cgroup2 "),
      (line) => line.startsWith("0::"),
    ),
    ...folder(
      (line) => / - cgroup .*name=systemd/.test(line),
      (line) => line.includes(":name=systemd:"),
    ),
  ].filter((path) => existsSync(path));
}

/** A new group for this process's hosts; throws without a unified hierarchy, which the kernel's allowlist needs. */
export function makeGroup(): string {
  const [unified] = hierarchies();
  if (unified === undefined) {
    throw new Error("no cgroup2 file system is mounted: the service manager's allowlist can't be enforced here");
  }
  const group = join(unified, `${prefix}${self()}`);
  mkdirSync(group);
  return group;
}

/** Every lab's group that is there, of whoever. */
export const labGroups = (): string[] =>
  hierarchies().flatMap((parent) =>
    readdirSync(parent)
      .filter((name) => name.startsWith(prefix))
      .map((name) => join(parent, name)),
  );

/** Removes the groups whose owner is gone, with whatever still runs in them; `owner` names one to remove in any case. */
export async function removeGroups(owner?: string): Promise<void> {
  for (const group of labGroups()) {
    const of = basename(group).slice(prefix.length);
    if (of !== owner && isAlive(of)) continue;
    const kill = join(group, "cgroup.kill");
    if (existsSync(kill)) writeFileSync(kill, "1");
    await removeGroup(group);
  }
}

/** Waits for its last process to end. */
export async function removeGroup(group: string): Promise<void> {
  await until(`control group ${group} is empty`, () => removeTree(group) || undefined, { timeout: 10_000 });
}

function removeTree(group: string): boolean {
  try {
    for (const entry of readdirSync(group, { withFileTypes: true })) {
      if (entry.isDirectory()) removeTree(join(group, entry.name));
    }
    rmdirSync(group);
    return true;
  } catch (error) {
    // A process that was killed leaves its group a moment later.
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}
