/** Measures time; no other test file runs at the same time. */
import { beforeAll, expect, test } from "vitest";
import { median } from "../../bench/measure.ts";
import { deployedRebuild } from "./deployed.ts";
import { front } from "./site.ts";
import { idle, published, runs, timersEnd } from "./status.ts";
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
  expect(Math.min(...own)).toBeLessThanOrEqual(3 * median(starts));
  await idle(host);
  const left = await host.read("ps -eo user:40,args | grep -E '^pushgate-(build|generator|report)' || :");
  expect(left).toBe("");
});

test("the builder publishes the newest of 200 pushes in a burst with one build at a time", async () => {
  await idle(host);
  const { milliseconds } = (await published(host, await rebuild.push({ "static/alone.txt": "1" }))).last!;
  await idle(host);
  const before = (await runs(host)).length;
  const { site } = rebuild.repositories;
  const commits: string[] = [];
  for (let i = 0; i < 200; i++)
    commits.push(site.prepare({ "layouts/index.html": front(`burst-${i}`) }, commits.at(-1) ?? site.head()!));
  const started = performance.now();
  const answers = await Promise.all(
    commits.map(async (commit, i) => {
      await new Promise((resolve) => setTimeout(resolve, i * 20));
      site.moveTo(commit);
      return (await rebuild.deliver(commit)).status;
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  console.log(`burst: 200 pushes and deliveries in ${seconds.toFixed(2)} s`);
  expect(answers.filter((status) => status !== 202)).toEqual([]);
  await published(host, commits.at(-1)!);
  await idle(host);
  expect((await rebuild.visit()).body).toContain("layout-burst-199");
  const after = (await runs(host)).slice(before);
  console.log(`burst: ${after.map(({ result }) => result).join(", ")}`);
  // A build that follows another takes about 0.3 s, and the first with its start of Node more; twice as many have room
  // for the computer's moods. One more begins at once, and one where a push came while the last one ran.
  const most = 2 + Math.ceil((2 * seconds * 1000) / milliseconds.total!);
  expect(most).toBeLessThan(100);
  expect(after.filter(({ result }) => result === "published").length).toBeLessThanOrEqual(most);
});
