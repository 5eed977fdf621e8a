/** The receiver's process, killed in a stream of deliveries. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { delivery } from "../../fakes/deliveries.ts";
import { activatedReceiver } from "../activated-receiver.ts";

test("SIGKILL in a stream of deliveries leaves each accepted delivery in a whole spool file", async () => {
  const { receiver, send, spool, spooled } = await activatedReceiver();
  const accepted: string[] = [];
  const others: unknown[] = [];
  await send();
  const sender = async () => {
    for (let status = 202; status === 202; ) {
      const sent = delivery();
      status = (await send(sent).catch(({ code }) => ({ status: code }))).status;
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
