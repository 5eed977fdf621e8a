/**
 * Duplicates and replays. The spool is all that the receiver remembers: one file for each hook and delivery id, which is
 * there until the builder takes it. So it is bounded, and it survives a restart.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { mostWaiting, openSpool } from "../../../service/receiver/spool.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { folder, type Running, receiver } from "./harness.ts";

let place: string;
let running: Running;
const start = async () => {
  running = await receiver({ spool: openSpool(place, ["site"]) });
};
beforeEach(() => {
  place = folder();
});
afterEach(async () => {
  await running.stop();
  rmSync(place, { recursive: true });
});

const waiting = () => readdirSync(join(place, "site"));
const status = async (id: string) => (await running.send(delivery({ headers: { "x-github-delivery": id } }))).status;

test("replays under other ids, which no signature covers, fill the spool to 10,000 entries, until the builder takes them", async () => {
  mkdirSync(join(place, "site"));
  for (let i = 0; i < mostWaiting - 5; i++) writeFileSync(join(place, `site/replay-${i}.json`), "{}");
  await start();
  const answers: number[] = [];
  for (let i = 0; i < 10; i++) answers.push(await status(`other-${i}`));
  expect(answers).toEqual([...Array(5).fill(202), ...Array(5).fill(503)]);
  await running.stop();
  await start();
  expect(await status("after-the-restart")).toBe(503);
  expect(waiting()).toHaveLength(10_000);
  for (const name of waiting()) rmSync(join(place, "site", name));
  // The receiver counts a full folder again once a second.
  await expect.poll(() => status("good"), { timeout: 10_000 }).toBe(202);
  expect(waiting()).toEqual(["good.json"]);
});
