/**
 * Interleaved rounds: in each, every server has each kind of request once, so that all meet the same neighbours. All
 * servers are started anew every few rounds: what V8 compiles differs from one start of the same program to the next, and
 * its rate by a tenth with it.
 */
import { bodies, type Kind, kinds, requests } from "./deliveries.ts";
import { type Load, load } from "./load.ts";
import type { Running } from "./servers.ts";

export type Row = Omit<Load, "statuses"> & {
  /** Microseconds of the server's CPU for a request, without those of programs that it starts. */
  readonly cpu: number;
  /** The server's rate by that of the first server in the same round: the mean over the starts of their medians. */
  readonly ratio: number;
};

export type Measured = {
  readonly name: string;
  readonly label: string;
  readonly rows: Readonly<Record<Kind, Row>>;
  /** MiB: the largest after a round. */
  readonly resident: number;
  /** Milliseconds until the server accepts a connection, the least of its starts. */
  readonly coldStart: number;
};

export const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

/** What each server may answer. The receiver's largest budget of rejections lasts a second here; then it answers 429. */
const allowed: Readonly<Record<Kind, readonly string[]>> = {
  accepted: ["202", "200"],
  ignored: ["200", "401"], // adnanh/webhook's rule does not distinguish another event from a wrong signature
  wrong: ["401", "429", "400", "500"], // octokit's middleware answers 400, adnanh/webhook 500
  malformed: ["401", "429", "400", "500"],
};

/** Milliseconds of a round with one server and one kind. */
const ms = 400;
/** Rounds after which all servers start anew. */
const roundsOfStart = 5;

type Sample = Load & { readonly answers: number; readonly cpu: number };

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

type Options = { readonly rounds: number; readonly say: (text: string) => void };

/** `begin` starts the servers, always in the same order. */
export async function measure(begin: () => Promise<Running[]>, { rounds, say }: Options) {
  const names = Object.keys(kinds) as Kind[];
  const all = Object.fromEntries(names.map((kind) => [kind, requests(kind)])) as Record<Kind, () => Buffer>;
  const samples = new Map<string, Sample[]>();
  const of = (name: string, kind: Kind) => {
    const key = `${name} ${kind}`;
    return samples.get(key) ?? samples.set(key, []).get(key)!;
  };
  const resident = new Map<string, number>();
  const coldStart = new Map<string, number>();
  let peers: Running["peer"][] = [];

  const round = async (running: readonly Running[], keep: boolean) => {
    for (const kind of names) {
      const most = kind === "accepted" ? bodies.accepted : Number.POSITIVE_INFINITY;
      for (const each of running) {
        const { name } = each.peer;
        const used = each.cpu();
        const done = await load({ dial: each.dial, connections: 16, ms, most }, all[kind]);
        const other = Object.keys(done.statuses).find((status) => !allowed[kind].includes(status));
        if (other !== undefined) throw new Error(`${name} answered ${other} to a request that is ${kind}`);
        const answers = sum(Object.values(done.statuses));
        if (keep) of(name, kind).push({ ...done, answers, cpu: each.cpu() - used });
        resident.set(name, Math.max(resident.get(name) ?? 0, each.resident()));
        each.empty();
      }
    }
  };

  for (let first = 0; first < rounds; first += roundsOfStart) {
    const running = await begin();
    try {
      peers = running.map(({ peer }) => peer);
      for (const { peer, coldStart: last } of running)
        coldStart.set(peer.name, Math.min(coldStart.get(peer.name) ?? last, last));
      // The first two rounds let the servers compile what they run.
      for (let number = first - 2; number < Math.min(rounds, first + roundsOfStart); number++) {
        say(number < first ? "warming up" : `round ${number + 1} of ${rounds}`);
        await round(number % 2 ? running : [...running].reverse(), number >= first);
      }
    } finally {
      for (const each of running) await each.stop();
    }
  }

  const row = (name: string, kind: Kind): Row => {
    const own = of(name, kind);
    const base = of(peers[0]!.name, kind);
    const ratios = own.map(({ rate }, round) => rate / base[round]!.rate);
    const starts = Array.from({ length: Math.ceil(rounds / roundsOfStart) }, (_, i) =>
      median(ratios.slice(i * roundsOfStart, (i + 1) * roundsOfStart)),
    );
    return {
      rate: median(own.map(({ rate }) => rate)),
      p50: median(own.map(({ p50 }) => p50)),
      p99: median(own.map(({ p99 }) => p99)),
      cpu: sum(own.map(({ cpu }) => cpu)) / sum(own.map(({ answers }) => answers)),
      ratio: sum(starts) / starts.length,
    };
  };
  return peers.map(
    ({ name, label }): Measured => ({
      name,
      label,
      rows: Object.fromEntries(names.map((kind) => [kind, row(name, kind)])) as Measured["rows"],
      resident: resident.get(name)!,
      coldStart: coldStart.get(name)!,
    }),
  );
}
