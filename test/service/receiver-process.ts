/** Runs the receiver's bundle as a process on loopback, on sockets that it inherits, as systemd does. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Credentials, Settings } from "../../infra/config/settings.ts";
import { type Delivery, delivery } from "../fakes/deliveries.ts";
import { secrets } from "../fixtures.ts";
import { receiverFlags } from "./bundles.ts";
import { type Answer, exchange, head } from "./receiver/harness.ts";

/** `lines`: the number of journal lines that the receiver wrote for this request. */
export type Answered = Answer & { readonly lines: number };

export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

type Launched = { readonly child: ChildProcess; out: string; err: string };

type Launch = {
  readonly bundle: string;
  readonly settings: object;
  /** Of each hook, newest first. */
  readonly known?: Credentials | undefined;
  /** LISTEN_FDNAMES= of the sockets. */
  readonly names?: readonly string[];
  readonly sockets: readonly Awaited<ReturnType<typeof onLoopback>>[];
};

/** A listening socket for a child, which still holds it after `server.close()`. */
export async function onLoopback() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle;
  return { server, fd, port: (server.address() as AddressInfo).port };
}

const both: Credentials = { site: Object.values(secrets.site), docs: Object.values(secrets.docs) };

/** Starts the bundle, which alone holds the sockets from then on. `root`: a folder for its settings and credentials. */
export function launched(root: string, { bundle, settings, known = both, names = [], sockets }: Launch): Launched {
  const credentials = join(root, "credentials");
  mkdirSync(credentials, { recursive: true });
  for (const [name, values] of Object.entries(known)) writeFileSync(join(credentials, name), `${values.join("\n")}\n`);
  const file = join(root, "receiver.json");
  writeFileSync(file, JSON.stringify(settings));
  const program = [process.execPath, ...receiverFlags, bundle];
  // As systemd sets them: LISTEN_PID is the program's own.
  const script = `export LISTEN_PID=$$ LISTEN_FDS=${sockets.length}; exec "$@"`;
  const child = spawn("/bin/sh", ["-c", script, "sh", ...program], {
    env: {
      ...{ PATH: process.env.PATH, PUSHGATE_SETTINGS: file, CREDENTIALS_DIRECTORY: credentials },
      LISTEN_FDNAMES: names.join(":"),
    },
    stdio: ["ignore", "pipe", "pipe", ...sockets.map(({ fd }) => fd)],
  });
  for (const { server } of sockets) server.close();
  const launched: Launched = { child, out: "", err: "" };
  child.stdout!.setEncoding("utf8").on("data", (text) => (launched.out += text));
  child.stderr!.setEncoding("utf8").on("data", (text) => (launched.err += text));
  return launched;
}

/** `prepare` changes the spool before the start. `known`: the secrets of each hook, newest first. */
export async function startReceiver(
  bundle: string,
  { hooks, limits }: Settings,
  prepare = (_spool: string): void => {},
  known: Credentials = both,
) {
  const root = mkdtempSync(join(tmpdir(), "pushgate-receiver-"));
  const spool = join(root, "spool");
  for (const { name } of hooks) mkdirSync(join(spool, name), { recursive: true });
  prepare(spool);
  const settings = { spool, hooks: hooks.map(({ name, gitHost, branch }) => ({ name, gitHost, branch })), limits };
  const socket = await onLoopback();
  const { port } = socket;
  const started = launched(root, { bundle, settings, known, sockets: [socket] });
  const { child } = started;
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));

  const lines = () => started.out.split("\n").length;
  const deliver = async (sent: Delivery): Promise<Answered> => {
    const before = lines();
    const answer = await exchange(port, [head(sent), sent.body]);
    // The receiver writes the journal line with the answer; it arrives here within 20 ms.
    await new Promise((resolve) => setTimeout(resolve, 20));
    return { ...answer, lines: lines() - before };
  };
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
    rmSync(root, { recursive: true, force: true });
  };
  // It waits in the socket until the receiver accepts it.
  const first = await Promise.race([deliver(delivery({ path: "/started" })).catch(() => undefined), exited]);
  if (first?.status !== 404) {
    await stop();
    throw new Error(`the receiver does not answer: ${started.err || "it printed nothing"}`);
  }
  const filesOf = (hook: string) => readdirSync(join(spool, hook)).filter((file) => !file.startsWith("."));
  return {
    deliver,
    /** The spool folder of a hook, and the number of spooled deliveries of all hooks. */
    spool: (hook: string) => join(spool, hook),
    spooled: () => hooks.reduce((sum, { name }) => sum + filesOf(name).length, 0),
    pid: child.pid!,
    port,
    stop,
  };
}
