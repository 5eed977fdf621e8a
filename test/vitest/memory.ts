/**
 * A run's temporary files are in one folder, which leaves with it, and in memory where the computer allows that: on a disk
 * they took a quarter of its CPU seconds.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const memory = "/dev/shm";

/** Programs run there, and the files of all workers have room. */
function fits(): boolean {
  if (!existsSync("/proc/mounts")) return false;
  const [, options] = new RegExp(`^\\S+ ${memory} tmpfs (\\S+)`, "m").exec(readFileSync("/proc/mounts", "utf8")) ?? [];
  if (options === undefined || options.split(",").includes("noexec")) return false;
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize > 1 << 30;
}

/** The name is short, as a socket's path has at most 107 bytes. */
export function keepInOneFolder(parent = fits() ? memory : tmpdir()): void {
  if (process.env.TMPDIR !== undefined) return;
  const folder = mkdtempSync(join(parent, "pg-"));
  chmodSync(folder, 0o755); // tests run programs as other accounts
  process.env.TMPDIR = folder;
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
}
