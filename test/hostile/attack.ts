/** An attack that is repeated with random numbers, and what shows that it won. */
import { random } from "../fixtures.ts";

export type Attack = {
  /** "<who> <does what>". */
  readonly name: string;
  /** Attacks once. Returns what the attacker got or stopped; undefined where nothing. `next`: from 0 up to 1. */
  readonly round: (next: () => number) => Promise<string | undefined>;
};

export type Outcome = { readonly name: string; rounds: number; wins: number };

/** Repeats the attacks in turn, each at least once, until the time is up. Prints each win with the seed of its round. */
export async function repeatAttacks(
  attacks: readonly Attack[],
  milliseconds: number,
  seed: number,
): Promise<Outcome[]> {
  const outcomes = attacks.map(({ name }): Outcome => ({ name, rounds: 0, wins: 0 }));
  const until = performance.now() + milliseconds;
  for (let turn = 0; turn === 0 || performance.now() < until; turn++)
    for (const [i, { name, round }] of attacks.entries()) {
      if (turn > 0 && performance.now() >= until) break;
      const won = await round(random(seed + turn)).catch((error: Error) => `the round ended with: ${error.message}`);
      outcomes[i]!.rounds += 1;
      if (won === undefined) continue;
      outcomes[i]!.wins += 1;
      console.error(`soak: ${name}, seed ${seed + turn}: won: ${won}`);
    }
  for (const { name, rounds, wins } of outcomes) console.log(`soak: ${name}: ${rounds} rounds, ${wins} won`);
  return outcomes;
}

/** One of these. */
export const pick = <T>(next: () => number, of: readonly T[]): T => of[Math.floor(next() * of.length)]!;

/** Perl for a member who exchanges pairs of paths by RENAME_EXCHANGE, as often as it can, for some seconds. */
export const exchanger = `use POSIX ();
my $number = {x86_64 => 316, aarch64 => 276}->{(POSIX::uname())[4]} or die "no number of renameat2";
my ($seconds, @pairs) = @ARGV;
my $end = time + $seconds;
while (time < $end) { for (my $i = 0; $i < @pairs; $i += 2) { syscall($number, -100, $pairs[$i], -100, $pairs[$i + 1], 2) } }
`;
