/** The servers of the comparison: the receiver's own bundle, and two others. Each runs on the first core. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundling } from "../../infra/host/programs/programs.ts";
import { secrets } from "../fixtures.ts";
import { bundled, receiverFlags } from "../service/bundles.ts";
import { onLoopback } from "../service/receiver-process.ts";

const secret = secrets.site.current;

/** Name -> what the tables call it, in their order. The first is the measure of all others. */
const servers = {
  "node-http": "node:http and HMAC",
  receiver: "pushgate's receiver",
  express: "Express with express.raw",
};
type Server = keyof typeof servers;

export type Running = Awaited<ReturnType<typeof start>>;

/** Bundles each program as the receiver is bundled for hosts. Returns the bundles' folder. */
export async function bundleAll(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-bench-"));
  await bundled("receiver", join(folder, "receiver.cjs"));
  for (const name of ["node-http", "express"])
    await build({
      ...bundling,
      entryPoints: [fileURLToPath(new URL(`peers/${name}.ts`, import.meta.url))],
      outfile: join(folder, `${name}.cjs`),
      logLevel: "error",
    });
  return folder;
}

/** MiB. */
const residentOf = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

/** Microseconds, in steps of 10,000. */
function cpuOf(pid: number): number {
  // The fields after the name, which may hold spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** Puts this process, which is the client, on the second core. */
export function pin(): void {
  if (spawnSync("taskset", ["-a", "-c", "-p", "1", String(process.pid)]).status !== 0)
    throw new Error("taskset failed. Use a computer with two cores and util-linux.");
}

/** Starts a server on the first core, with this socket as systemd passes it. */
function pinned(command: string, args: readonly string[], env: NodeJS.ProcessEnv, socket: number): ChildProcess {
  // What a server writes goes to a process of its own through a socket, as on a host: the client would lose time by it.
  const journald = spawn("cat", { stdio: ["pipe", "ignore", "ignore"] });
  const script = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"';
  const child = spawn("/bin/sh", ["-c", script, "sh", "taskset", "-c", "0", command, ...args], {
    env: { PATH: process.env.PATH, NODE_ENV: "production", ...env },
    stdio: ["ignore", journald.stdin, "pipe", socket],
  });
  journald.stdin.destroy();
  return child;
}

/** Moved, not removed: ext4 looks at each lately freed inode for a new file, which took a third of a server's time. */
function moveAway(from: string, to: string): void {
  for (const file of readdirSync(from)) renameSync(join(from, file), join(to, file));
  // Otherwise the first sync of the next server would write this.
  spawnSync("sync");
}

async function start(name: Server, node: string, bundles: string) {
  const folder = mkdtempSync(join(bundles, `${name}-`));
  // One for all: what a new file costs ext4 depends on the place of its folder on the disk.
  const spool = join(bundles, "spool");
  const stored = join(bundles, "stored");
  const { server, fd, port } = await onLoopback();
  for (const each of [join(spool, "site"), stored]) mkdirSync(each, { recursive: true });
  writeFileSync(join(folder, "site"), `${secret}\n`);
  const settings = {
    spool,
    hooks: [{ name: "site", gitHost: "github", branch: "main" }],
    // The largest budget: with the default the receiver would answer 429 to all but 60 wrong signatures a minute.
    limits: { bodyBytes: 5 << 20, rejectionsPerMinute: 10_000, concurrentPerSource: 32 },
  };
  writeFileSync(join(folder, "receiver.json"), JSON.stringify(settings));
  const bundle = join(bundles, `${name}.cjs`);
  const args = name === "receiver" ? [...receiverFlags, bundle] : [bundle, spool, secret];
  const env = { PUSHGATE_SETTINGS: join(folder, "receiver.json"), CREDENTIALS_DIRECTORY: folder };
  const child = pinned(node, args, env, fd);
  server.close();
  let noise = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    noise = `${noise}${text}`.slice(-2_000);
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  // The socket listens already, so the request waits in it for the server.
  const answer = fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(20_000) }).then((one) => one.text());
  const isThere = await Promise.race([
    answer.then(
      () => true,
      () => false,
    ),
    exited.then(() => false),
  ]);
  if (!isThere) throw new Error(`${name} does not answer: ${noise || "it printed nothing"}`);
  return {
    label: servers[name],
    port,
    /** Moves away what was stored: a receiver's spool holds 10,000 deliveries. */
    empty: () => moveAway(join(spool, "site"), stored),
    /** MiB. */
    resident: () => residentOf(child.pid!),
    /** Microseconds of CPU that the process has used. */
    cpu: () => cpuOf(child.pid!),
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** Where one does not start, it stops the others and fails. */
export async function startAll(node: string, bundles: string): Promise<Running[]> {
  const running: Running[] = [];
  try {
    for (const name of Object.keys(servers) as Server[]) running.push(await start(name, node, bundles));
  } catch (error) {
    for (const each of running) await each.stop();
    throw error;
  }
  return running;
}
