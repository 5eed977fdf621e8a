/**
 * Interleaved rounds: in each, every server has each kind of request once, so that all meet the same neighbours. All
 * servers are started anew every few rounds: what V8 compiles differs from one start of the same program to the next, and
 * its rate by a tenth with it.
 */
import { bodies, type Kind, kinds, requests } from "./deliveries.ts";
import { load } from "./load.ts";
import type { Running } from "./servers.ts";

type Row = {
  /** Answers per second. */
  readonly rate: number;
  /** Microseconds of the server's CPU for a request, which neighbours on the computer change least. */
  readonly cpu: number;
  /** The server's rate by that of the first server in the same round: the mean over the starts of their medians. */
  readonly ratio: number;
};

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

  const row = (label: string, kind: Kind): Row => {
    const own = of(label, kind);
    const base = of(labels[0]!, kind);
    const ratios = own.map(({ rate }, round) => rate / base[round]!.rate);
    const starts = Array.from({ length: Math.ceil(rounds / roundsOfStart) }, (_, i) =>
      median(ratios.slice(i * roundsOfStart, (i + 1) * roundsOfStart)),
    );
    return {
      rate: median(own.map(({ rate }) => rate)),
      cpu: sum(own.map(({ cpu }) => cpu)) / sum(own.map(({ answers }) => answers)),
      ratio: sum(starts) / starts.length,
    };
  };
  const table = (title: string, more: readonly string[], cells: (label: string, i: number) => readonly string[]) =>
    [
      [title, ...names.map((kind) => kinds[kind]), ...more],
      ["-", ...names.map(() => "-:"), ...more.map(() => "-:")],
    ]
      .concat(labels.map((label, i) => [label, ...cells(label, i)]))
      .map((line) => `| ${line.join(" | ")} |`)
      .join("\n");
  const rates = table("requests per second, then ratios", ["resident"], (label, i) => [
    ...names.map((kind) => (i === 0 ? row(label, kind).rate.toFixed(0) : row(label, kind).ratio.toFixed(2))),
    `${resident.get(label)!.toFixed(0)} MiB`,
  ]);
  const cpu = table("µs of CPU per request", [], (label) => names.map((kind) => row(label, kind).cpu.toFixed(0)));
  return `${rounds} rounds.\n\n${rates}\n\n${cpu}`;
}
