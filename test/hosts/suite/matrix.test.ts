/**
 * The removal matrix. For each layer, from Cloudflare inward: the layer stops its attacks; after a named fault has
 * removed the layer, the same attacks reach the next one. Faults stay, so at the end every layer is open; then one
 * `pulumi up` repairs host and zone in place, and each attack gets the same answer as in the beginning.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import type { Rule } from "../../fakes/cloudflare/zone.ts";
import type { Change } from "../../fakes/deliveries.ts";
import { attacks, type RejectingLayer } from "../../scenarios.ts";
import { addOtherSite, answers, logged, summary } from "../attack-report.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import { otherPeoplesCertificates, startImpostor } from "../impostor.ts";
import { until } from "../lab/process.ts";
import {
  accepted,
  blocked,
  impostors,
  type Lab,
  notAllowed,
  places,
  type Row,
  receiverPort,
  stages,
} from "../matrix.ts";
import { type Answer, hostnameOf, originPort } from "../world.ts";

const { challenged } = answers;

let lab: Lab;
const closing: (() => void)[] = [];
/** The answer to every attack right after the first `up`. */
let declared: ReadonlyMap<Row, string>;
/** The rules of layer 2, as the program declared them. */
let declaredRules: Rule[];

/** Sends all attacks at once, because a silence takes seconds. The spool must then hold only the accepted ones. */
async function send(rows: readonly Row[]): Promise<Map<Row, string>> {
  const before = await lab.world.spooled(lab.host);
  const answers = rows.map(async (row) => [row, summary(await row.send(lab), lab.world.edge)] as const);
  const seen = new Map(await Promise.all(answers));
  const taken = [...seen.values()].filter((answer) => answer === accepted).length;
  expect((await lab.world.spooled(lab.host)).length - before.length).toBe(taken);
  return seen;
}

/** Texts that preview must print about the faults on the host. */
const inPreview = [
  "receiver.cjs is: differs",
  "open.conf is not declared and will be removed",
  'counter name "not_edge" drop',
  "pushgate-guard.timer is: declared is",
  "-     ssl_verify_client off;",
  "-     real_ip_header X-Forwarded-For;",
];
const all = stages.flatMap(({ rows }) => rows);

beforeAll(async () => {
  const world = await deployedWorld("matrix");
  const [host] = world.hosts;
  lab = { host, world, certificates: await otherPeoplesCertificates() };
  // The zone challenges bots, as in the incident.
  await fault.bots("managed_challenge").make(world, host);
  await addOtherSite(host, receiverPort);
  await fault.noGuard.make(world, host);
  // Cloudflare trusts the authority of the second impostor's certificate, but the certificate is for another name.
  const stolen = await world.api.authority.issue("example.net", ["example.net"]);
  closing.push(await startImpostor(impostors.A, originPort, await lab.certificates.selfMade(hostnameOf(host))));
  closing.push(await startImpostor(impostors.AAAA, originPort, stolen));
  declaredRules = world.api.zone.rulesets.find(({ phase }) => phase === "http_request_firewall_custom")!.rules;
  declared = await send(all);
});

afterAll(async () => {
  for (const close of closing) close();
  await lab?.world.close();
  await lab?.host.kill();
});

test("with every layer as declared, each attack is stopped", async () => {
  for (const row of all) expect.soft(declared.get(row), row.attack).toBe(row.declared);
  // pushgate's nft table caused the silences: its counter has one packet of each attack, and TCP's repeats.
  const counter = await lab.host.read("nft list counter inet pushgate not_edge");
  const silences = all.filter((row) => row.declared === "silence" && row.reaches !== accepted).length;
  expect(Number(/packets (\d+)/.exec(counter)?.[1])).toBeGreaterThanOrEqual(silences);
});

const notFound = { proxy: "404 proxy: not found", receiver: "404 receiver: Not Found" } as const;

/**
 * The layer that rejects each spelling, as declared and with every layer open. Cloudflare's rules and nginx's locations
 * read a normalised path, so some spellings reach the receiver, which compares the bytes of the request line.
 */
const spellings: Readonly<Record<string, readonly [declared: string, open: string]>> = {
  "//webhook//site": [notFound.receiver, notFound.receiver],
  "/%77ebhook/site": [notFound.receiver, notFound.receiver],
  "/WEBHOOK/site": [blocked, notFound.proxy],
  "/webhook%2Fsite": [blocked, notFound.receiver],
  "/webhook/./site": [notFound.receiver, notFound.receiver],
  "/webhook/site/": [blocked, notFound.proxy],
  "/webhook/site;a": [blocked, notFound.proxy],
  "/webhook/site?": [notFound.receiver, notFound.receiver],
  "/webhook/site?a=1": [blocked, notFound.receiver],
  "/webhook\\site": [notFound.proxy, notFound.proxy],
  "/x/../webhook/site": [notFound.receiver, notFound.receiver],
};

/** Sends deliveries that are valid except for the path. */
async function spelled(): Promise<Record<string, string>> {
  const before = await lab.world.spooled(lab.host);
  const answers = Object.keys(spellings).map(async (path) => {
    return [path, summary(await lab.world.deliver({ path }), lab.world.edge)] as const;
  });
  const seen = Object.fromEntries(await Promise.all(answers));
  expect(await lab.world.spooled(lab.host)).toEqual(before);
  return seen;
}
const spelledAs = (which: 0 | 1) =>
  Object.fromEntries(Object.entries(spellings).map(([path, answers]) => [path, answers[which]]));

test("no layer accepts another spelling of the hook's path", async () => {
  expect(await spelled()).toEqual(spelledAs(0));
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

/** Extra tests before a layer's rows, with the layers before it open. */
const before: Partial<Record<RejectingLayer, () => void>> = {
  "3 bot management": () => {
    test("without the declared rules the git host gets a 403 and no log has a line; with them it gets 202", async () => {
      const { world, host } = lab;
      const rules = "http_request_firewall_custom";
      const ruleset = world.api.zone.rulesets.find(({ phase }) => phase === rules)!;
      expect(ruleset.rules).toEqual([]);
      /** Sends one delivery with the declared rules; resolves when its line is in both logs. */
      const withRules = async (id: string) => {
        ruleset.rules = declaredRules;
        expect(summary(await world.deliver({ headers: { "x-github-delivery": id } }), world.edge)).toBe(accepted);
        ruleset.rules = [];
        return until(`the lines of ${id}`, async () => {
          const lines = await logged(host);
          return lines.proxy.includes(id) && lines.receiver.includes(id) ? lines : undefined;
        });
      };
      await withRules("before");
      const incident = await world.deliver({ headers: { "x-github-delivery": "incident" } });
      expect(summary(incident, world.edge)).toBe(challenged);
      expect(incident.headers).toMatchObject({ server: "cloudflare", "cf-mitigated": "challenge" });
      const { proxy, receiver } = await withRules("after");
      // A log line of the incident would be between these two.
      expect(proxy.slice(-2)).toEqual(["before", "after"]);
      expect(receiver.slice(-2)).toEqual(["before", "after"]);
    });
  },
  "7 systemd": () => {
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
  },
};

for (const { layer, during, removal, rows } of stages) {
  describe(`${layer}, removed: ${removal.says}`, () => {
    before[layer]?.();

    describe("the layer stops the attack, which gets past it after its removal", () => {
      let active: ReadonlyMap<Row, string>;
      let removed: ReadonlyMap<Row, string>;

      beforeAll(async () => {
        const { world, host } = lab;
        await during?.made.make(world, host);
        active = await send(rows);
        await removal.make(world, host);
        removed = await send(rows);
        await during?.undone(host).make(world, host);
      });

      test.each(rows.map((row) => [row.attack, row] as const))("%s", (_, row) => {
        expect(active.get(row)).toBe(row.stopped ?? row.declared);
        expect(removed.get(row)).toBe(row.reaches);
      });
    });
  });
}

describe("every layer open", () => {
  test("no layer accepts another spelling of the hook's path", async () => {
    expect(await spelled()).toEqual(spelledAs(1));
  });

  test("preview reports each fault, and `up` repairs all of them in place", async () => {
    const { world, host } = lab;
    await fault.recordsAt(impostors).make(world, host);
    await fault.bots("managed_challenge").make(world, host);
    const onTheHost = ["firewall", "guard", "proxy", "receiver", "receiver-program", "receiver-program-file"];
    const name = hostnameOf(host);
    const faulty = [
      ...onTheHost.map((layer) => `${host.name}-${layer}`),
      ...["configuration rules", "custom rules", `${name} A`, `${name} AAAA`],
    ];
    const updates = ({ steps }: Run) => steps.map((step) => `${step.op} ${step.name}`).sort();

    const preview = await world.stack.preview("--expect-no-changes");
    expect(preview.code, preview.stdout).toBe(7);
    expect(updates(preview)).toEqual(faulty.map((one) => `update ${one}`).sort());
    const printed = preview.diagnostics.map(({ message }) => message).join("\n");
    for (const words of inPreview) expect(printed).toContain(words);

    const up = await world.stack.up();
    expect(up.code, up.stdout).toBe(0);
    expect(updates(up)).toEqual(updates(preview));
    const again = await world.stack.preview("--expect-no-changes");
    expect(again.code, again.stdout).toBe(0);
  });

  test("after up each attack and each delivery gets the same answer as in the beginning", async () => {
    const repaired = await send(all);
    for (const row of all) expect.soft(repaired.get(row), row.attack).toBe(row.declared);
    expect(await spelled()).toEqual(spelledAs(0));
    expect(await burst()).toEqual({ allowed: new Set([accepted]), denied: new Set([blocked]) });
  });
});
