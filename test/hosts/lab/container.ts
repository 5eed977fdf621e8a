/** One booted container, with systemd as its first process, in its own control group, until it is powered off. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { removeGroup } from "./cgroup.ts";
import { answers, type Ran, type RunOptions, run, until } from "./process.ts";
import { type Disk, rootOf } from "./root-disk.ts";

/** Privileges beyond nspawn's default. */
const privileges = ["--capability=CAP_BPF,CAP_SYS_ADMIN,CAP_NET_ADMIN", "--private-network", "--network-bridge=lab0"];
/** Without bpf calls systemd silently enforces no allowlist. */
const enforcing = (enforces: boolean) => `--system-call-filter=${enforces ? "" : "~"}bpf`;
/** nspawn neither registers with the outer systemd nor copies its files. */
const isolated = ["--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no"];

/** nspawn's exit code after the container's reboot, because of --keep-unit. */
const wantsReboot = 133;

export class Container {
  readonly disk: Disk;
  readonly name: string;
  private readonly group: string;
  private readonly enforces: boolean;
  private nspawn: ChildProcess;
  private over = false;
  private readonly ended = Promise.withResolvers<void>();

  constructor(name: string, disk: Disk, enforces = true) {
    this.disk = disk;
    this.name = name;
    this.enforces = enforces;
    const lab = process.env.PUSHGATE_LAB;
    if (lab === undefined) throw new Error("this process is not in a lab. Boot hosts in withLab.");
    this.group = join(lab, name);
    mkdirSync(this.group);
    this.nspawn = this.start();
  }

  private start(): ChildProcess {
    const console = openSync(join(this.disk.folder, "console"), "a");
    const nspawn = ["--quiet", "--boot", "--console=read-only", "-M", this.name, "-D", rootOf(this.disk)];
    // nspawn starts the container in its own control group, so nspawn must already be in the host's group.
    const start = ["-c", 'echo 0 >"$1/cgroup.procs"; shift; exec systemd-nspawn "$@"', "start", this.group];
    const env = { ...process.env, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: "1" };
    const child = spawn("sh", [...start, ...nspawn, ...privileges, enforcing(this.enforces), ...isolated], {
      env,
      stdio: ["ignore", console, console],
      detached: true,
    });
    closeSync(console);
    child.on("close", (code) => {
      if (code === wantsReboot) {
        void this.unlink().then(() => {
          this.nspawn = this.start();
        });
      } else {
        this.over = true;
        this.ended.resolve();
      }
    });
    return child;
  }

  /** The lab's process id of the container's first process; undefined if the container does not run. */
  leader(): number | undefined {
    const { pid } = this.nspawn;
    try {
      const child = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ")[0];
      if (!child || !readFileSync(`/proc/${child}/cmdline`, "utf8").includes("systemd\0")) return undefined;
      return Number(child);
    } catch {
      return undefined;
    }
  }

  /** Runs a command in the container's namespaces, but not in its control groups, without network or ssh. */
  async inside(command: string, options: RunOptions = {}): Promise<Ran> {
    const leader = this.leader();
    if (leader === undefined) throw new Error(`the host is not running, so it cannot run: ${command}`);
    const env = {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      LANG: "C.UTF-8",
      HOME: "/root",
    };
    return run("nsenter", ["--target", `${leader}`, "--all", "sh", "-c", command], { env, ...options });
  }

  /** Waits until systemd has booted and sshd answers on `address`. Throws if a unit failed during the boot. */
  async isUp(address: string, after?: number): Promise<void> {
    const awaited = async <T>(what: string, probe: () => Promise<T | undefined> | T | undefined) => {
      try {
        return await until(what, () => (this.over ? Promise.reject(new Error("nspawn ended")) : probe()));
      } catch (error) {
        throw new Error(`${(error as Error).message}\n${this.console()}`);
      }
    };
    await awaited("the container starts", () => (this.leader() === after ? undefined : this.leader()));
    const state = await awaited("systemd has booted", async () => {
      const { stdout } = await this.inside("systemctl is-system-running --wait 2>/dev/null", { check: false });
      return /^(running|degraded)/.exec(stdout)?.[1];
    });
    await awaited("sshd answers", () => answers(address, 22, 1_000));
    // A unit that succeeded at its second attempt leaves the state "running", and this line.
    const journal = await this.inside("journalctl --boot --no-pager --output=short-precise");
    const failed = journal.stdout.split("\n").filter((line) => line.includes("Failed with result"));
    if (state === "running" && failed.length === 0) return;
    const units = new Set(failed.map((line) => /(\S+): Failed with result/.exec(line)![1]!));
    const about = journal.stdout.split("\n").filter((line) => [...units].some((unit) => line.includes(unit)));
    throw new Error(`${this.name} booted ${state}, and ${[...units].join(", ")} failed:\n${about.join("\n")}`);
  }

  async powerOff(): Promise<void> {
    await this.inside("systemctl --no-block poweroff");
    await this.gone();
  }

  /** Ends the container at once, like a power cut, except that unsynced writes survive. */
  async kill(): Promise<void> {
    writeFileSync(join(this.group, "cgroup.kill"), "1");
    await this.gone();
  }

  private async gone(): Promise<void> {
    await this.ended.promise;
    // Kernels since 6.15 remember that a group was killed, and kill processes later cloned into it: do not reuse it.
    await removeGroup(this.group);
    await this.unlink();
  }

  /** The kernel removes the link with the container's network namespace, but too late for a next boot of this name. */
  private async unlink(): Promise<void> {
    await run("ip", ["link", "delete", `vb-${this.name}`], { check: false });
  }

  console(): string {
    return readFileSync(join(this.disk.folder, "console"), "utf8").split("\n").slice(-40).join("\n");
  }
}
