/** Interleaved rounds: in each, every server has each kind of request once, so that all meet the same neighbours. */
import { bodies, type Kind, kinds, requests } from "./deliveries.ts";
import { type Load, load } from "./load.ts";
import type { Running } from "./servers.ts";

export type Row = Omit<Load, "statuses"> & {
  /** Microseconds of the server's CPU for a request, without those of programs that it starts. */
  readonly cpu: number;
  /** The server's rate by that of the first server, in the same round. */
  readonly ratio: number;
};

export type Measured = {
  readonly name: string;
  readonly label: string;
  readonly rows: Readonly<Record<Kind, Row>>;
  /** MiB: the largest after a round. */
  readonly resident: number;
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

/** `ms`: of a round with one server and one kind. `say`: prints progress. `headers`: more of each request. */
export async function measure(
  running: readonly Running[],
  rounds: number,
  ms: number,
  say: (text: string) => void,
  headers: Readonly<Record<string, string>> = {},
) {
  const names = Object.keys(kinds) as Kind[];
  const all = Object.fromEntries(names.map((kind) => [kind, requests(kind, headers)])) as Record<Kind, () => Buffer>;
  const loads = new Map(running.map((each) => [each, { accepted: [], ignored: [], wrong: [], malformed: [] }]));
  const of = (each: Running) => loads.get(each) as unknown as Record<Kind, (Load & { cpu: number })[]>;
  const resident = new Map<Running, number>();

  // The first two rounds let the servers compile what they run.
  for (let round = -2; round < rounds; round++) {
    say(round < 0 ? "warming up" : `round ${round + 1} of ${rounds}`);
    for (const kind of names) {
      const most = kind === "accepted" ? bodies.accepted : Number.POSITIVE_INFINITY;
      for (const each of round % 2 ? running : [...running].reverse()) {
        const used = each.cpu();
        const done = await load({ dial: each.dial, connections: 16, ms, most }, all[kind]);
        const other = Object.keys(done.statuses).find((status) => !allowed[kind].includes(status));
        if (other !== undefined) throw new Error(`${each.peer.name} answered ${other} to a request that is ${kind}`);
        const answers = Object.values(done.statuses).reduce((sum, count) => sum + count, 0);
        if (round >= 0) of(each)[kind].push({ ...done, cpu: (each.cpu() - used) / answers });
        resident.set(each, Math.max(resident.get(each) ?? 0, each.resident()));
        each.empty();
      }
    }
  }

  const [base] = running;
  const row = (each: Running, kind: Kind): Row => {
    const own = of(each)[kind];
    return {
      rate: median(own.map(({ rate }) => rate)),
      p50: median(own.map(({ p50 }) => p50)),
      p99: median(own.map(({ p99 }) => p99)),
      cpu: median(own.map(({ cpu }) => cpu)),
      ratio: median(own.map(({ rate }, round) => rate / of(base!)[kind][round]!.rate)),
    };
  };
  return running.map(
    (each): Measured => ({
      name: each.peer.name,
      label: each.peer.label,
      rows: Object.fromEntries(names.map((kind) => [kind, row(each, kind)])) as Measured["rows"],
      resident: resident.get(each)!,
    }),
  );
}
