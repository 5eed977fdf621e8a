/**
 * withLab: run a program in a laboratory of its own. The program is started once more in new network, mount and
 * process namespaces; all hosts, mounts, addresses and daemons live in those and end with them, however it ends.
 * Outside remain the cached images and, until the run is over, one control group.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { self } from "./alive.ts";
import { labGroups, makeGroup, removeGroups } from "./cgroup.ts";
import { buildImages, type Release } from "./image.ts";
import { setUpNetwork } from "./net.ts";
import { run, step } from "./process.ts";
import { sshFolder, writeOperator } from "./ssh.ts";

/** Debian package -> a program of it. */
const tools = {
  debootstrap: "debootstrap",
  iproute2: "ip",
  "openssh-client": "ssh",
  procps: "sysctl",
  "systemd-container": "systemd-nspawn",
  "util-linux": "nsenter",
} as const;

/** Why this machine can't hold a lab, with the cure; undefined if it can. */
export function labIsMissing(): string | undefined {
  if (process.platform !== "linux") return "throwaway hosts need Linux";
  if (process.getuid?.() !== 0) return "throwaway hosts need root: run it with sudo";
  const folders = [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  const absent = Object.entries(tools).filter(([, tool]) => !folders.some((folder) => existsSync(join(folder, tool))));
  if (absent.length === 0) return undefined;
  return `${absent.map(([, tool]) => tool).join(", ")} not installed: apt-get install ${absent.map(([name]) => name).join(" ")}`;
}

/** The lab this process is in: where its files are, and its control group. Throws outside of one. */
export function currentLab(): { readonly group: string } {
  const group = process.env.PUSHGATE_LAB;
  if (group === undefined) throw new Error("not inside a lab: call this from withLab");
  return { group };
}

export const labFolder = "/run/pushgate-lab";

/**
 * Runs `work` inside. Whatever the program does before this call it does twice, outside and inside. Outside, the call
 * never returns: the process ends with the exit code of the one inside. Throws where `labIsMissing`.
 *
 *     await withLab({ releases: ["bookworm"] }, async () => {
 *       const host = await bootHost({ name: "web1", release: "bookworm", variant: "bare" });
 *       console.log((await host.ssh("uname -a")).stdout);
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
  // Hosts still run, and would keep their pipes and with them this process open.
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
  // The operator's agent would offer keys of another world.
  delete env.SSH_AUTH_SOCK;
  const isolated = [
    "--pdeathsig",
    "KILL",
    "unshare",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
  ];
  // A shell as the first process collects orphans, which Node would leave as zombies.
  const init = ["sh", "-c", '"$@"; exit "$?"', "lab", process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn("setpriv", [...isolated, ...init], { stdio: "inherit", env, detached: true });
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  // The namespaces' first process dies with it, and everything else with that.
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
  // Another lab has its own mounted over it, which would go with the folder.
  if (madeSshFolder && labGroups().length === 0) rmdirSync(sshFolder());
  return code;
}

async function setUp(): Promise<void> {
  // Everything that a program of this side leaves under /run, nspawn's locks included, stays in the lab.
  await run("mount", ["-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run"]);
  mkdirSync(join(labFolder, "hosts"), { recursive: true });
  // OpenSSH takes its folder from the passwd entry, not from $HOME: an empty one is put over it.
  await run("mount", ["-t", "tmpfs", "-o", "mode=700", "tmpfs", sshFolder()]);
  await writeOperator();
  const names = join(labFolder, "names");
  writeFileSync(names, "127.0.0.1 localhost\n::1 localhost\n");
  await run("mount", ["--bind", names, "/etc/hosts"]);
  // The account whose name stands in every address of a repository over ssh.
  const accounts = join(labFolder, "accounts");
  const others = readFileSync("/etc/passwd", "utf8").replace(/^git:.*\n/m, "");
  writeFileSync(accounts, `${others}git:*:64999:65534:a git host:/:/bin/sh\n`);
  await run("mount", ["--bind", accounts, "/etc/passwd"]);
  await setUpNetwork();
}

/** Makes names resolve inside the lab, for every program in it: there is no DNS. */
export function nameAddress(address: string, ...names: readonly string[]): void {
  writeFileSync(join(labFolder, "names"), `${address} ${names.join(" ")}\n`, { flag: "a" });
}
