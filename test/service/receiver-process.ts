/** Runs the real receiver bundle as a process on loopback. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Credentials, Settings } from "../../infra/config/settings.ts";
import type { ReceiverSettings } from "../../service/receiver/settings.ts";
import type { Delivery } from "../fakes/deliveries.ts";
import { secrets } from "../fixtures.ts";
import { receiverFlags } from "./bundles.ts";
import { activated, listening as socketOf } from "./inherited.ts";

export type Answered = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  /** The number of journal lines that the receiver wrote for this request. */
  readonly lines: number;
};

export type Receiver = {
  /** `from`: the loopback address that it comes from. */
  readonly deliver: (delivery: Delivery, from?: string) => Promise<Answered>;
  /** The spool folder of a hook, and the number of spooled deliveries of all hooks. */
  readonly spool: (hook: string) => string;
  readonly spooled: () => number;
  readonly journal: () => readonly string[];
  readonly pid: number;
  readonly port: number;
  readonly stop: () => Promise<void>;
};

const loopback = "127.0.0.1";

/** `prepare` changes the spool before the start. `known`: the secrets of each hook, newest first. */
export async function startReceiver(
  bundle: string,
  { hooks, limits }: Settings,
  prepare = (_spool: string): void => {},
  known: Credentials = { site: Object.values(secrets.site), docs: Object.values(secrets.docs) },
): Promise<Receiver> {
  const root = mkdtempSync(join(tmpdir(), "pushgate-receiver-"));
  const spool = join(root, "spool");
  const credentials = join(root, "credentials");
  mkdirSync(credentials);
  for (const { name } of hooks) mkdirSync(join(spool, name), { recursive: true });
  prepare(spool);
  for (const [name, values] of Object.entries(known))
    writeFileSync(join(credentials, name), `${values.join("\n")}\n`, { mode: 0o600 });
  // As from systemd: no other program can take the port before the receiver, and connections wait until it accepts.
  const { server, fd } = await socketOf({ host: loopback, port: 0 });
  const { port } = server.address() as AddressInfo;
  const settings: ReceiverSettings = {
    spool,
    hooks: hooks.map(({ name, gitHost, branch }) => ({ name, gitHost, branch })),
    limits,
  };
  const settingsFile = join(root, "receiver.json");
  writeFileSync(settingsFile, JSON.stringify(settings));

  const child = spawn("/bin/sh", ["-c", activated(1), "sh", process.execPath, ...receiverFlags, bundle], {
    env: { PATH: process.env.PATH, PUSHGATE_SETTINGS: settingsFile, CREDENTIALS_DIRECTORY: credentials },
    stdio: ["ignore", "pipe", "pipe", fd],
  });
  server.close();
  const lines: string[] = [];
  let noise = "";
  child.stdout!.setEncoding("utf8").on("data", (text: string) => lines.push(...text.split("\n").filter(Boolean)));
  child.stderr!.setEncoding("utf8").on("data", (text: string) => {
    noise += text;
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));

  const deliver = ({ method, path, headers, body }: Delivery, from = loopback): Promise<Answered> => {
    const before = lines.length;
    return new Promise((resolve, reject) => {
      const sent = request(
        { host: loopback, localAddress: from, port, method, path, headers: { ...headers, connection: "close" } },
        (answer) => {
          let text = "";
          answer.setEncoding("utf8").on("data", (part: string) => {
            text += part;
          });
          // The receiver writes the journal line with the answer; it arrives here within 20 ms.
          answer.on("end", () =>
            setTimeout(
              () =>
                resolve({
                  status: answer.statusCode ?? 0,
                  headers: answer.headers,
                  body: text,
                  lines: lines.length - before,
                }),
              20,
            ),
          );
        },
      );
      sent.on("error", reject).end(body);
    });
  };

  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
    rmSync(root, { recursive: true, force: true });
  };
  const listening = () =>
    new Promise<boolean>((resolve) => {
      const attempt = request({ host: loopback, port, path: "/" }, (answer) => resolve(Boolean(answer.resume()))).on(
        "error",
        () => resolve(false),
      );
      attempt.end();
    });
  for (const deadline = Date.now() + 30_000; !(await listening()); ) {
    if (Date.now() > deadline || child.exitCode !== null) {
      await stop();
      throw new Error(`the receiver does not answer: ${noise || "it printed nothing"}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  lines.length = 0;
  const spooled = () =>
    hooks.reduce(
      (sum, { name }) => sum + readdirSync(join(spool, name)).filter((file) => !file.startsWith(".")).length,
      0,
    );
  return {
    deliver,
    spool: (hook) => join(spool, hook),
    spooled,
    journal: () => [...lines],
    pid: child.pid!,
    port,
    stop,
  };
}
