/** An attack that is repeated with random numbers, and what shows that it won. */
import { random } from "../fixtures.ts";

export type Attack = {
  /** "<who> <does what>". */
  readonly name: string;
  /** Attacks once. Returns what the attacker got or stopped; undefined where nothing. `next`: from 0 up to 1. */
  readonly round: (next: () => number) => Promise<string | undefined>;
};

/** Repeats the attacks in turn, each at least once, and prints each win with the seed of its round. Returns the wins. */
export async function repeatAttacks(attacks: readonly Attack[], milliseconds: number, seed: number): Promise<number> {
  const until = performance.now() + milliseconds;
  let wins = 0;
  let turn = 0;
  for (; turn === 0 || performance.now() < until; turn++)
    for (const { name, round } of attacks) {
      const won = await round(random(seed + turn)).catch((error: Error) => `the round ended with: ${error.message}`);
      if (won === undefined) continue;
      wins += 1;
      console.error(`soak: ${name}, seed ${seed + turn}: won: ${won}`);
    }
  console.log(`soak: ${attacks.length} attacks, ${turn} rounds of each, ${wins} won`);
  return wins;
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
