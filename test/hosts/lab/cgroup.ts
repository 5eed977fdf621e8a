/**
 * The control groups that hosts boot in. They are the only part of a run outside its namespaces. Each is named after
 * the run's owner, who removes it at the end; if the run was killed, the next run removes it.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { until } from "./process.ts";
import { isAlive, self } from "./run-owner.ts";

const prefix = "pushgate-lab-";

/** Folders of this process's group: in the unified hierarchy, then in systemd's old one, where nspawn mirrors it. */
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

/** Makes the group for this process's hosts. Throws without a unified hierarchy, which the kernel's allowlist needs. */
export function makeGroup(): string {
  const [unified] = hierarchies();
  if (unified === undefined) {
    throw new Error("no cgroup2 file system is mounted, so the kernel cannot enforce systemd's allowlists here");
  }
  const group = join(unified, `${prefix}${self()}`);
  mkdirSync(group);
  return group;
}

/** The groups of all labs on this computer. */
export const labGroups = (): string[] =>
  hierarchies().flatMap((parent) =>
    readdirSync(parent)
      .filter((name) => name.startsWith(prefix))
      .map((name) => join(parent, name)),
  );

/** Kills and removes the groups whose owner has ended; `owner` names one to remove even if it is alive. */
export async function removeGroups(owner?: string): Promise<void> {
  for (const group of labGroups()) {
    const of = basename(group).slice(prefix.length);
    if (of !== owner && isAlive(of)) continue;
    const kill = join(group, "cgroup.kill");
    if (existsSync(kill)) writeFileSync(kill, "1");
    await removeGroup(group);
  }
}

/** Waits for the group's last process to end, then removes the group. */
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
    // A killed process leaves its group a moment later; until then the caller tries again.
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}
