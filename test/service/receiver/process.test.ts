/** The receiver as systemd runs it: the bundle on inherited sockets, stopped by SIGTERM. */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { delivery } from "../../fakes/deliveries.ts";
import { both, bundled, type Rewrite, replaced } from "../bundles.ts";
import { launched, onLoopback } from "../receiver-process.ts";
import { answer, dial, exchange, head, hooks, limits } from "./harness.ts";

type Given = {
  /** Of the sockets, as systemd passes them. */
  readonly names?: readonly string[];
  readonly rewrite?: Rewrite;
  readonly prepare?: (spool: string) => void;
};

/** A receiver for one test: its bundle as a process, on sockets that it inherits, and a folder of its own. */
async function activatedReceiver({ names = ["github"], rewrite, prepare }: Given = {}) {
  const root = mkdtempSync(join(tmpdir(), "pushgate-receiver-"));
  const spool = join(root, "spool");
  mkdirSync(spool);
  prepare?.(spool);
  const bundle = join(root, "receiver.cjs");
  await bundled("receiver", bundle, rewrite);
  const sockets = await Promise.all(names.map(onLoopback));
  const receiver = launched(root, { bundle, settings: { spool, hooks, limits }, names, sockets });
  onTestFinished(() => {
    receiver.child.kill("SIGKILL");
    rmSync(root, { recursive: true, force: true });
  });
  const ports = sockets.map(({ port }) => port);
  return {
    ...{ receiver, ports, exited: once(receiver.child, "exit") },
    port: ports[0]!,
    send: (sent = delivery(), port = ports[0]!) => exchange(port, [head(sent), sent.body]),
    spooled: () => readdirSync(join(spool, "site")),
    journal: () =>
      receiver.out
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line)),
  };
}

test("the receiver serves each socket, prints a journal line for each request, and goes on where the journal is gone", async () => {
  const { receiver, ports, send, spooled, journal } = await activatedReceiver({ names: ["github", "gitlab", "docs"] });
  for (const port of ports) expect((await send(delivery(), port)).status).toBe(202);
  expect(spooled()).toHaveLength(3);
  await expect.poll(() => journal().map(({ status }) => status)).toEqual([202, 202, 202]);
  // journald closes its end of the pipe when it restarts.
  receiver.child.stdout?.destroy();
  for (let i = 0; i < 3; i++) expect((await send()).status).toBe(202);
  expect(receiver.child.exitCode).toBe(null);
});

test("SIGTERM ends the receiver with 0 after it answered the open request, and at once for a kept connection", async () => {
  const { receiver, port, spooled, exited } = await activatedReceiver();
  const { body, ...sent } = delivery();
  const [open, kept] = [await dial(port), await dial(port)];
  open.write(head({ body, ...sent }));
  open.write(body.subarray(0, 100));
  kept.write(head(delivery()));
  kept.write(delivery().body);
  expect((await answer(kept)).status).toBe(202);
  const began = performance.now();
  receiver.child.kill("SIGTERM");
  const connects = async () => Boolean((await dial(port)).destroy());
  await expect.poll(() => connects().catch(() => false)).toBe(false);
  const answered = answer(open);
  open.write(body.subarray(100));
  expect((await answered).status).toBe(202);
  expect(await exited).toEqual([0, null]);
  expect(performance.now() - began).toBeLessThan(4_000); // before keepAliveTimeout, 5 s
  expect(spooled()).toHaveLength(2);
});

const careless = replaced("receiver/spool.ts", "  tried(() => {", "  ((work) => work())(() => {");
const removing = both(careless, replaced("receiver/spool.ts", "entry.isFile() && ", ""));
// spool.test.ts has the folders that cannot be used.
test.each([
  ["a folder in place of a temporary file", "site/.x.tmp", removing],
  ["a file in place of a folder", "docs", careless],
])("without the care for %s the receiver of all hooks would not start", async (_, path, rewrite) => {
  const prepare = (spool: string) => {
    if (path === "docs") writeFileSync(join(spool, path), "");
    else mkdirSync(join(spool, path, "full"), { recursive: true });
  };
  const { receiver, exited } = await activatedReceiver({ rewrite, prepare });
  expect(await exited).toEqual([1, null]);
  await expect.poll(() => receiver.err).toMatch(/EISDIR|EPERM|EEXIST/);
});

const names = ["github", "metrics"];

test("a request to a socket for deliveries is counted, and one to the socket for metrics has the counts", async () => {
  const { receiver, ports, send, spooled, journal, exited } = await activatedReceiver({ names });
  const [port, own] = ports as [number, number];
  for (const sent of [delivery(), delivery({ event: "ping" }), delivery({ signature: null })]) await send(sent);
  // What Node's parser rejects counts, too.
  await new Promise((resolve) => connect(port).end("hello\r\n\r\n").resume().once("close", resolve));
  for (const method of ["GET", "POST"]) expect((await send(delivery({ method, path: "/metrics" }))).status).toBe(404);
  await expect.poll(journal).toHaveLength(6);
  const { status, headers, body } = await send(delivery({ method: "GET", path: "/metrics" }), own);
  const type = "text/plain; version=0.0.4; charset=utf-8";
  expect([status, headers["content-type"], headers.connection]).toEqual([200, type, "close"]);
  expect(body.split("\n").filter((line) => /^\w*_total.* [1-9]/.test(line))).toEqual([
    'pushgate_deliveries_accepted_total{hook="site"} 1',
    'pushgate_deliveries_ignored_total{hook="site"} 1',
    'pushgate_requests_rejected_total{hook="site",reason="signature"} 1',
    'pushgate_requests_rejected_total{reason="payload"} 1',
    'pushgate_requests_rejected_total{reason="path"} 2',
  ]);
  // A client that holds a connection for metrics does not keep the receiver.
  const held = connect(own).on("error", () => {});
  expect((await send(delivery(), own)).status).toBe(404);
  expect([spooled().length, journal().length]).toEqual([1, 6]);
  receiver.child.kill("SIGTERM");
  expect(await exited).toEqual([0, null]);
  held.destroy();
});

test("without its name the socket for metrics would admit a delivery, past the allowlist of the git host's socket", async () => {
  const rewrite = replaced("receiver/settings.ts", "names[i] === metricsName", "false");
  const { ports, send, spooled } = await activatedReceiver({ names, rewrite });
  expect((await send(delivery(), ports[1]!)).status).toBe(202);
  expect(spooled()).toHaveLength(1);
});
