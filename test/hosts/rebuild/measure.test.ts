/** Measures time; no other test file runs at the same time. */
import { beforeAll, expect, test } from "vitest";
import { deployedRebuild } from "./deployed.ts";
import { front } from "./site.ts";
import { idle, published, timersEnd } from "./status.ts";
import { shows } from "./world.ts";

const rebuild = await deployedRebuild("measure");
const { host } = rebuild;

beforeAll(async () => {
  // A build started by a timer would delay the measured one.
  await timersEnd(host);
});

// Measured: 2.0 starts of Node in a unit on Debian 12. One takes 0.11 s on two free cores; on busy ones the ratio grows, too,
// so the bound is three. git's time is that of the steps which wait for its commands.
test("the builder adds at most three starts of Node to git and Hugo between the 202 and the page, and ends", async () => {
  const own: number[] = [];
  const starts: number[] = [];
  for (let i = 0; i < 5; i++) {
    await idle(host);
    const from = performance.now();
    await host.inside("systemd-run --quiet --wait --collect /usr/bin/node -e 0");
    starts.push(performance.now() - from);
    const commit = rebuild.repositories.site.push({ "layouts/index.html": front(`latency-${i}`) });
    expect((await rebuild.deliver(commit)).status).toBe(202);
    const accepted = performance.now();
    await shows(rebuild, `layout-latency-${i}`);
    const whole = performance.now() - accepted;
    const { milliseconds } = (await published(host, commit)).last!;
    const { fetch, decide, checkout, build } = milliseconds as Record<string, number>;
    own.push(whole - fetch! - decide! - checkout! - build!);
    console.log(`latency: ${whole.toFixed(0)} ms: ${JSON.stringify(milliseconds)}`);
  }
  const text = (all: readonly number[]) => all.map((ms) => ms.toFixed(0)).join(", ");
  console.log(`latency beyond git and Hugo: ${text(own)} ms; starts of Node: ${text(starts)} ms`);
  // The fastest: what else this computer does adds to the others.
  const median = starts.toSorted((a, b) => a - b)[starts.length >> 1]!;
  expect(Math.min(...own)).toBeLessThanOrEqual(3 * median);
  await idle(host);
  const left = await host.read("ps -eo user:40,args | grep -E '^pushgate-(build|generator|report)' || :");
  expect(left).toBe("");
});
