/**
 * `npm run soak -- --hostile [--minutes N] [--seed S] [--release R]`: repeats attacks by senders, by members of groups and
 * by the site's owner, and counts those that won: first on the programs, then on a throwaway host, half of the
 * time each. Without root or the tools of `npm run test:rebuild` it says so and leaves the host out. Exit 1 if an attack
 * won. A new attack is one object in program-attacks.ts or host-attacks.ts.
 */
import { parseArgs } from "node:util";
import { labIsMissing, withLab } from "../hosts/lab/lab.ts";
import { isRelease } from "../hosts/ready.ts";
import { repeatAttacks } from "./attack.ts";
import { hostAttacks } from "./host-attacks.ts";
import { programAttacks } from "./program-attacks.ts";

const { values } = parseArgs({
  options: {
    hostile: { type: "boolean" },
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: "1" },
    release: { type: "string", default: "bookworm" },
  },
});
const { release } = values;
const minutes = Number(values.minutes);
const seed = Number(values.seed);
if (!(minutes > 0) || !Number.isInteger(seed) || !isRelease(release)) {
  console.error(
    "soak: use a number above 0 for --minutes, a whole number for --seed, bookworm or trixie for --release",
  );
  process.exit(2);
}

async function repeat({ attacks, close }: Awaited<ReturnType<typeof programAttacks>>): Promise<number> {
  const wins = await repeatAttacks(attacks, minutes * 30_000, seed);
  await close();
  return wins;
}

// withLab starts this program again inside the lab: there only the host's half runs.
const inLab = process.env.PUSHGATE_LAB !== undefined;
if (!inLab) {
  console.log(`soak: seed ${seed}, ${minutes} minutes`);
  if ((await repeat(await programAttacks())) > 0) process.exit(1);
}
const missing = labIsMissing();
if (missing !== undefined) console.log(`soak: no attacks on a host: ${missing}`);
else
  await withLab({ releases: [release] }, async () => {
    process.exitCode = (await repeat(await hostAttacks(release))) > 0 ? 1 : 0;
  });
process.exit();
