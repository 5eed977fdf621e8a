/** The receiver with bodies of 5 MB, in the memory that its unit has. */
import { EventEmitter } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { receiverMemoryMiB } from "../../../service/limits.ts";
import { readBody } from "../../../service/receiver/body.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { example, secrets } from "../../fixtures.ts";
import { bundled, type Rewrite } from "../bundles.ts";
import { type Receiver, startReceiver } from "../receiver-process.ts";
import { hostileBodies } from "./hostile-bodies.ts";

/** MemoryMax= of the receiver's unit with a body of 5 MiB. */
const limit = 352;
test("the receiver's unit has 352 MiB", () => expect(receiverMemoryMiB(example.limits)).toBe(limit));

describe("with signed bodies of 5 MB", () => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-shallow-"));
  const whole: Rewrite = (file, text) =>
    file === "git-hosts/shallow-json.ts" ? "export const parseShallow = (body) => JSON.parse(body.toString());" : text;
  const bundles = { without: join(folder, "without.cjs"), with: join(folder, "with.cjs") };
  let receiver: Receiver | undefined;
  beforeAll(() => Promise.all([bundled("receiver", bundles.with), bundled("receiver", bundles.without, whole)]));
  afterAll(() => rmSync(folder, { recursive: true }));

  const peakMiB = ({ pid }: Receiver) =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1024;

  /** Sends two of the body, and a good delivery for another hook while they are handled. */
  async function beside(bundle: string, body: Buffer) {
    receiver = await startReceiver(bundle, example);
    const bad = [0, 1].map(() => receiver!.deliver(delivery({ body })));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const began = performance.now();
    const good = await receiver.deliver(delivery({ hook: "docs", secret: secrets.docs.current }));
    const milliseconds = performance.now() - began;
    const answers = (await Promise.all(bad)).map(({ status }) => status);
    const peak = peakMiB(receiver);
    await receiver.stop();
    return { good: good.status, milliseconds, answers, peak };
  }
  test.each(Object.entries(hostileBodies(5 << 20)))(
    "%s: the receiver stays at half its memory, and delays another hook's delivery less than 3 s",
    { timeout: 120_000 },
    async (_, body) => {
      const { good, milliseconds, answers, peak } = await beside(bundles.with, body);
      expect(good).toBe(202);
      for (const status of answers) expect([200, 202, 400]).toContain(status);
      expect(peak).toBeLessThan(limit / 2);
      expect(milliseconds).toBeLessThan(3_000);
    },
  );

  test("nested brackets would take more than the receiver's MemoryMax with JSON.parse of the whole body", {
    timeout: 180_000,
  }, async () => {
    receiver = await startReceiver(bundles.without, example);
    const body = hostileBodies(5 << 20)["nested brackets"]!;
    // On a busy computer a delivery may end in a time-out, and the two need not be parsed one right after the other, so
    // that V8 collects what the first took: an attacker would send more.
    for (let round = 0; round < 8 && peakMiB(receiver) <= limit; round++)
      await Promise.allSettled([0, 1].map(() => receiver!.deliver(delivery({ body }))));
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
