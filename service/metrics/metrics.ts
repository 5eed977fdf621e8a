/** The receiver's metrics. No label is a sender's text, which would make a series for each sender. */
import { once } from "node:events";
import { lstatSync } from "node:fs";
import { join } from "node:path";
import type { ReceiverSettings } from "../receiver/settings.ts";
import { countWaiting, mostWaiting } from "../receiver/spool.ts";
import { tried } from "../tried.ts";
import { readBuilds, results } from "./builds.ts";
import { createMetricsServer } from "./server.ts";

/** The word of each status that is no 2xx. 499 and 0 are no HTTP statuses: the receiver's journal has them. */
const reasons: Readonly<Record<number, string>> = {
  0: "connections",
  400: "payload",
  401: "signature",
  404: "path",
  405: "method",
  408: "slow",
  413: "size",
  415: "content_type",
  429: "limit",
  431: "headers",
  499: "sender_left",
  500: "error",
  503: "spool",
};
const otherReason = "other";

const metrics = {
  deliveries_accepted_total: "Deliveries that the receiver spooled (202).",
  deliveries_ignored_total:
    "Signed deliveries that request no build, such as a ping or a push to another branch (200).",
  requests_rejected_total: "Requests that the receiver rejected. Without a hook: those to no hook.",
  spool_deliveries: "Accepted deliveries that the builder has not taken yet.",
  spool_oldest_seconds: "Age of the oldest delivery that the builder has not taken yet; 0 without one.",
  builds_total: "Runs of the builder, by how they ended. The count goes on over restarts.",
  build_failures: "Runs that failed since the last good one; 0 while the site is up to date.",
  last_success_timestamp_seconds: "When a run last published a build or had nothing to publish.",
};

type Sample = readonly [labels: Readonly<Record<string, string>>, value: number];
type Answered = { readonly hook: string | null; readonly status: number };

/** Prometheus' text format, version 0.0.4. https://prometheus.io/docs/instrumenting/exposition_formats */
function exposed([name, samples]: [string, readonly Sample[]]): string {
  if (samples.length === 0) return "";
  const type = name.endsWith("_total") ? "counter" : "gauge";
  const lines = samples.map(([labels, value]) => {
    const pairs = Object.entries(labels).map(([label, word]) => `${label}="${word}"`);
    return `pushgate_${name}{${pairs.join(",")}} ${value}\n`;
  });
  return `# HELP pushgate_${name} ${metrics[name as keyof typeof metrics]}\n# TYPE pushgate_${name} ${type}\n${lines.join("")}`;
}

export function createMetrics({ spool, hooks }: Pick<ReceiverSettings, "spool" | "hooks">) {
  const names = hooks.map(({ name }) => name);
  // All counts are there from the start, because a rate needs the 0 before the first. null: before the hook was known.
  const accepted = new Map<string | null, number>(names.map((hook) => [hook, 0]));
  const ignored = new Map(accepted);
  const words = [...Object.values(reasons), otherReason];
  const rejected = new Map([...names, null].map((hook) => [hook, new Map(words.map((word) => [word, 0]))]));

  const collect = () => {
    const found = hooks.map(({ name: hook, statusFile = "" }) => ({
      ...{ hook, built: readBuilds(statusFile), waits: waiting(join(spool, hook)) },
    }));
    const spooled = found.flatMap(({ hook, waits }) => (waits ? [{ labels: { hook }, ...waits }] : []));
    const builds = found.flatMap(({ hook, built }) => (built ? [{ labels: { hook }, ...built }] : []));
    const samples: Readonly<Record<keyof typeof metrics, readonly Sample[]>> = {
      deliveries_accepted_total: byHook(accepted),
      deliveries_ignored_total: byHook(ignored),
      requests_rejected_total: [...rejected].flatMap(([hook, counts]) =>
        [...counts].map(([reason, count]): Sample => [{ ...(hook !== null && { hook }), reason }, count]),
      ),
      spool_deliveries: spooled.map(({ labels, files }) => [labels, files]),
      spool_oldest_seconds: spooled.map(({ labels, oldest }) => [labels, oldest]),
      builds_total: builds.flatMap(({ labels, runs }) =>
        results.map((result): Sample => [{ ...labels, result: result.replace(" ", "_") }, runs[result] ?? 0]),
      ),
      build_failures: builds.map(({ labels, failing }) => [labels, failing?.attempts ?? 0]),
      last_success_timestamp_seconds: builds.flatMap(({ labels, succeeded }) =>
        succeeded === null ? [] : [[labels, Date.parse(succeeded) / 1000] as const],
      ),
    };
    return Object.entries(samples).map(exposed).join("");
  };

  return {
    count({ hook, status }: Answered): void {
      if (status === 202) add(accepted, hook);
      else if (status === 200) add(ignored, hook);
      else add(rejected.get(hook), reasons[status] ?? otherReason);
    },
    collect,
    async serve(descriptors: readonly number[]): Promise<void> {
      const servers = descriptors.map((fd) => createMetricsServer(collect).listen({ fd }));
      await Promise.all(servers.map((server) => once(server, "listening")));
    },
  };
}

/** Adds one to a count that exists; another key is no configured hook's. */
function add<K>(counts: Map<K, number> | undefined, key: K): void {
  if (counts?.has(key)) counts.set(key, (counts.get(key) ?? 0) + 1);
}

const byHook = (counts: ReadonlyMap<string | null, number>): Sample[] =>
  [...counts].map(([hook, count]) => [{ hook: `${hook}` }, count]);

/** `oldest`: seconds, 0 where none waits. undefined where it cannot be read. 10,000 files take 40 ms. */
const waiting = (folder: string): { files: number; oldest: number } | undefined =>
  tried(() => {
    let files = 0;
    let first = Number.POSITIVE_INFINITY;
    countWaiting(folder, mostWaiting, ({ name }) => {
      if (name.startsWith(".")) return;
      // Now where the builder took the file meanwhile.
      first = Math.min(first, lstatSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
      files += 1;
    });
    return { files, oldest: Math.max(0, (Date.now() - first) / 1000) };
  });
