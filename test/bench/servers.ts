/** The servers of the comparison: the receiver's own bundle, and its peers. Each runs on the first core. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { bundling } from "../../infra/host/programs/programs.ts";
import { secrets } from "../fixtures.ts";
import { bundled, receiverFlags } from "../service/bundles.ts";
import { freePort } from "../service/receiver-process.ts";
import type { Dial } from "./load.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const secret = secrets.site.current;

/** `program`: what must be on PATH. */
export type Peer = { readonly name: string; readonly label: string; readonly program: "node" | "webhook" };

/** In the order of the table. The first is the measure of all others. */
export const peers: readonly Peer[] = [
  { name: "node-http", label: "node:http and HMAC", program: "node" },
  { name: "node-http-journal", label: "the same with the receiver's journal", program: "node" },
  { name: "receiver", label: "pushgate's receiver", program: "node" },
  { name: "express-raw", label: "Express with express.raw", program: "node" },
  { name: "express-rate-limit", label: "the same with express-rate-limit", program: "node" },
  { name: "fastify", label: "Fastify", program: "node" },
  { name: "octokit", label: "@octokit/webhooks on node:http", program: "node" },
  { name: "webhook", label: "adnanh/webhook", program: "webhook" },
];

export type Running = {
  readonly peer: Pick<Peer, "name" | "label">;
  readonly dial: Dial;
  /** Moves away what was stored: a receiver's spool holds 10,000 deliveries. */
  readonly empty: () => void;
  /** MiB. */
  readonly resident: () => number;
  /** Microseconds of CPU that the process has used. */
  readonly cpu: () => number;
  /** Milliseconds from the start of the process until it accepts a connection. */
  readonly coldStart: number;
  readonly stop: () => Promise<void>;
};

/** Installs the peers' packages into the user's cache, by the hash of their lockfile. Returns their folder. */
function installed(): string {
  const lock = readFileSync(join(here, "package-lock.json"));
  const hash = createHash("sha256").update(lock).digest("hex").slice(0, 16);
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), ".cache"), "pushgate", `bench-${hash}`);
  const done = join(folder, "installed");
  if (existsSync(done)) return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), readFileSync(join(here, "package.json")));
  writeFileSync(join(folder, "package-lock.json"), lock);
  const { status } = spawnSync("npm", ["ci", "--prefix", folder, "--ignore-scripts", "--no-fund", "--no-audit"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) throw new Error(`npm ci in ${folder} failed. Check the network.`);
  writeFileSync(done, "");
  return folder;
}

export type Bundles = { readonly folder: string; readonly of: (name: string) => string };

/** Milliseconds until a started server accepts a connection, the least of `times` starts. */
export async function coldStart(name: string, node: string, bundles: Bundles, times: number): Promise<number> {
  const all: number[] = [];
  for (let i = 0; i < times; i++) {
    const { coldStart, stop } = await start({ name, label: name, program: "node" }, node, bundles);
    all.push(coldStart);
    await stop();
  }
  return Math.min(...all);
}

/** Bundles each program as the receiver is bundled for hosts. */
export async function bundleAll(): Promise<Bundles> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-bench-"));
  const of = (name: string) => join(folder, `${name}.cjs`);
  const modules = join(installed(), "node_modules");
  const names = peers.filter(({ name, program }) => program === "node" && name !== "receiver").map(({ name }) => name);
  await bundled("receiver", of("receiver"));
  for (const name of [...names, "express-empty"])
    await build({
      ...bundling,
      entryPoints: [join(here, "peers", `${name}.ts`)],
      outfile: of(name),
      nodePaths: [modules],
      logLevel: "error",
    });
  return { folder, of };
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(Boolean(socket.destroy()))).on("error", () =>
      resolve(false),
    );
  });

const header = (name: string) => ({ source: "header", name });

/** adnanh/webhook's hook: it answers before its command has run, so an accepted delivery is not stored. */
const hookOf = () => ({
  id: "site",
  "execute-command": "/bin/true",
  "http-methods": ["POST"],
  "success-http-response-code": 202,
  "trigger-rule-mismatch-http-response-code": 401,
  "trigger-rule": {
    and: [
      { match: { type: "payload-hmac-sha256", secret, parameter: header("X-Hub-Signature-256") } },
      { match: { type: "value", value: "push", parameter: header("X-GitHub-Event") } },
    ],
  },
});

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

function pinned(command: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  // What a server writes goes to a process of its own through a socket, as on a host: the client would lose time by it.
  const journald = spawn("cat", { stdio: ["pipe", "ignore", "ignore"] });
  const child = spawn("taskset", ["-c", "0", command, ...args], {
    env: { PATH: process.env.PATH, NODE_ENV: "production", ...env },
    stdio: ["ignore", journald.stdin, "pipe"],
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

export async function start(peer: Peer, node: string, bundles: Bundles): Promise<Running> {
  const folder = mkdtempSync(join(bundles.folder, `${peer.name}-`));
  // One for all: what a new file costs ext4 depends on the place of its folder on the disk.
  const spool = join(bundles.folder, "spool");
  const stored = join(bundles.folder, "stored");
  const port = await freePort();
  for (const each of [join(spool, "site"), stored]) mkdirSync(each, { recursive: true });
  let child: ChildProcess;
  const began = performance.now();
  if (peer.name === "receiver") {
    writeFileSync(join(folder, "site"), `${secret}\n`);
    writeFileSync(
      join(folder, "receiver.json"),
      JSON.stringify({
        spool,
        hooks: [{ name: "site", gitHost: "github", branch: "main" }],
        // The largest budget: with the default the receiver would answer 429 to all but 60 wrong signatures a minute.
        limits: { bodyBytes: 5 << 20, rejectionsPerMinute: 10_000, concurrentPerSource: 32 },
        listen: { host: "127.0.0.1", port },
      }),
    );
    child = pinned(node, [...receiverFlags, bundles.of("receiver")], {
      PUSHGATE_SETTINGS: join(folder, "receiver.json"),
      CREDENTIALS_DIRECTORY: folder,
    });
  } else if (peer.program === "webhook") {
    writeFileSync(join(folder, "hooks.json"), JSON.stringify([hookOf()]));
    const args = ["-hooks", join(folder, "hooks.json"), "-ip", "127.0.0.1", "-port", String(port)];
    child = pinned("webhook", [...args, "-urlprefix", "webhook"], {});
  } else child = pinned(node, [bundles.of(peer.name), String(port), spool, secret], {});
  let noise = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    noise = `${noise}${text}`.slice(-2_000);
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  while (!(await accepts(port))) {
    if (child.exitCode !== null || performance.now() - began > 20_000)
      throw new Error(`${peer.name} does not answer: ${noise || "it printed nothing"}`);
    await sleep(2);
  }
  const coldStart = performance.now() - began;
  return {
    peer,
    dial: (ready) => connect({ port, host: "127.0.0.1", noDelay: true }, ready),
    empty: () => moveAway(join(spool, "site"), stored),
    coldStart,
    resident: () => residentOf(child.pid!),
    cpu: () => cpuOf(child.pid!),
    stop: async () => {
      child.kill("SIGKILL");
      await exited;
    },
  };
}

/** Where one does not start, it stops the others and fails. */
export async function startAll(peers: readonly Peer[], node: string, bundles: Bundles): Promise<Running[]> {
  const running: Running[] = [];
  try {
    for (const peer of peers) running.push(await start(peer, node, bundles));
  } catch (error) {
    for (const each of running) await each.stop();
    throw error;
  }
  return running;
}
