/**
 * Interleaved rounds: in each, every server has each kind of request once, so that all meet the same neighbours. All
 * servers are started anew every few rounds: what V8 compiles differs from one start of the same program to the next, and
 * its rate by a tenth with it.
 */
import { bodies, type Kind, kinds, requests } from "./deliveries.ts";
import { load } from "./load.ts";
import type { Running } from "./servers.ts";

export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

/** What each server may answer. The receiver's largest budget of rejections lasts a second here; then it answers 429. */
const allowed: Readonly<Record<Kind, readonly string[]>> = {
  accepted: ["202"],
  ignored: ["200"],
  wrong: ["401", "429"],
  malformed: ["401", "429"],
};

/** Milliseconds of a round with one server and one kind. */
const ms = 400;
/** Rounds after which all servers start anew. */
const roundsOfStart = 5;

type Sample = { readonly rate: number; readonly answers: number; readonly cpu: number };

/** Returns two tables of Markdown. `begin` starts the servers, always in the same order. */
export async function measure(begin: () => Promise<Running[]>, rounds: number): Promise<string> {
  const names = Object.keys(kinds) as Kind[];
  const all = Object.fromEntries(names.map((kind) => [kind, requests(kind)])) as Record<Kind, () => Buffer>;
  const samples = new Map<string, Sample[]>();
  const of = (label: string, kind: Kind) => {
    const key = `${label} ${kind}`;
    return samples.get(key) ?? samples.set(key, []).get(key)!;
  };
  /** MiB: the largest after a round. */
  const resident = new Map<string, number>();
  let labels: string[] = [];

  const round = async (running: readonly Running[], keep: boolean) => {
    for (const kind of names) {
      const most = kind === "accepted" ? bodies.accepted : Number.POSITIVE_INFINITY;
      for (const each of running) {
        const used = each.cpu();
        const { rate, statuses } = await load({ port: each.port, connections: 16, ms, most }, all[kind]);
        const other = Object.keys(statuses).find((status) => !allowed[kind].includes(status));
        if (other !== undefined) throw new Error(`${each.label} answered ${other} to a request that is ${kind}`);
        const answers = sum(Object.values(statuses));
        if (keep) of(each.label, kind).push({ rate, answers, cpu: each.cpu() - used });
        resident.set(each.label, Math.max(resident.get(each.label) ?? 0, each.resident()));
        each.empty();
      }
    }
  };

  for (let first = 0; first < rounds; first += roundsOfStart) {
    const running = await begin();
    labels = running.map(({ label }) => label);
    try {
      // The first two rounds let the servers compile what they run.
      for (let number = first - 2; number < Math.min(first + roundsOfStart, rounds); number++) {
        console.error(number < first ? "bench: warming up" : `bench: round ${number + 1} of ${rounds}`);
        await round(number % 2 ? running : [...running].reverse(), number >= first);
      }
    } finally {
      for (const each of running) await each.stop();
    }
  }

  const table = (title: string, cell: (label: string, kind: Kind) => number | string) =>
    [
      [title, ...names.map((kind) => kinds[kind])],
      ["-", ...names.map(() => "-:")],
    ]
      .concat(labels.map((label) => [label, ...names.map((kind) => String(cell(label, kind)))]))
      .map((line) => `| ${line.join(" | ")} |`)
      .join("\n");
  // The later servers' rates by that of the first one in the same round.
  const rates = table("requests per second, then ratios", (label, kind) => {
    const own = of(label, kind).map(({ rate }) => rate);
    if (label === labels[0]) return Math.round(median(own));
    return median(own.map((rate, round) => rate / of(labels[0]!, kind)[round]!.rate)).toFixed(2);
  });
  // Neighbours on the computer change it least.
  const cpu = table("µs of CPU per request", (label, kind) => {
    const own = of(label, kind);
    return Math.round(sum(own.map(({ cpu }) => cpu)) / sum(own.map(({ answers }) => answers)));
  });
  const memory = labels.map((label) => `${label} ${Math.round(resident.get(label)!)} MiB`).join(", ");
  return `${rounds} rounds. Resident: ${memory}.\n\n${rates}\n\n${cpu}`;
}
