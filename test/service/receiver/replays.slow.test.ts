/**
 * Duplicates and replays. The spool is all that the receiver remembers: one file for each hook and delivery id, which is
 * there until the builder takes it. So it is bounded, it survives a restart, and a redelivery after a failed build counts.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { delivery, pushPayload } from "../../fakes/deliveries.ts";
import { ActivatedReceiver } from "../activated-receiver.ts";

let receiver: ActivatedReceiver;
beforeEach(() => {
  receiver = new ActivatedReceiver();
});
afterEach(() => receiver.remove());

const waiting = () => readdirSync(join(receiver.spool, "site")).sort();
const id = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
const pushOf = (after: string, delivered = id) =>
  delivery({ payload: { ...pushPayload(), after }, headers: { "x-github-delivery": delivered } });
const [older, newer] = ["a".repeat(40), "b".repeat(40)];
const status = async (sent = pushOf(older)) => (await receiver.send(sent)).status;

describe("the same delivery", () => {
  test("twice while it waits is one spool entry, and both are answered with 202", async () => {
    await receiver.start();
    expect([await status(), await status()]).toEqual([202, 202]);
    expect(waiting()).toEqual([`${id}.json`]);
  });

  test("64 times at once is one whole spool entry", async () => {
    receiver.limits.concurrentPerSource = 64;
    await receiver.start();
    const answers = await Promise.all(Array.from({ length: 64 }, () => status()));
    expect(answers).toEqual(Array(64).fill(202));
    expect(waiting()).toEqual([`${id}.json`]);
    expect(JSON.parse(readFileSync(join(receiver.spool, "site", `${id}.json`), "utf8"))).toMatchObject({
      after: older,
    });
  });

  test("after the builder took it, as GitHub's Redeliver after a failed build, is accepted and waits again", async () => {
    await receiver.start();
    await status();
    receiver.take();
    expect(await status()).toBe(202);
    expect(waiting()).toEqual([`${id}.json`]);
  });

  test("before and after a restart is one spool entry", async () => {
    await receiver.start();
    await status();
    expect(await receiver.end()).toEqual([0, null]);
    await receiver.start();
    expect(await status()).toBe(202);
    expect(waiting()).toEqual([`${id}.json`]);
  });

  test("before and after a kill is one spool entry", async () => {
    await receiver.start();
    await status();
    await receiver.end("SIGKILL");
    await receiver.start();
    expect(await status()).toBe(202);
    expect(waiting()).toEqual([`${id}.json`]);
  });
});

test("1,000 replays of one delivery are one spool entry", async () => {
  await receiver.start();
  const sender = async () => {
    for (let i = 0; i < 100; i++) expect(await status()).toBe(202);
  };
  await Promise.all(Array.from({ length: 10 }, sender));
  expect(waiting()).toEqual([`${id}.json`]);
});

describe("replays under other ids, which no signature covers,", () => {
  /** As many as have come before. */
  const replayed = (count: number) => {
    mkdirSync(join(receiver.spool, "site"), { recursive: true });
    for (let i = 0; i < count; i++) writeFileSync(join(receiver.spool, `site/replay-${i}.json`), "{}");
  };

  test("fill the spool to 10,000 entries and no further, also over a restart; then they are a 503", async () => {
    replayed(9_990);
    await receiver.start();
    const answers: number[] = [];
    for (let i = 0; i < 15; i++) answers.push(await status(pushOf(older, `other-${i}`)));
    expect(answers).toEqual([...Array(10).fill(202), ...Array(5).fill(503)]);
    await receiver.end();
    await receiver.start();
    expect(await status(pushOf(older, "after-the-restart"))).toBe(503);
    expect(waiting()).toHaveLength(10_000);
  });

  test("of a full spool keep a good push out only until the builder has taken them", async () => {
    replayed(10_000);
    await receiver.start();
    const push = pushOf(newer, "good");
    expect((await receiver.send(push)).headers).toMatchObject({ "retry-after": "30" });
    receiver.take();
    // The receiver counts a full folder again once a second.
    await expect.poll(() => status(push), { timeout: 10_000 }).toBe(202);
    expect(waiting()).toEqual(["good.json"]);
  });
});
