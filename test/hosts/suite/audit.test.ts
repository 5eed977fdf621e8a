/** What a look at the machine costs the first audit of the day: one connection and one probe, and less than half as long again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { disconnect, type Mode, sshWrapper } from "../ssh-wrapper.ts";
import type { World } from "../world.ts";

const ssh = sshWrapper();
let host: Host;
let world: World;

beforeAll(async () => {
  const deployed = await deployedWorld("audit", { path: [ssh.folder] });
  world = deployed;
  [host] = deployed.hosts;
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

/** Seconds of a preview in sync, from a cold start: no connection is there to be reused. */
async function audit(mode: Mode): Promise<number> {
  await disconnect(host.alias);
  ssh.mode(mode);
  ssh.forget();
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  expect(ssh.calls()).toEqual([`root@${host.alias}`]);
  return preview.seconds;
}

async function handshake(): Promise<number> {
  const started = performance.now();
  await host.ssh("true");
  return (performance.now() - started) / 1000;
}

test("a cold audit takes at most half as long again as the program without its probe, and a handshake", async () => {
  // In turns, so that whatever else this machine does slows both alike; and the quickest counts, as that only ever adds.
  const seconds: Record<"record" | "replay", number[]> = { record: [], replay: [] };
  for (const mode of ["record", "replay", "record", "replay"] as const) seconds[mode].push(await audit(mode));
  const handshakes = [await handshake(), await handshake(), await handshake()];
  const told = (name: string, of: number[]) => `${name} ${of.map((one) => one.toFixed(2)).join(" ")}`;
  console.log(
    [told("audit", seconds.record), told("without its probe", seconds.replay), told("handshake", handshakes)].join(
      ", ",
    ),
    "s",
  );
  expect(Math.min(...seconds.record)).toBeLessThanOrEqual(1.5 * Math.min(...seconds.replay) + Math.min(...handshakes));
});
