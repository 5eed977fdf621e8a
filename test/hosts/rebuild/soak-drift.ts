/** Manual changes of a host with two published sites, of which one has a tool of its own (../drift.ts). */
import { harmless, type Round, repairs } from "../drift.ts";
import type { Host } from "../lab/host.ts";
import { releaseArchive } from "../lab/release-archives.ts";
import { zoneName } from "../world.ts";
import { bothIdle } from "./status.ts";
import { buildRebuild, mirror, mirrored, type Rebuild } from "./world.ts";

const hostname = `www.${zoneName}`;

export async function buildDrifting(host: Host): Promise<Rebuild> {
  const docs = { reconcileMinutes: 60 };
  const rebuild = await buildRebuild(host, { site: { ...docs, hostname, mirror }, docs });
  rebuild.configure("site", { tools: { sass: mirrored(rebuild, "sass", "1.89.2", releaseArchive("sass-1.89.2")) } });
  return rebuild;
}

export async function soakRound(rebuild: Rebuild, round: Round) {
  const { host, world } = rebuild;
  // A build that runs would restore the egress table.
  await bothIdle(host);
  return repairs(rebuild, round, () => Promise.all([world.deliver(), rebuild.visit(), world.visit(hostname)]));
}

export async function soakHarmless(rebuild: Rebuild) {
  await bothIdle(rebuild.host);
  for (const change of harmless) await rebuild.host.inside(change);
  const { code, stdout } = await rebuild.world.stack.preview("--expect-no-changes");
  if (code !== 0) throw new Error(`preview shows a change that is none:\n${stdout}`);
  return { changes: harmless.length };
}
