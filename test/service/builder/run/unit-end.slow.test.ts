/** The real program that is ended in the middle of a run, with its pauses. */
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { take } from "../../../../service/builder/run/markers.ts";
import { type Bench, bundledBuilder, onCopies, start } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";

let site: Bench;
onCopies(1, (copy) => {
  site = copy;
});

test("the program reports the end and the next one pauses; a push cuts the pause, and the program would run at once", async () => {
  const bundle = await bundledBuilder(site.folder);
  /** Ends three builders in the middle of a run, so that the next pauses for 20 s: long beside a start of Node. */
  const ended = async () => {
    for (let i = 0; i < 3; i++) await endedOnce();
  };
  const endedOnce = async () => {
    const env = { SERVICE_RESULT: "oom-kill", EXIT_CODE: "killed", EXIT_STATUS: "KILL" };
    const child = start(site, bundle, env, "ended");
    await once(child, "close");
    expect(child.exitCode).toBe(0);
  };
  site.repository.push(siteFiles(2));
  site.deliver();
  take(site.places);
  await ended();
  expect(site.status()).toMatchObject({ last: { result: "failed" }, failing: { attempts: 3 } });
  const next = start(site, bundle);
  await sleep(2_500);
  expect(site.page()).toContain(says(1));
  site.deliver();
  await once(next, "close");
  expect(site.page()).toContain(says(2));
  expect(site.status()).not.toHaveProperty("failing");

  site.tick();
  await ended();
  expect(existsSync(site.places.paused)).toBe(true);
  expect(readFileSync(site.places.paused, "utf8")).toContain(site.status().failing!.next);
  const from = performance.now();
  const hasty = await bundledBuilder(site.folder, ["build-pending.ts", "if (until)", "if (!until)"]);
  await once(start(site, hasty), "close");
  expect(performance.now() - from).toBeLessThan(15_000);
});
