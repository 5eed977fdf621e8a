/** The receiver's process in a stream of deliveries that is restarted or killed, and on a disk that accepts no byte. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { delivery } from "../../fakes/deliveries.ts";
import { activatedReceiver } from "../activated-receiver.ts";
import { activated } from "../inherited.ts";

test("two restarts lose no delivery of a stream: the socket keeps them for the next receiver", async () => {
  // The outer shell keeps the socket as systemd does, and starts the next receiver when one has ended.
  const one = `sh -c 'echo $$ >&2; ${activated(1)}' sh "$@"`;
  const { receiver, send, spooled } = await activatedReceiver({ script: `${one}; ${one}; ${one}` });
  const pids = () => receiver.err.trim().split("\n").map(Number);
  const statuses: number[] = [];
  for (let i = 0; i < 60; i++) {
    if (i === 10 || i === 30) process.kill(pids().at(-1)!, "SIGTERM");
    statuses.push((await send()).status);
  }
  expect(pids()).toHaveLength(3);
  expect(statuses).toEqual(Array(60).fill(202));
  expect(spooled()).toHaveLength(60);
  process.kill(pids().at(-1)!, "SIGTERM");
});

test("SIGKILL in a stream of deliveries leaves each accepted delivery in a whole spool file", async () => {
  const { receiver, send, spool, spooled } = await activatedReceiver();
  const accepted: string[] = [];
  const others: unknown[] = [];
  await send();
  const sender = async () => {
    for (let status = 202; status === 202; ) {
      const sent = delivery();
      status = await send(sent).then(
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
  receiver.child.kill("SIGKILL");
  await stopped;
  // Connections that ended without an answer, or were not accepted.
  for (const other of others) expect([0, "ECONNREFUSED", "ECONNRESET", "EPIPE"]).toContain(other);
  const names = spooled().filter((name) => !name.startsWith("."));
  for (const name of names) {
    const { delivery, ref } = JSON.parse(readFileSync(join(spool, "site", name), "utf8"));
    expect([name, ref]).toEqual([`${delivery}.json`, "refs/heads/main"]);
  }
  expect(names).toEqual(expect.arrayContaining(accepted.map((id) => `${id}.json`)));
});

test("the receiver answers 503, leaves no file and continues where the disk accepts no byte", async () => {
  // With ulimit -f 0 the kernel fails each write with EFBIG, as a full disk does with ENOSPC.
  const script = `trap '' XFSZ; ulimit -f 0; ${activated(1)}`;
  const { send, spooled, journal } = await activatedReceiver({ script });
  const answer = await send();
  expect([answer.status, answer.headers["retry-after"], spooled()]).toEqual([503, "30", []]);
  await expect
    .poll(journal)
    .toEqual([expect.objectContaining({ status: 503, reason: expect.stringContaining("EFBIG") })]);
  expect((await send(delivery({ event: "ping" }))).status).toBe(200);
});
