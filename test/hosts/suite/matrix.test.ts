/**
 * The removal matrix. For each layer, from Cloudflare inward: the layer stops its attacks; after a named fault has
 * removed the layer, the same attacks reach the next one. Faults stay, so at the end every layer is open. The rehearsal
 * sends the same attacks, and repairs all of it with one `pulumi up`.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { summary } from "../attack-report.ts";
import { startAttackers } from "../attackers.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import { accepted, type Row, stages } from "../matrix.ts";

const { world, host } = await deployedWorld("matrix");
const { lab, close } = await startAttackers(host, world);
afterAll(close);

/** Sends all attacks at once, because a silence takes seconds. The spool must then hold only the accepted ones. */
async function send(rows: readonly Row[]) {
  const before = await world.spooled(host);
  const answers = rows.map(async (row) => [row, summary(await row.send(lab), world.edge)] as const);
  const seen = new Map(await Promise.all(answers));
  const taken = [...seen.values()].filter((answer) => answer === accepted).length;
  expect((await world.spooled(host)).length - before.length).toBe(taken);
  return seen;
}

const all = stages.flatMap(({ rows }) => rows);

beforeAll(async () => {
  // The zone challenges bots, as in the incident.
  await fault.bots("managed_challenge").make(world, host);
  await fault.noGuard.make(world, host);
});

test("with every layer as declared, each attack is stopped", async () => {
  const declared = await send(all);
  for (const row of all) expect.soft(declared.get(row), row.attack).toBe(row.declared);
  // pushgate's nft table caused the silences: its counter has one packet of each attack, and TCP's repeats.
  const counter = await host.read("nft list counter inet pushgate not_edge");
  const silences = all.filter((row) => row.declared === "silence" && row.reaches !== accepted).length;
  expect(Number(/packets (\d+)/.exec(counter)?.[1])).toBeGreaterThanOrEqual(silences);
});

describe.each(stages)("$layer, removed: $removal.says", ({ during, removal, rows }) => {
  test("the layer stops its attacks, which get past it after its removal", async () => {
    await during?.made.make(world, host);
    const active = await send(rows);
    await removal.make(world, host);
    const removed = await send(rows);
    await during?.undone(host).make(world, host);
    for (const row of rows) {
      expect.soft(active.get(row), row.attack).toBe(row.stopped ?? row.declared);
      expect.soft(removed.get(row), row.attack).toBe(row.reaches);
    }
  });
});
