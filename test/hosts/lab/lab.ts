/**
 * withLab runs a program in its own lab: it starts the program again in new network, mount and process namespaces. All
 * hosts, mounts, addresses and daemons are inside and end with the namespaces, even if the program is killed. Only the
 * cached images and, until the run ends, one control group are outside.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { labGroups, makeGroup, removeGroups } from "./cgroup.ts";
import { buildImages, type Release } from "./image.ts";
import { setUpNetwork } from "./net.ts";
import { run, step } from "./process.ts";
import { self } from "./run-owner.ts";
import { sshFolder, writeOperator } from "./ssh.ts";

/** Debian package -> a program that it installs. */
const tools = {
  debootstrap: "debootstrap",
  iproute2: "ip",
  "openssh-client": "ssh",
  procps: "sysctl",
  "systemd-container": "systemd-nspawn",
  "util-linux": "nsenter",
} as const;

/** The reason why this computer cannot run a lab, with the fix; undefined if it can. */
export function labIsMissing(): string | undefined {
  if (process.platform !== "linux") return "throwaway hosts need Linux";
  if (process.getuid?.() !== 0) return "throwaway hosts need root: run it with sudo";
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  const absent = Object.entries(tools).filter(([, tool]) => !folders.some((folder) => existsSync(join(folder, tool))));
  if (absent.length === 0) return undefined;
  return `${absent.map(([, tool]) => tool).join(", ")} not installed: apt-get install ${absent.map(([name]) => name).join(" ")}`;
}

export const labFolder = "/run/pushgate-lab";

/**
 * Runs `work` inside a lab. Code before this call runs twice, outside and inside. Outside, the call never returns: the
 * process exits with the code of the process inside. Throws if `labIsMissing`.
 *
 *     await withLab({ releases: ["bookworm"] }, async () => {
 *       const host = await bootHost({ name: "web1", release: "bookworm", variant: "bare" });
 *       console.log(await host.read("uname -a"));
 *       await host.kill();
 *     });
 */
export async function withLab(
  needs: { readonly releases: readonly Release[] },
  work: () => Promise<void>,
): Promise<void> {
  if (process.env.PUSHGATE_LAB === undefined) return process.exit(await superviseInside(needs.releases));
  await step("set up the network and the operator's ssh", setUp);
  await work();
  // Hosts may still run, and their open pipes would keep this process alive.
  process.exit();
}

async function superviseInside(releases: readonly Release[]): Promise<number> {
  const missing = labIsMissing();
  if (missing !== undefined) throw new Error(missing);
  process.env.PATH = `${process.env.PATH}${delimiter}/usr/sbin${delimiter}/sbin`;
  await removeGroups();
  await buildImages(releases);
  const madeSshFolder = mkdirSync(sshFolder(), { recursive: true, mode: 0o700 }) !== undefined;
  const group = makeGroup();
  const env: NodeJS.ProcessEnv = { ...process.env, PUSHGATE_LAB: group };
  // The ssh agent of the person who runs the tests would offer keys that no host of the lab knows.
  delete env.SSH_AUTH_SOCK;
  const isolated = "--pdeathsig KILL unshare --net --mount --pid --fork --kill-child --mount-proc".split(" ");
  // The first process is a shell, which reaps orphans; Node would leave them as zombies.
  const init = ["sh", "-c", '"$@"; exit "$?"', "lab", process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn("setpriv", [...isolated, ...init], { stdio: "inherit", env, detached: true });
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  // If the child dies, the first process of the namespaces dies, and with it every other process inside.
  let caught: (typeof signals)[number] | undefined;
  for (const signal of signals) {
    process.on(signal, () => {
      caught = signal;
      child.kill("SIGKILL");
    });
  }
  const code = await new Promise<number>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) => resolve(caught ? 128 + constants.signals[caught] : (status ?? 1)));
  });
  await removeGroups(self());
  // Another lab may have mounted its own folder here; removing this one would remove that mount too.
  if (madeSshFolder && labGroups().length === 0) rmdirSync(sshFolder());
  return code;
}

async function setUp(): Promise<void> {
  // Files that programs of the lab leave under /run, such as nspawn's locks, stay in the lab.
  await run("mount", ["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"]);
  mkdirSync(join(labFolder, "hosts"), { recursive: true });
  // OpenSSH finds its folder by the passwd entry, not by $HOME, so the lab mounts an empty folder over it.
  await run("mount", ["-t", "tmpfs", "-o", "mode=700", "tmpfs", sshFolder()]);
  // Hosts of two labs have the same addresses, so that a connection of one lab must not serve the other.
  const sockets = `/tmp/pushgate-${process.getuid!()}`;
  mkdirSync(sockets, { recursive: true, mode: 0o700 });
  await run("mount", ["-t", "tmpfs", "-o", "mode=700", "tmpfs", sockets]);
  await writeOperator();
  const names = join(labFolder, "names");
  writeFileSync(names, "127.0.0.1 localhost\n::1 localhost\n");
  await run("mount", ["--bind", names, "/etc/hosts"]);
  // The account "git", which every SSH address of a repository names.
  const accounts = join(labFolder, "accounts");
  const others = readFileSync("/etc/passwd", "utf8").replace(/^git:.*\n/m, "");
  writeFileSync(accounts, `${others}git:*:64999:65534:a git host:/:/bin/sh\n`);
  await run("mount", ["--bind", accounts, "/etc/passwd"]);
  await setUpNetwork();
}

/** Makes names resolve for every program in the lab, which has no DNS. */
export function nameAddress(address: string, ...names: readonly string[]): void {
  writeFileSync(join(labFolder, "names"), `${address} ${names.join(" ")}\n`, { flag: "a" });
}
