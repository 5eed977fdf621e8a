/** One booted container: systemd as its first process, in a control group of its own, until it is powered off. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { removeGroup } from "./cgroup.ts";
import { currentLab } from "./lab.ts";
import { type Ran, type RunOptions, run, until } from "./process.ts";
import { type Disk, rootOf } from "./tree.ts";

/** Beyond nspawn's default set. */
const powers = ["--capability=CAP_BPF,CAP_SYS_ADMIN,CAP_NET_ADMIN", "--private-network", "--network-bridge=lab0"];
/** Without the bpf calls the service manager's allowlist silently does nothing. */
const enforcing = (enforces: boolean) => `--system-call-filter=${enforces ? "" : "~"}bpf`;
/** Neither the machine's service manager nor its files are asked or told anything. */
const alone = ["--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no"];

/** What nspawn ends with when the container asked for a reboot and nspawn was told to keep its unit. */
const wantsReboot = 133;

export class Machine {
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
    this.group = join(currentLab().group, name);
    mkdirSync(this.group);
    this.nspawn = this.start();
  }

  private start(): ChildProcess {
    const console = openSync(join(this.disk.folder, "console"), "a");
    const nspawn = [
      "systemd-nspawn",
      "--quiet",
      "--boot",
      "--console=read-only",
      "-M",
      this.name,
      "-D",
      rootOf(this.disk),
    ];
    // nspawn puts the container beside itself, so it has to be in the host's group before it starts.
    const start = [
      "-c",
      'echo 0 >"$1/cgroup.procs"; shift; exec "$@"',
      "start",
      this.group,
      ...nspawn,
      ...powers,
      enforcing(this.enforces),
      ...alone,
    ];
    const env = { ...process.env, SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: "1" };
    const child = spawn("sh", start, { env, stdio: ["ignore", console, console], detached: true });
    closeSync(console);
    child.on("close", (code) => {
      if (code === wantsReboot) {
        this.nspawn = this.start();
      } else {
        this.over = true;
        this.ended.resolve();
      }
    });
    return child;
  }

  /** The container's first process, as seen from the lab; undefined before the boot, between two, and afterwards. */
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

  /** Runs in all the container's namespaces without network, ssh or the host's knowledge; not in its control groups. */
  async inside(command: string, options: RunOptions = {}): Promise<Ran> {
    const leader = this.leader();
    if (leader === undefined) throw new Error(`the host is not running, so it can't run: ${command}`);
    const env = {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      LANG: "C.UTF-8",
      HOME: "/root",
    };
    return run("nsenter", ["--target", `${leader}`, "--all", "sh", "-c", command], { env, ...options });
  }

  /** Resolves with systemd's verdict ("running", "degraded") once its boot is over and sshd answers on `address`. */
  async isUp(address: string, after?: number): Promise<string> {
    const awaited = async <T>(what: string, ask: () => Promise<T | undefined> | T | undefined) => {
      try {
        return await until(what, () => (this.over ? Promise.reject(new Error("nspawn ended")) : ask()));
      } catch (error) {
        throw new Error(`${(error as Error).message}\n${this.console()}`);
      }
    };
    await awaited("the container starts", () => (this.leader() === after ? undefined : this.leader()));
    const state = await awaited("systemd has booted", async () => {
      const { stdout } = await this.inside("systemctl is-system-running --wait 2>/dev/null", { check: false });
      return /^(running|degraded)/.exec(stdout)?.[1];
    });
    await awaited("sshd answers", () => answers(address, 22));
    return state;
  }

  async powerOff(): Promise<void> {
    await this.inside("systemctl --no-block poweroff");
    await this.gone();
  }

  /** At once, as when the cable is pulled, except that what was written and not synced survives. */
  async kill(): Promise<void> {
    writeFileSync(join(this.group, "cgroup.kill"), "1");
    await this.gone();
  }

  private async gone(): Promise<void> {
    await this.ended.promise;
    // Kernels since 6.15 remember that a group was killed, and kill what is later cloned into it: never boot in it again.
    await removeGroup(this.group);
    // The kernel takes the link down with the container's network namespace, but later than a next boot may want its name.
    await run("ip", ["link", "delete", `vb-${this.name}`], { check: false });
  }

  console(): string {
    return readFileSync(join(this.disk.folder, "console"), "utf8").split("\n").slice(-40).join("\n");
  }
}

/** True when somebody accepts and says something; undefined otherwise. */
const answers = (host: string, port: number): Promise<true | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 200 });
    const end = (answer: true | undefined) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on("data", () => end(true));
    socket.on("error", () => end(undefined));
    socket.on("timeout", () => end(undefined));
  });
