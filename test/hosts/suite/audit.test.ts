/** The cost of the probe in the first audit of the day: one connection, and at most half the time of the rest again. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { disconnect, type Mode, sshWrapper } from "../ssh-wrapper.ts";
import type { World } from "../world.ts";

const ssh = sshWrapper();
let host: Host;
let world: World;

beforeAll(async () => {
  const deployed = await deployedWorld("audit", { path: [ssh.folder], starts: true });
  world = deployed;
  [host] = deployed.hosts;
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

/** Seconds of a clean preview without a connection to reuse. */
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

test("a cold audit takes at most a handshake and 1.5 times the program without its probe", async () => {
  // The modes alternate, so that other load slows both alike. The fastest run counts, because load only adds time.
  const seconds: Record<"record" | "replay", number[]> = { record: [], replay: [] };
  for (const mode of ["record", "replay", "record", "replay", "record", "replay"] as const)
    seconds[mode].push(await audit(mode));
  const handshakes = [await handshake(), await handshake(), await handshake()];
  const figures = (name: string, of: number[]) => `${name} ${of.map((one) => one.toFixed(2)).join(" ")}`;
  console.log(
    [
      figures("audit", seconds.record),
      figures("without its probe", seconds.replay),
      figures("handshake", handshakes),
    ].join(", "),
    "s",
  );
  expect(Math.min(...seconds.record)).toBeLessThanOrEqual(1.5 * Math.min(...seconds.replay) + Math.min(...handshakes));
});
