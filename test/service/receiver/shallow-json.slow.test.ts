/** The receiver with bodies of 5 MB, in the memory that its unit has. */
import { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { receiverMemoryMiB } from "../../../service/limits.ts";
import { readBody } from "../../../service/receiver/body.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { example, secrets } from "../../fixtures.ts";
import { bundled, type Rewrite } from "../bundles.ts";
import { folder, onFolder } from "../own-folder.ts";
import { type Receiver, startReceiver } from "../receiver-process.ts";

/** MemoryMax= of the receiver's unit with a body of 5 MiB: 352. */
const limit = receiverMemoryMiB(example.limits);

/** Bodies of about `bytes` bytes, each a push to the branch main, that cost a JSON parser much memory or time. */
function hostileBodies(bytes: number): Record<string, Buffer> {
  const room = bytes - 100;
  const body = (inside: string) => Buffer.from(`{"ref":"refs/heads/main","x":${inside}}`);
  /** With each item as long as a late one. */
  const list = (item: (i: number) => string): string =>
    `[${Array.from({ length: Math.floor(room / (item(2_000_000).length + 1)) }, (_, i) => item(i)).join()}]`;
  const fields = list((i) => `"${i.toString(36)}":[]`).slice(1, -1);
  return {
    "nested brackets": body(`${"[".repeat(room / 2)}1${"]".repeat(room / 2)}`),
    "objects of different shapes": body(list((i) => `{"k${i.toString(36)}":1}`)),
    "fields of the first level": Buffer.from(`{${fields},"ref":"refs/heads/main"}`),
    "one long number": body("1".repeat(room)),
    "a long ref": Buffer.from(`{"ref":"refs/heads/${"x".repeat(room)}"}`),
  };
}

describe("with signed bodies of 5 MB", () => {
  onFolder();
  const whole: Rewrite = (file, text) =>
    file === "git-hosts/shallow-json.ts" ? "export const parseShallow = (body) => JSON.parse(body.toString());" : text;
  async function started(rewrite?: Rewrite): Promise<Receiver> {
    const bundle = join(folder, "receiver.cjs");
    await bundled("receiver", bundle, rewrite);
    return startReceiver(bundle, example);
  }

  const peakMiB = ({ pid }: Receiver) =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;

  /** Seconds of a core since its start: on a busy computer an answer takes longer than the work before it. */
  const worked = ({ pid }: Receiver) => {
    const [, user, system] = /(?:\S+ ){11}(\d+) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!)!;
    return (Number(user) + Number(system)) / 100;
  };

  test.each(Object.entries(hostileBodies(5 << 20)))(
    "%s: the receiver stays at half its memory, and delays another hook's delivery by less than 3 s of work",
    { timeout: 120_000 },
    async (_, body) => {
      const receiver = await started();
      const bad = [0, 1].map(() => receiver.deliver(delivery({ body })));
      await new Promise((resolve) => setTimeout(resolve, 5));
      const began = worked(receiver);
      const good = await receiver.deliver(delivery({ hook: "docs", secret: secrets.docs.current }));
      expect(worked(receiver) - began).toBeLessThan(3);
      expect(good.status).toBe(202);
      for (const { status } of await Promise.all(bad)) expect([200, 202, 400]).toContain(status);
      expect(peakMiB(receiver)).toBeLessThan(limit / 2);
      await receiver.stop();
    },
  );

  test("nested brackets would take more than the receiver's MemoryMax with JSON.parse of the whole body", {
    timeout: 180_000,
  }, async () => {
    const receiver = await started(whole);
    const body = hostileBodies(5 << 20)["nested brackets"]!;
    // On a busy computer a delivery may end in a time-out, and the two need not be parsed one right after the other, so
    // that V8 collects what the first took: an attacker would send more.
    for (let round = 0; round < 8 && peakMiB(receiver) <= limit; round++)
      await Promise.allSettled([0, 1].map(() => receiver.deliver(delivery({ body }))));
    expect(peakMiB(receiver)).toBeGreaterThan(limit);
    await receiver.stop();
  });
});

test("a body in chunks of one byte is held once, and as a list of chunks would take a hundred times its size", async () => {
  const bytes = 1 << 20;
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  /** MiB that are held: without a collection before it, the figure falls at any moment. */
  const heap = () => {
    collect();
    return process.memoryUsage().heapUsed / (1 << 20);
  };
  const chunk = (i: number) => Buffer.from([i & 0xff]);
  const before = heap();
  const req = new EventEmitter();
  const read = readBody(Object.assign(req, { headers: {} }) as unknown as IncomingMessage, bytes);
  for (let i = 0; i < bytes; i++) req.emit("data", chunk(i));
  req.emit("end");
  const body = (await read)!;
  expect([body.length, body[0], body[0x1234], body.at(-1)]).toEqual([bytes, 0, 0x34, 0xff]);
  const held = heap() - before;
  const list = Array.from({ length: bytes }, (_, i) => chunk(i));
  expect(heap() - before - held).toBeGreaterThan(held + 30);
  expect(list).toHaveLength(bytes);
});
