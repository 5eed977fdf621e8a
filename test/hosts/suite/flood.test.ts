/**
 * Attackers who share the git host's addresses and Cloudflare's: forged deliveries at full speed, and slow clients. Each
 * good delivery meanwhile is accepted, at most a second later than on a quiet host. Both the good deliveries and the
 * attackers have Cloudflare's addresses and the zone's client certificate, as only such connections reach nginx.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, expect, test } from "vitest";
import { type Change, delivery } from "../../fakes/deliveries.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import type { Flood } from "../flood.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { hostnameOf, originPort } from "../world.ts";

const program = fileURLToPath(new URL("../flood.ts", import.meta.url));
const source = actors.github.v4[0];
const accepted = "202 pushgate-receiver";

const { world, host } = await deployedWorld("flood");
const running: (() => Promise<unknown>)[] = [];

beforeAll(() => fault.noGuard.make(world, host));
afterEach(async () => {
  for (const stop of running.splice(0)) await stop();
});

const push = (change: Change = {}) =>
  delivery({ source, host: hostnameOf(host), headers: { "cf-connecting-ip": source }, ...change });

/**
 * Starts attackers whose deliveries have the signature of another secret; resolves when they have begun. `lines`: what the
 * process has printed.
 */
async function attack(change: Pick<Flood, "connections" | "sends"> & Partial<Flood>) {
  const { method, path, headers, body } = push({ secret: "another-secret-0123456789-abcdefghij" });
  const named = Object.entries({ host: hostnameOf(host), ...headers }).map((pair) => pair.join(": "));
  const head = [`${method} ${path} HTTP/1.1`, ...named].join("\r\n");
  const to = { host: host.address, port: originPort, from: actors.edge.v4, tls: world.client() };
  const flood: Flood = { ...to, head, body: body.toString("latin1"), ...change };
  const child = spawn("nice", ["-n", "19", process.execPath, program], { stdio: ["pipe", "pipe", "inherit"] });
  const lines: string[] = [];
  createInterface(child.stdout).on("line", (line) => lines.push(line));
  const end = once(child, "close");
  child.stdin.end(JSON.stringify(flood));
  running.push(() => {
    child.kill("SIGKILL");
    return end;
  });
  const over = () => child.exitCode !== null && child.stdout.readableEnded;
  await until("the attackers begin", () => over() || lines.includes("ready") || undefined);
  return { over, lines };
}

/** The status and the layer of a good delivery's answer, and its milliseconds. */
async function good() {
  const began = performance.now();
  const { status, servedBy, error } = await world.contact(host, actors.edge.v4[0], push(), world.client(), 15_000);
  return { answer: error ?? `${status} ${servedBy}`, ms: performance.now() - began };
}

/** Good deliveries in sequence until `over`: their median milliseconds, and the answers that were not 202. */
async function deliver(over: (sent: number) => boolean) {
  const all: Awaited<ReturnType<typeof good>>[] = [];
  for (; !over(all.length); await sleep(50)) all.push(await good());
  const sorted = all.map(({ ms }) => ms).sort((a, b) => a - b);
  const others = all.map(({ answer }) => answer).filter((answer) => answer !== accepted);
  return { count: all.length, median: sorted[sorted.length >> 1]!, longest: sorted.at(-1)!, others };
}

const quiet = () => deliver((sent) => sent === 30);

test("10,000 forged deliveries from GitHub's address delay a good one from it by less than 1 s, and none is rejected", async () => {
  const spooled = (await world.spooled(host)).length;
  const before = await quiet();
  const attackers = await attack({ connections: 64, sends: 10_000 });
  const during = await deliver(attackers.over);
  console.log({ before, during, answers: attackers.lines.at(-1) });
  expect([...before.others, ...during.others]).toEqual([]);
  expect(during.count).toBeGreaterThan(10);
  expect(during.longest - before.median).toBeLessThan(1_000);
  expect(await world.spooled(host)).toHaveLength(spooled + before.count + during.count);
  expect(await host.read(`ss -Htn sport = :${originPort} dst ${actors.stranger.v4[0]} | wc -l`)).toBe("0");
  const answers: Record<string, number> = JSON.parse(attackers.lines.at(-1)!);
  // The receiver has seen all of them, so nginx did not keep the flood away.
  expect(Object.keys(answers).sort()).toEqual(["401 pushgate-receiver", "429 pushgate-receiver"]);
  expect(Object.values(answers).reduce((sum, count) => sum + count)).toBe(10_000);
  await until("the journal counts all rejections, and has a line of each good delivery", async () => {
    const lines = (await host.read("journalctl --no-pager --output=cat --identifier=pushgate-receiver"))
      .split("\n")
      .map((line) => JSON.parse(line) as { status: number; reason: string });
    const reasons = (...statuses: number[]) =>
      lines.filter(({ status }) => statuses.includes(status)).map(({ reason }) => reason);
    const more = reasons(0).map((reason) => Number(/^(\d+) more requests were rejected/.exec(reason)?.[1]));
    const rejections = more.reduce((sum, count) => sum + count, reasons(401, 429).length);
    return (rejections === 10_000 && reasons(202).length === before.count + during.count) || undefined;
  });
}, 600_000);

test("500 slow clients, and 500 strangers at the origin port, delay a good delivery by less than 1 s", async () => {
  const spooled = (await world.spooled(host)).length;
  const before = await quiet();
  await attack({ connections: 250, sends: "a slow head" });
  await attack({ connections: 250, sends: "a slow body" });
  await attack({ connections: 100, sends: "a slow read" });
  await attack({ connections: 500, sends: "nothing", from: [actors.stranger.v4[0]] });
  await until(
    "nginx has 450 slow clients",
    async () => Number(await host.read(`ss -Htn state established sport = :${originPort} | wc -l`)) >= 450 || undefined,
    { timeout: 60_000 },
  );
  const during = await deliver((sent) => sent === 60);
  console.log({ before, during });
  expect([...before.others, ...during.others]).toEqual([]);
  expect(during.longest - before.median).toBeLessThan(1_000);
  expect(await world.spooled(host)).toHaveLength(spooled + before.count + during.count);
}, 300_000);
