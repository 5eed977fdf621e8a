/** A receiver for one test: its bundle as a process, on sockets that it inherits, and a folder of its own. */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Credentials } from "../../infra/config/settings.ts";
import { delivery } from "../fakes/deliveries.ts";
import { bundled, type Rewrite } from "./bundles.ts";
import { exchange, head, hooks, limits } from "./receiver/harness.ts";
import { launched, listening, onLoopback } from "./receiver-process.ts";

type Given = {
  readonly sockets?: number;
  /** In addition a unix socket for metrics, `metrics.sock` in the folder. */
  readonly metrics?: true;
  /** The secrets of each hook. */
  readonly known?: Credentials;
  readonly rewrite?: Rewrite;
  readonly prepare?: (spool: string) => void;
};

export async function activatedReceiver({ sockets = 1, metrics, known, rewrite, prepare }: Given = {}) {
  const root = mkdtempSync(join(tmpdir(), "pushgate-receiver-"));
  const spool = join(root, "spool");
  mkdirSync(spool);
  prepare?.(spool);
  const bundle = join(root, "receiver.cjs");
  await bundled("receiver", bundle, rewrite);
  const all = await Promise.all(Array.from({ length: sockets }, onLoopback));
  const ports = all.map(({ port }) => port);
  const path = join(root, "metrics.sock");
  // Node removes the path at which it bound a unix socket; under another name it stays for the child.
  const own = metrics ? [await listening({ path: `${path}.bound` })] : [];
  if (metrics) renameSync(`${path}.bound`, path);
  const receiver = launched(root, {
    ...{ bundle, settings: { spool, hooks, limits }, sockets: [...all, ...own] },
    ...(known && { known }),
    names: [...ports.map(() => "pushgate-receiver-github.socket"), ...own.map(() => "metrics")].join(":"),
  });
  onTestFinished(() => {
    receiver.child.kill("SIGKILL");
    rmSync(root, { recursive: true, force: true });
  });
  const exited = once(receiver.child, "exit");
  return {
    ...{ receiver, spool, path, exited },
    port: ports[0]!,
    ports,
    send: (sent = delivery(), port = ports[0]!) => exchange(port, [head(sent), sent.body]),
    /** Files of a hook's folder in the spool. */
    spooled: (hook = "site") => readdirSync(join(spool, hook)),
    journal: () =>
      receiver.out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
  };
}
