/**
 * A random walk over one host with published sites: manual changes, harmless ones, changes of the configuration, applies
 * that break, an engine that is killed, two `up` at once. After each step `preview` exits with 7 if and only if a layer is
 * not as declared, and names it; deliveries and pages are served meanwhile, except what a manual change broke, until an
 * `up` that finishes. A seed repeats a walk.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { units } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { killEngine, locked, unlock } from "../../engine/killed-engine.ts";
import { random } from "../../fixtures.ts";
import { applyEnds, breakApplies, everyBreak, loosened, mendApplies } from "../broken-applies.ts";
import { harmless, rounds, unguarded } from "../drift.ts";
import { repeatWhile } from "../repeat-while.ts";
import type { Rebuild } from "./world.ts";

const mostSteps = 60; // of an apply

/** Those with files. */
const layers = "receiver egress builder routing proxy firewall guard client-ca origin-certificate".split(" ");

export async function walk({ host, world, visit }: Rebuild, steps: number, seed: number) {
  const next = random(seed);
  const below = (count: number) => Math.floor(next() * count);
  const pick = <T>(all: readonly T[]): T => all[below(all.length)]!;
  const { stack } = world;

  /** The layers that are not as declared, and whether one of the changes may have broken the service. */
  let due = new Set<string>();
  let broken = false;
  const counted: Record<string, number> = {};
  const count = (what: string, by = 1): void => {
    counted[what] = (counted[what] ?? 0) + by;
  };
  const layersOf = ({ steps }: Run): Set<string> =>
    new Set(
      steps.flatMap(({ op, name }) =>
        op === "update" && name.startsWith(`${host.name}-`) ? [name.slice(host.name.length + 1)] : [],
      ),
    );
  const ensure = (holds: boolean, what: string, run?: Run) => {
    if (!holds) throw new Error(`${what}; due: ${[...due]}\n${run ? `${run.stdout}\n${run.stderr}` : ""}`);
  };

  const served = async (): Promise<string> =>
    [await world.deliver(), await visit("/"), await visit("/", "docs")].map(({ status }) => status).join();
  /** Throws if an answer is another one, except before the first good one after a change that broke the service. */
  async function whileServed<T>(work: () => Promise<T>): Promise<T> {
    const { done, seen } = await repeatWhile(work, served, 50);
    count("answers", 3 * seen.length);
    const wrong = seen.findIndex(
      (answers, i) => answers !== "202,200,200" && (!broken || seen.slice(0, i).includes("202,200,200")),
    );
    ensure(wrong < 0, `deliveries and pages got ${seen[wrong]} at ${wrong} of ${seen.length}`);
    return done;
  }

  const said: string[] = [];

  async function change(): Promise<undefined> {
    const round = pick(rounds);
    const isWhole = round.mutations.some(([, change]) => change === ":");
    const mutations = isWhole ? round.mutations : [pick(round.mutations)];
    // What the guard of some of them repairs must not be due.
    const starts = mutations.some(([, change]) => change.includes(units.guard));
    const clear = [...mutations.map(([layer]) => layer), ...(starts ? ["egress", "firewall", "routing"] : [])];
    if (clear.some((layer) => layer !== "guard" && due.has(layer))) return;
    broken ||= round.breaks === true;
    said.push(...mutations.map((of) => of.join(": ")));
    for (const [layer, change] of [unguarded, ...mutations]) {
      due.add(layer);
      // One that needs another one first, or that an earlier step made.
      if ((await host.inside(change, { check: false })).code !== 0) return void (await up());
    }
  }
  async function configure(): Promise<undefined> {
    stack.configure({ "pushgate:limits": { bodyBytes: 200_000 + below(100_000), proxyBurst: 300 + below(1000) } });
    for (const layer of ["proxy", "receiver"]) due.add(layer);
  }
  /** Makes a change for an `up` that will not finish, on a host whose former state serves. */
  async function begin(): Promise<void> {
    if (due.size > 0) await up();
    if (next() < 0.3) return void (await configure());
    for (const layer of [pick(layers), pick(layers)]) {
      said.push(layer);
      await host.inside(loosened(layer));
      due.add(layer);
    }
  }

  const harmlessYet = [...harmless];
  /** Each returns the run that may not have finished. */
  const actions: Readonly<Record<string, readonly [weight: number, act: () => Promise<Run | undefined>]>> = {
    "manual change": [8, change],
    "harmless change": [
      3,
      async () => {
        // Each once: most do not work twice.
        const [harm = "true"] = harmlessYet.splice(below(harmlessYet.length), 1);
        said.push(harm);
        await host.inside(harm);
        return undefined;
      },
    ],
    configuration: [2, configure],
    "broken apply": [
      4,
      async () => {
        await begin();
        const how = pick(everyBreak);
        const step = 1 + below(mostSteps);
        said.push(`${how} at step ${step}`);
        await breakApplies(host, step, how);
        const run = await whileServed(() => stack.up());
        await mendApplies(host);
        return run;
      },
    ],
    "killed engine": [
      2,
      async () => {
        await begin();
        const seconds = next() * 10;
        said.push(`after ${seconds} s`);
        const kill = () => sleep(1000 * seconds).then(() => killEngine(stack));
        const [run, isKilled] = await whileServed(() => Promise.all([stack.up(), kill()]));
        await applyEnds(host);
        if (isKilled) await unlock(stack);
        return run;
      },
    ],
    "two ups": [
      1,
      async () => {
        await begin();
        const flags = ["--yes", "--skip-preview", "--non-interactive", "--stack", "test"];
        const runs = await whileServed(() => Promise.all([stack.up(), stack.pulumi("up", ...flags)]));
        const failed = runs.find(({ code }) => code !== 0);
        ensure(
          failed === undefined || locked.test(failed.stdout + failed.stderr),
          "an up fails beside another",
          failed,
        );
        return runs.find(({ code }) => code === 0);
      },
    ],
  };
  const weighted = Object.entries(actions).flatMap(([name, [weight]]) => Array<string>(weight).fill(name));

  async function up(): Promise<void> {
    const run = await whileServed(() => stack.up());
    count("ups");
    ensure(run.code === 0, "up failed", run);
    due.clear();
    broken = false;
  }
  for (let i = 1; i <= steps; i++) {
    said.length = 0;
    const name = pick(weighted);
    const began = performance.now();
    try {
      const run = await actions[name]![1]();
      const preview = await stack.preview("--expect-no-changes");
      const found = layersOf(preview);
      if (run !== undefined) {
        if (run.code === 0) due.clear();
        else count("runs that did not finish");
        for (const layer of found) ensure(due.has(layer), `an up left ${layer}`, preview);
        due = found;
      }
      ensure(preview.code === (due.size > 0 ? 7 : 0), `preview exits with ${preview.code}`, preview);
      for (const layer of due) ensure(found.has(layer), `preview does not name ${layer}`, preview);
      if (due.size > 0 && (broken || due.size > 4 || next() < 0.5)) await up();
      count("steps");
      count(name);
    } catch (error) {
      throw new Error(`step ${i}, ${name}, ${said.join("; ")}: ${(error as Error).message}`);
    }
    console.log(
      `walk: ${i}: ${name}: ${((performance.now() - began) / 1000).toFixed(1)} s: ${said.join("; ").replaceAll("\n", " ").slice(0, 120)}`,
    );
  }
  await up();
  const preview = await stack.preview("--expect-no-changes");
  ensure(preview.code === 0, "the walk did not converge", preview);
  return counted;
}
