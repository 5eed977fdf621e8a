/** A bare machine, one `up`: every layer in order, a clean audit, a delivery through the whole chain, both families. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Run } from "../../pulumi/engine.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { release } from "../release.ts";
import { buildWorld, type World } from "../world.ts";

let host: Host;
let world: World;
let up: Run;

beforeAll(async () => {
  host = await bootHost({ name: "bare", release, variant: "bare" });
  world = await buildWorld([host]);
  up = await world.stack.up();
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

test("a bare machine: every layer is applied", () => {
  expect(up.code, up.stdout).toBe(0);
  expect(up.steps.filter(({ op }) => op !== "create")).toEqual([]);
});

test("the audit right after finds nothing, and another up runs nothing", async () => {
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  const applies = () => host.read("journalctl --no-pager -o cat -u pushgate-apply.service | grep -c Started");
  const before = await applies();
  const again = await world.stack.up();
  expect(again.code).toBe(0);
  expect(again.steps).toEqual([]);
  expect(await applies()).toBe(before);
});

test("a signed push from GitHub is accepted and lies in the spool once", async () => {
  const before = await world.spooled(host);
  const answer = await world.deliver();
  expect(answer).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect((await world.spooled(host)).length).toBe(before.length + 1);
});
