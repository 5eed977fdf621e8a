/**
 * The removal matrix. For each layer, from Cloudflare inward: the layer stops its attacks; after a named fault has
 * removed the layer, the same attacks reach the next one. Faults stay, so at the end every layer is open. The rehearsal
 * sends the same attacks, and repairs all of it with one `pulumi up`.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import type { Change } from "../../fakes/deliveries.ts";
import { attacks } from "../../scenarios.ts";
import { addOtherSite, summary } from "../attack-report.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import { otherPeoplesCertificates, startImpostor } from "../impostor.ts";
import { until } from "../lab/process.ts";
import * as matrix from "../matrix.ts";
import { type Answer, hostnameOf, originPort } from "../world.ts";

const { accepted, blocked, impostors, notAllowed, places, stages } = matrix;

const { world, host } = await deployedWorld("matrix");
const lab: matrix.Lab = { host, world, certificates: await otherPeoplesCertificates() };
const closing: (() => void)[] = [];

/** Sends all attacks at once, because a silence takes seconds. The spool must then hold only the accepted ones. */
async function send(rows: readonly matrix.Row[]) {
  const before = await lab.world.spooled(lab.host);
  const answers = rows.map(async (row) => [row, summary(await row.send(lab), lab.world.edge)] as const);
  const seen = new Map(await Promise.all(answers));
  const taken = [...seen.values()].filter((answer) => answer === accepted).length;
  expect((await lab.world.spooled(lab.host)).length - before.length).toBe(taken);
  return seen;
}

const all = stages.flatMap(({ rows }) => rows);

beforeAll(async () => {
  // The zone challenges bots, as in the incident.
  await fault.bots("managed_challenge").make(world, host);
  await addOtherSite(host, await matrix.receiverPort(host));
  await fault.noGuard.make(world, host);
  // Cloudflare trusts the authority of the second impostor's certificate, but the certificate is for another name.
  const stolen = await world.api.authority.issue("example.net", ["example.net"]);
  closing.push(await startImpostor(impostors.A, originPort, await lab.certificates.selfMade(hostnameOf(host))));
  closing.push(await startImpostor(impostors.AAAA, originPort, stolen));
});

afterAll(async () => {
  for (const close of closing) close();
});

test("with every layer as declared, each attack is stopped", async () => {
  const declared = await send(all);
  for (const row of all) expect.soft(declared.get(row), row.attack).toBe(row.declared);
  // pushgate's nft table caused the silences: its counter has one packet of each attack, and TCP's repeats.
  const counter = await lab.host.read("nft list counter inet pushgate not_edge");
  const silences = all.filter((row) => row.declared === "silence" && row.reaches !== accepted).length;
  expect(Number(/packets (\d+)/.exec(counter)?.[1])).toBeGreaterThanOrEqual(silences);
});

/**
 * The layer that rejects each spelling, as declared and with every layer open. Cloudflare's rules and nginx's locations
 * read a normalised path, so some spellings reach the receiver, which compares the bytes of the request line.
 */
const [byProxy, byReceiver] = ["404 proxy: not found", "404 receiver: Not Found"];
const spellings: readonly (readonly [path: string, declared: string, open: string])[] = [
  ["//webhook//site", byReceiver, byReceiver],
  ["/%77ebhook/site", byReceiver, byReceiver],
  ["/WEBHOOK/site", blocked, byProxy],
  ["/webhook%2Fsite", blocked, byReceiver],
  ["/webhook/site/", blocked, byProxy],
  ["/webhook/site?a=1", blocked, byReceiver],
  ["/webhook\\site", byProxy, byProxy],
  ["/x/../webhook/site", byReceiver, byReceiver],
];

/** Sends deliveries that are valid except for the path. */
async function spelled(): Promise<(readonly [string, string])[]> {
  const before = await lab.world.spooled(lab.host);
  const answers = spellings.map(
    async ([path]) => [path, summary(await lab.world.deliver({ path }), lab.world.edge)] as const,
  );
  const seen = await Promise.all(answers);
  expect(await lab.world.spooled(lab.host)).toEqual(before);
  return seen;
}

test("no layer accepts another spelling of the hook's path", async () => {
  expect(await spelled()).toEqual(spellings.map(([path, declared]) => [path, declared]));
});

/** Eight allowed deliveries at once, then eight denied ones. */
async function burst() {
  const [good, bad] = [{ source: places.github }, attacks["7 systemd"].change(places)];
  const before = await lab.world.spooled(lab.host);
  const turns = (change: Change) => Array.from({ length: 8 }, () => lab.world.deliver(change));
  const allowed = await Promise.all(turns(good));
  const denied = await Promise.all(turns(bad));
  const taken = [...allowed, ...denied].filter(({ status }) => status === 202).length;
  expect((await lab.world.spooled(lab.host)).length - before.length).toBe(taken);
  const words = (answers: readonly Answer[]) => new Set(answers.map((answer) => summary(answer, lab.world.edge)));
  return { allowed: words(allowed), denied: words(denied) };
}

function keptConnections(): void {
  test("a denied source gets in after an allowed one only if nginx keeps its connections open", async () => {
    const { world, host } = lab;
    expect(await burst()).toEqual({ allowed: new Set([accepted]), denied: new Set([notAllowed]) });
    const former = await host.readFile(paths.nginx);
    await fault.keptConnections.make(world, host);
    // Each of nginx's workers keeps its own connections, and the kernel chooses the worker: one burst may miss them.
    await until("a denied source gets in", async () => (await burst()).denied.has(accepted) || undefined);
    await host.writeFile(paths.nginx, former);
    await fault.reloadProxy(host);
    expect((await burst()).denied).toEqual(new Set([notAllowed]));
  });
}

describe.each(stages)("$layer, removed: $removal.says", ({ layer, during, removal, rows }) => {
  if (layer === "7 systemd") keptConnections();

  test("the layer stops its attacks, which get past it after its removal", async () => {
    const { world, host } = lab;
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

test("with every layer open, no layer accepts another spelling of the hook's path", async () => {
  expect(await spelled()).toEqual(spellings.map(([path, , open]) => [path, open]));
});
