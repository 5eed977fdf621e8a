/** The receiver's metrics: what it counts itself, and what it finds in the spool and in each site's status.json. */
import { once } from "node:events";
import { join } from "node:path";
import type { ReceiverSettings } from "../receiver/settings.ts";
import { createAnswers } from "./answers.ts";
import { type Builds, readBuilds, results } from "./builds.ts";
import { exposition, type Metric, type Sample } from "./exposition.ts";
import { createMetricsServer } from "./server.ts";
import { waiting } from "./waiting.ts";

export function createMetrics({ spool, hooks }: Pick<ReceiverSettings, "spool" | "hooks">) {
  const answers = createAnswers(hooks.map(({ name }) => name));
  const collect = async () => {
    const [spooled, built] = await Promise.all([
      perHook(hooks, ({ name }) => waiting(join(spool, name))),
      perHook(hooks, ({ statusFile }) => (statusFile === undefined ? undefined : readBuilds(statusFile))),
    ]);
    return exposition([...answers.metrics(), ...ofSpool(spooled), ...ofBuilds(built)]);
  };
  return {
    count: answers.count,
    collect,
    /** Serves on each descriptor: listening sockets that systemd passed. */
    async serve(descriptors: readonly number[]): Promise<void> {
      const servers = descriptors.map((fd) => createMetricsServer(collect).listen({ fd }));
      await Promise.all(servers.map((server) => once(server, "listening")));
    },
  };
}

type Hook = ReceiverSettings["hooks"][number];
type PerHook<T> = readonly (readonly [hook: string, found: T])[];

/** What `find` returns for each hook, without hooks for which it returns nothing. */
async function perHook<T extends object>(
  hooks: readonly Hook[],
  find: (hook: Hook) => Promise<T | undefined> | undefined,
): Promise<PerHook<T>> {
  const found = await Promise.all(hooks.map(find));
  return hooks.flatMap(({ name }, i) => (found[i] === undefined ? [] : [[name, found[i] as T] as const]));
}

const ofSpool = (found: PerHook<{ files: number; oldest: number }>): Metric[] => [
  {
    name: "pushgate_spool_deliveries",
    type: "gauge",
    help: "Accepted deliveries that the builder has not taken yet.",
    samples: found.map(([hook, { files }]) => [{ hook }, files]),
  },
  {
    name: "pushgate_spool_oldest_seconds",
    type: "gauge",
    help: "Age of the oldest delivery that the builder has not taken yet; 0 without one.",
    samples: found.map(([hook, { oldest }]) => [{ hook }, oldest]),
  },
];

const ofBuilds = (found: PerHook<Builds>): Metric[] => [
  {
    name: "pushgate_builds_total",
    type: "counter",
    help: "Runs of the builder, by how they ended. The count goes on over restarts.",
    samples: found.flatMap(([hook, { runs }]) =>
      results.map((result): Sample => [{ hook, result: result.replace(" ", "_") }, runs[result] ?? 0]),
    ),
  },
  {
    name: "pushgate_build_failures",
    type: "gauge",
    help: "Runs that failed since the last good one; 0 while the site is up to date.",
    samples: found.map(([hook, { failing }]) => [{ hook }, failing?.attempts ?? 0]),
  },
  {
    name: "pushgate_last_success_timestamp_seconds",
    type: "gauge",
    help: "When a run last published a build or had nothing to publish.",
    samples: found.flatMap(([hook, { succeeded }]): Sample[] =>
      succeeded === null ? [] : [[{ hook }, Date.parse(succeeded) / 1000]],
    ),
  },
];
