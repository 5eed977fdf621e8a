/**
 * Runs the receiver's bundle on two inherited sockets, as systemd does: one for deliveries, a unix socket for metrics. A
 * second start is a restart, with the same spool.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Delivery, delivery } from "../fakes/deliveries.ts";
import { secrets } from "../fixtures.ts";
import { bundled, type Rewrite } from "./bundles.ts";
import { activated, listening } from "./inherited.ts";
import { exchange, head, hooks, limits } from "./receiver/harness.ts";

export type Answered = { readonly status: number; readonly type: string | undefined; readonly text: string };

/** The value of each series by its name and labels, such as `pushgate_spool_deliveries{hook="site"}`. */
export type Series = Readonly<Record<string, number>>;

/** A request without headers and body. */
export const plain = (method: string, path: string): Delivery => ({
  ...delivery({ method, path, body: Buffer.alloc(0) }),
  headers: {},
});

export class ActivatedReceiver {
  readonly root = mkdtempSync(join(tmpdir(), "pushgate-metrics-"));
  readonly spool = join(this.root, "spool");
  readonly status = join(this.root, "status.json");
  readonly path = join(this.root, "metrics.sock");
  /** Those of the settings; a test may change them before the start. */
  readonly limits = { ...limits, rejectionsPerMinute: 10_000 };
  port = 0;
  journal = "";
  child: ChildProcess | undefined;

  /** `names`: what systemd calls the two sockets. */
  async start(rewrite?: Rewrite, names = "pushgate-receiver-github.socket:metrics"): Promise<this> {
    mkdirSync(join(this.root, "credentials"), { recursive: true });
    const [site, docs] = hooks;
    const built = { spool: this.spool, hooks: [{ ...site, statusFile: this.status }, docs], limits: this.limits };
    writeFileSync(join(this.root, "receiver.json"), JSON.stringify(built));
    for (const { name } of hooks)
      writeFileSync(join(this.root, "credentials", name), `${secrets[name as "site" | "docs"].current}\n`);
    const bundle = join(this.root, "receiver.cjs");
    await bundled("receiver", bundle, rewrite);
    const deliveries = await listening({ host: "127.0.0.1", port: this.port });
    // Node removes the path at which it bound a unix socket; under another name it stays for the child.
    const metrics = await listening({ path: `${this.path}.bound` });
    renameSync(`${this.path}.bound`, this.path);
    this.port = (deliveries.server.address() as AddressInfo).port;
    this.child = spawn("sh", ["-c", activated(2), "sh", process.execPath, bundle], {
      env: {
        PATH: process.env.PATH,
        LISTEN_FDNAMES: names,
        PUSHGATE_SETTINGS: join(this.root, "receiver.json"),
        CREDENTIALS_DIRECTORY: join(this.root, "credentials"),
      },
      stdio: ["ignore", "pipe", "inherit", deliveries.fd, metrics.fd],
    });
    this.child.stdout?.on("data", (bytes) => {
      this.journal += bytes;
    });
    for (const { server } of [deliveries, metrics]) server.close();
    await this.send(plain("GET", "/started"));
    return this;
  }

  send = (delivery: Delivery) => exchange(this.port, [head(delivery), delivery.body]);

  /** A request to the socket for metrics. */
  ask(path = "/metrics", method = "GET", headers: Record<string, string> = {}, body?: Buffer): Promise<Answered> {
    return new Promise((resolve, reject) => {
      request({ socketPath: this.path, path, method, headers }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part) => {
          text += part;
        });
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, type: answer.headers["content-type"], text }));
      })
        .on("error", reject)
        .end(body);
    });
  }

  async series(): Promise<Series> {
    const lines = (await this.ask()).text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    return Object.fromEntries(lines.map((line) => [line.replace(/ [^ ]*$/, ""), Number(line.split(" ").at(-1))]));
  }

  /** Removes what waits, as the builder does when it takes deliveries. */
  take(): void {
    for (const { name } of hooks)
      for (const file of readdirSync(join(this.spool, name))) rmSync(join(this.spool, name, file));
  }

  /** Returns exit status and signal. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<unknown[]> {
    const exited = once(this.child!, "exit");
    this.child!.kill(signal);
    return exited;
  }

  remove(): void {
    this.child?.kill("SIGKILL");
    rmSync(this.root, { recursive: true, force: true });
  }
}
