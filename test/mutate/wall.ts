/**
 * `npm run mutate`: starts run.ts in bubblewrap. A mutant can be any program: one that empties a path in apply.sh would
 * remove, as root, everything beside the project. In here the file system is read-only but for Stryker's copies, its cache,
 * and a new /dev, /tmp and /run; the network is a loopback interface, and no process outside is to be seen.
 */
import { spawnSync } from "node:child_process";
import { accessSync, constants, mkdirSync } from "node:fs";
import { resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");
/** What a run writes. */
const written = [".stryker-tmp", "node_modules/.cache", "node_modules/.vite-temp"].map((folder) =>
  resolve(root, folder),
);

/** False behind the wall, also for root. */
export function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Runs a program behind the wall, in the project's folder, and returns its exit code. */
export function behindWall(command: readonly string[], stdio: "inherit" | "ignore" = "inherit"): number {
  for (const folder of written) mkdirSync(folder, { recursive: true });
  const { error, status } = spawnSync(
    "bwrap",
    [
      ...["--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"],
      ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"],
      ...["--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"],
      // Inside the empty ones: the project itself may be below /tmp.
      ...["--ro-bind", root, root, ...written.flatMap((folder) => ["--bind", folder, folder])],
      // vitest writes its token there.
      ...["--setenv", "XDG_DATA_HOME", "/tmp"],
      ...["--cap-add", "ALL", "--chdir", root],
      // Tests make namespaces with a /proc of their own, which the kernel allows where it finds one that hides nothing.
      // bwrap's hides /proc/sys, and root alone may mount another: start this as root to run these tests.
      ...["sh", "-c", 'mkdir /run/proc; mount -t proc proc /run/proc 2>/dev/null; exec "$@"', "sh", ...command],
    ],
    { stdio },
  );
  if (error) throw new Error("npm run mutate runs mutants in bubblewrap: sudo apt-get install bubblewrap");
  return status ?? 1;
}

if (import.meta.main) process.exit(behindWall([process.execPath, "test/mutate/run.ts", ...process.argv.slice(2)]));
