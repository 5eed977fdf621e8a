/**
 * The receiver as systemd runs it: the bundle alone in a folder, on inherited sockets, with a settings file and
 * credentials, stopped by SIGTERM or SIGKILL.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { delivery } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { bundled } from "../bundles.ts";
import { activated, listening } from "../inherited.ts";
import { answer, chunk, dial, exchange, folder, head, hooks, limits, spooledIn } from "./harness.ts";

let bundle: string;
beforeAll(async () => {
  bundle = join(folder(), "receiver.cjs");
  const entryPoints = [new URL("../../../service/receiver/main.ts", import.meta.url).pathname];
  await build({ entryPoints, bundle: true, platform: "node", target: "node18", format: "cjs", outfile: bundle });
});
afterAll(() => rmSync(join(bundle, ".."), { recursive: true }));

let place: string;
let spool: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  place = folder();
  spool = join(place, "spool");
  mkdirSync(join(place, "credentials"));
  writeFileSync(join(place, "credentials/site"), `${secrets.site.current}\n${secrets.site.previous}\n`);
  writeFileSync(join(place, "credentials/docs"), `${secrets.docs.current}\n`);
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  rmSync(place, { recursive: true });
});

type Process = { readonly child: ChildProcess; readonly pid: number; out(): string; err(): string };

/** Runs `script` with sh, where "$@" starts the bundle; it inherits `fds` as descriptors from 3 up. */
function start(script: string, fds: number[] = [], more: Record<string, unknown> = {}): Process {
  writeFileSync(join(place, "receiver.json"), JSON.stringify({ spool, hooks, limits, ...more }));
  const env = {
    PATH: process.env.PATH,
    PUSHGATE_SETTINGS: join(place, "receiver.json"),
    CREDENTIALS_DIRECTORY: join(place, "credentials"),
  };
  const child = spawn("sh", ["-c", script, "sh", process.execPath, bundle], {
    env,
    stdio: ["ignore", "pipe", "pipe", ...fds],
  });
  children.push(child);
  const text = ["", ""];
  child.stdout?.on("data", (bytes) => (text[0] += bytes));
  child.stderr?.on("data", (bytes) => (text[1] += bytes));
  return { child, pid: child.pid!, out: () => text[0]!, err: () => text[1]! };
}

/** A listening socket for a child, which still holds it after `release`. */
async function socket(host: string): Promise<{ fd: number; port: number; release: () => void }> {
  const { server, fd } = await listening({ host, port: 0 });
  return { fd, port: (server.address() as AddressInfo).port, release: () => server.close() };
}

async function handedOver(count = 1, script?: string) {
  const sockets = await Promise.all(Array.from({ length: count }, () => socket("127.0.0.1")));
  const fds = sockets.map(({ fd }) => fd);
  const started = start(script ?? activated(count), fds);
  for (const { release } of sockets) release();
  return { ...started, ports: sockets.map(({ port }) => port) };
}

const send = (port: number, sent = delivery()) => exchange(port, [head(sent), sent.body]);

describe("inherited sockets:", () => {
  test("the receiver serves each of them and prints one journal line per request", async () => {
    const { ports, out } = await handedOver(3);
    for (const port of ports) expect((await send(port)).status).toBe(202);
    expect(spooledIn(spool)).toHaveLength(3);
    const lines = out().trim().split("\n");
    expect(lines.map((each) => JSON.parse(each).status)).toEqual([202, 202, 202]);
  });

  test("the receiver prefers them to `listen`", async () => {
    const inherited = await socket("127.0.0.1");
    const free = await socket("127.0.0.1");
    free.release();
    start(activated(1), [inherited.fd], { listen: { host: "127.0.0.1", port: free.port } });
    inherited.release();
    expect((await send(inherited.port)).status).toBe(202);
    await expect(dial(free.port)).rejects.toThrow(/ECONNREFUSED/);
  });

  test("the receiver does not use those of another process", async () => {
    const { child, err } = await handedOver(1, 'export LISTEN_PID=1 LISTEN_FDS=1; exec "$@"');
    expect(await once(child, "exit")).toEqual([78, null]);
    expect(err()).toContain("no socket was handed over");
  });
});

test("the receiver listens on the settings' address outside systemd", async () => {
  const free = await socket("127.0.0.1");
  free.release();
  start('exec "$@"', [], { listen: { host: "127.0.0.1", port: free.port } });
  await expect
    .poll(() =>
      send(free.port).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(202);
});

test("the receiver reports all faults of its secrets without a secret in the text, and exits with 78", async () => {
  rmSync(join(place, "credentials/docs"));
  writeFileSync(join(place, "credentials/site"), "too-short-to-be-one");
  const { child, err, out } = await handedOver();
  expect(await once(child, "exit")).toEqual([78, null]);
  expect(err()).toMatch(/^pushgate-receiver: 2 faults, not started:\n.*site, line 1 has .*\n.*docs is not readable/);
  expect(err()).not.toContain("too-short-to-be-one");
  expect(out()).toBe("");
});

describe("SIGTERM", () => {
  test("ends the receiver with 0 after it answered the open request", async () => {
    const { child, ports } = await handedOver();
    const sent = delivery();
    const open = await dial(ports[0]!);
    open.write(head(sent));
    open.write(sent.body.subarray(0, 100));
    expect((await send(ports[0]!)).status).toBe(202);
    const exited = once(child, "exit");
    child.kill("SIGTERM");
    await new Promise((resolve) => setTimeout(resolve, 100));
    const answered = answer(open);
    open.write(sent.body.subarray(100));
    expect((await answered).status).toBe(202);
    expect(await exited).toEqual([0, null]);
    expect(spooledIn(spool)).toHaveLength(2);
  });

  test("ends the receiver at once although a client keeps a connection", async () => {
    const { child, ports } = await handedOver();
    const sent = delivery();
    const kept = await dial(ports[0]!);
    kept.write(head(sent));
    kept.write(sent.body);
    expect((await answer(kept)).status).toBe(202);
    const started = performance.now();
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
    expect(performance.now() - started).toBeLessThan(4_000); // before keepAliveTimeout, 5 s
    kept.destroy();
  });

  test("loses no delivery of a stream across two restarts: the socket keeps them for the next receiver", async () => {
    // The outer shell keeps the socket as systemd does, and starts the next receiver when one has ended.
    const one = `sh -c 'echo $$ >&2; ${activated(1)}' sh "$@"`;
    const { ports, err } = await handedOver(1, `${one}; ${one}; ${one}`);
    const statuses: number[] = [];
    let restarts = 0;
    for (let i = 0; i < 60; i++) {
      if (i % 20 === 10) {
        const pid = Number(err().trim().split("\n").at(-1));
        if (restarts++ < 2) process.kill(pid, "SIGTERM");
      }
      statuses.push((await send(ports[0]!)).status);
    }
    expect(restarts).toBe(3);
    expect(err().trim().split("\n")).toHaveLength(3);
    expect(statuses).toEqual(Array(60).fill(202));
    expect(spooledIn(spool)).toHaveLength(60);
    process.kill(Number(err().trim().split("\n").at(-1)), "SIGTERM");
  });
});

test("SIGKILL in a stream of deliveries leaves each accepted delivery in a whole spool file", async () => {
  const { child, ports } = await handedOver();
  const accepted: string[] = [];
  const others: unknown[] = [];
  await send(ports[0]!);
  const sender = async () => {
    for (let status = 202; status === 202; ) {
      const sent = delivery();
      status = await send(ports[0]!, sent).then(
        (answer) => answer.status,
        ({ code }) => code,
      );
      if (status === 202) accepted.push(sent.headers["x-github-delivery"]!);
      else others.push(status);
    }
  };
  const stopped = Promise.all([1, 2, 3, 4].map(sender));
  await expect.poll(() => accepted.length + others.length, { timeout: 20_000 }).toBeGreaterThan(20);
  expect(others).toEqual([]);
  child.kill("SIGKILL");
  await stopped;
  // Connections that ended without an answer, or were not accepted.
  for (const other of others) expect([0, "ECONNREFUSED", "ECONNRESET", "EPIPE"]).toContain(other);
  expect(others).toHaveLength(4);
  const names = readdirSync(join(spool, "site")).filter((name) => !name.startsWith("."));
  for (const name of names) {
    const { delivery, ref } = JSON.parse(readFileSync(join(spool, "site", name), "utf8"));
    expect([name, ref]).toEqual([`${delivery}.json`, "refs/heads/main"]);
  }
  expect(names).toEqual(expect.arrayContaining(accepted.map((id) => `${id}.json`)));
});

test("the receiver answers 503, leaves no file and continues where the disk accepts no byte", async () => {
  // With ulimit -f 0 the kernel fails each write with EFBIG, as a full disk does with ENOSPC.
  const { ports, out } = await handedOver(1, `trap '' XFSZ; ulimit -f 0; ${activated(1)}`);
  const answer = await send(ports[0]!);
  expect([answer.status, answer.headers["retry-after"]]).toEqual([503, "30"]);
  expect(readdirSync(join(spool, "site"))).toEqual([]);
  expect(JSON.parse(out())).toMatchObject({ status: 503, reason: expect.stringContaining("EFBIG") });
  expect((await send(ports[0]!, delivery({ event: "ping" }))).status).toBe(200);
});

describe("one hook's broken spool:", () => {
  const broken = () => {
    mkdirSync(join(spool, "site/.x.tmp/full"), { recursive: true });
    writeFileSync(join(spool, "docs"), "");
  };

  test("the receiver answers that hook's deliveries with 503 and the others with 202, until the folder is whole", async () => {
    broken();
    const { ports, out } = await handedOver();
    const docs = () => send(ports[0]!, delivery({ hook: "docs", secret: secrets.docs.current }));
    expect((await send(ports[0]!)).status).toBe(202);
    const { status, headers } = await docs();
    expect([status, headers["retry-after"]]).toEqual([503, "30"]);
    const reason = `not spooled: ${spool}/docs cannot be used (ENOTDIR). Run systemd-tmpfiles --create, which makes it.`;
    expect(JSON.parse(out().trim().split("\n").at(-1)!)).toMatchObject({ hook: "docs", status: 503, reason });
    rmSync(join(spool, "docs"));
    mkdirSync(join(spool, "docs"));
    expect((await docs()).status).toBe(202);
  });

  test.each([
    ["a folder in place of a temporary file", "entry.isFile() && ", ""],
    ["a file in place of a folder", "", ""],
  ])("without the care for %s the receiver of all hooks would not start", async (_, words, instead) => {
    broken();
    if (words !== "") rmSync(join(spool, "docs"));
    const careless = join(place, "careless.cjs");
    await bundled("receiver", careless, (file, text) => {
      if (file !== "receiver/spool.ts") return text;
      expect(text).toContain(words);
      return text.replace(words, instead).replace("} catch {\n    return most;", "} finally {");
    });
    const { child, err } = start(`exec ${process.execPath} ${careless}`, [], {
      listen: { host: "127.0.0.1", port: 0 },
    });
    expect(await once(child, "exit")).toEqual([1, null]);
    expect(err()).toMatch(/EISDIR|EPERM|EEXIST/);
  });
});

test("the receiver accepts deliveries after its journal pipe was closed", async () => {
  const { ports, child } = await handedOver();
  expect((await send(ports[0]!)).status).toBe(202);
  child.stdout?.destroy();
  for (let i = 0; i < 3; i++) expect((await send(ports[0]!)).status).toBe(202);
  expect(child.exitCode).toBe(null);
});

test("the journal, the arguments and the environment hold no secret, signature or body", async () => {
  const { ports, out, err, pid } = await handedOver();
  const bodies = [delivery(), delivery({ secret: "wrong-0123456789-0123456789-0123456789" }), delivery({ event: "x" })];
  for (const sent of bodies) await send(ports[0]!, sent);
  const { "content-length": _, ...others } = bodies[0]!.headers;
  const chunked = head({ ...bodies[0]!, headers: others }, "transfer-encoding: chunked");
  await exchange(ports[0]!, [chunked, chunk(bodies[0]!.body), "0\r\n\r\n"]);
  const seen = [
    out(),
    err(),
    readFileSync(`/proc/${pid}/environ`, "utf8"),
    readFileSync(`/proc/${pid}/cmdline`, "utf8"),
  ].join();
  expect(seen).toContain("PUSHGATE_SETTINGS");
  expect(out().trim().split("\n")).toHaveLength(4);
  for (const { body, headers } of bodies) {
    expect(seen).not.toContain(headers["x-hub-signature-256"]!.slice(7));
    expect(seen).not.toContain(body.toString().slice(0, 40));
  }
  for (const secret of [secrets.site.current, secrets.site.previous, secrets.docs.current])
    expect(seen).not.toContain(secret);
});
