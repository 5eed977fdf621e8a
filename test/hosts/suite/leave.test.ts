/**
 * `state: absent` restores host and zone, with neighbours on both, and loses no accepted delivery. The zone has rules
 * of other owners in each phase; docs/decisions/006 explains the order of the removal.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { phases } from "../../../infra/edge/zone/phase.ts";
import { paths } from "../../../infra/host/paths.ts";
import { inZone, type Run } from "../../engine/engine.ts";
import { idOf, type Rule, type Ruleset, withoutEmpty, type ZoneState } from "../../fakes/cloudflare/zone.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { type HostState, hostState } from "../host-state.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { addNeighbours } from "../lab/neighbours.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { type Answer, buildWorld, hostEntry, hostnameOf, type World } from "../world.ts";

const at = "2026-01-01T00:00:00Z";

/** A ruleset as the operator's dashboard would make it. */
function operators(phase: string, rules: readonly Partial<Rule>[]): Ruleset {
  const about = { name: "default", description: "", kind: "zone", version: "4", phase, last_updated: at };
  return {
    ...about,
    // The provider rejects an id that is not 32 hexadecimal digits.
    id: idOf(phase),
    rules: rules.map((rule, index) => {
      const id = idOf(phase, index);
      return { id, ref: id, version: "2", last_updated: at, enabled: true, ...rule } as Rule;
    }),
  };
}

function othersRules(zone: ZoneState): void {
  zone.rulesets.push(
    operators(phases.custom.phase, [
      { ref: "another_owner_first", action: "managed_challenge", expression: "(not ssl)", description: "old clients" },
      { action: "block", expression: '(http.host eq "old.example.org")', description: "for later", enabled: false },
      {
        action: "skip",
        expression: '(http.host eq "status.example.org")',
        action_parameters: { ruleset: "current" },
        logging: { enabled: true },
      },
    ]),
    operators(phases.origin.phase, [
      {
        action: "route",
        expression: '(http.host eq "git.example.org")',
        action_parameters: { origin: { port: 8444 } },
        enabled: false,
      },
    ]),
    operators(phases.config.phase, [
      { action: "set_config", expression: '(http.host eq "old.example.org")', action_parameters: { ssl: "flexible" } },
      {
        action: "set_config",
        expression: '(http.host eq "bic.example.org")',
        action_parameters: { bic: false },
        enabled: false,
        description: "was too strict",
      },
    ]),
  );
  zone.dns_records.push({
    ...{ id: "d".repeat(32), name: "shop.example.org", type: "A", content: "203.0.113.77", proxied: true, ttl: 1 },
  });
  zone.settings.ssl = "flexible";
}

/** The zone without the version and date of rulesets, which count every change; those of single rules remain. */
const comparable = (zone: ZoneState) => ({
  ...structuredClone(zone),
  rulesets: zone.rulesets
    .map(({ version: _, last_updated: __, rules, ...about }) => ({
      ...structuredClone(about),
      rules: withoutEmpty(structuredClone(rules)),
    }))
    .sort((a, b) => (a.phase < b.phase ? -1 : 1)),
});

let host: Host;
let world: World;
let before: { host: HostState; zone: ReturnType<typeof comparable> };
let leaving: Run;
/** Layers, in the order of the first `up`. */
let arrived: string[];
/** Answers with 202 to valid deliveries, since the first `up`. */
const accepted: Answer[] = [];
/** All other answers to valid deliveries, during the removal. */
const others: Answer[] = [];
/** Answers to a stranger with a valid signature who connects to the origin port. */
const strangers: Answer[] = [];
/** Answers to a stranger with a valid signature who sends to Cloudflare. */
const foreign: Answer[] = [];

async function deliver(): Promise<Answer> {
  const answer = await world.deliver();
  (answer.status === 202 ? accepted : others).push(answer);
  return answer;
}

beforeAll(async () => {
  host = await bootHost({ name: "leaver", release, variant: "packages" });
  await addNeighbours(host);
  world = await buildWorld([host], { zone: othersRules });
  before = { host: await hostState(host), zone: comparable(world.api.zone) };

  const adopt = join(world.stack.folder, "adopt.json");
  const resources = world.api.zone.rulesets.map(({ id, phase }) => ({
    type: "cloudflare:index/ruleset:Ruleset",
    name: Object.values(phases).find((one) => one.phase === phase)!.name,
    id: `zones/${world.api.zone.id}/${id}`,
  }));
  writeFileSync(adopt, JSON.stringify({ resources: inZone(resources, world.api.zone.name) }));
  const adopted = await world.stack.pulumi(
    ...["import", "--file", adopt, "--yes", "--skip-preview", "--generate-code=false", "--stack", "test"],
  );
  expect(adopted.code, adopted.stdout + adopted.stderr).toBe(0);
  const up = await world.stack.up();
  expect(up.code, up.stdout).toBe(0);
  arrived = up.steps
    .filter(({ type, name }) => type.endsWith("Command") && name.startsWith("leaver-") && !name.endsWith("-file"))
    .map(({ name }) => name.replace("leaver-", ""))
    // No hook has a site here: layers that were never on the host are not removed.
    .filter((layer) => !["builder-program", "reporter-program", "egress", "builder", "site"].includes(layer));
  expect(Object.keys((await hostState(host)).etc)).not.toEqual(Object.keys(before.host.etc));
  for (let i = 0; i < 3; i++) expect((await deliver()).status).toBe(202);

  world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  world.api.requests.length = 0;
  let going = true;
  const attack = delivery({ host: hostnameOf(host) });
  const poll = async () => {
    while (going) {
      await deliver();
      strangers.push(await world.contact(host, actors.stranger.v4[0], attack, undefined, 300));
      foreign.push(await world.deliver({ source: actors.stranger.v4[0] }));
    }
  };
  const polling = poll();
  leaving = await world.stack.up();
  going = false;
  await polling;
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

test("one up removes the layers in reverse order, then the DNS records, then Cloudflare's rules and certificates", () => {
  expect(leaving.code, leaving.stdout).toBe(0);
  const order = leaving.steps.map(({ op, name }) => `${op} ${name.replace(/^leaver-/, "")}`);
  expect(arrived).toEqual(expect.arrayContaining(["packages", "receiver", "proxy", "firewall", "guard"]));
  const updates = order.filter((step) => step.startsWith("update"));
  expect(updates.slice(0, -3)).toEqual(arrived.toReversed().map((layer) => `update ${layer}`));
  // Neither of these two depends on the other, so they run in parallel; the WAF's rules follow both.
  expect(updates.slice(-3, -1).sort()).toEqual(["update configuration rules", "update origin rules"]);
  expect(updates.at(-1)).toBe("update custom rules");
  const name = hostnameOf(host);
  const gone = order.filter((step) => step.startsWith("delete"));
  expect(gone[0]).toBe("delete leaver lock");
  expect(gone.slice(1, 3).sort()).toEqual([`delete ${name} A`, `delete ${name} AAAA`]);
  expect(gone.slice(3).sort()).toEqual(
    ["client certificate", `${name} client certificate`, `${name} origin certificate`, "receiver-program-file"].map(
      (what) => `delete ${what}`,
    ),
  );
});

test("during the removal no stranger reaches the receiver, and no other layer answers with a success", async () => {
  // Each silence takes 0.3 s of a removal, which a fast computer may end in two.
  expect(strangers.length).toBeGreaterThan(3);
  // Connections to the origin port meet the firewall's silence, then nginx's 400, then a closed port.
  expect(strangers.filter(({ status }) => status !== 0 && status !== 400)).toEqual([]);
  expect(foreign.length).toBeGreaterThan(3);
  expect(foreign.filter(({ servedBy }) => servedBy === "pushgate-receiver")).toEqual([]);
  // A git host does not send again after a 2xx.
  const told = others.filter(({ status, servedBy }) => status < 300 && status > 0 && servedBy !== "pushgate-receiver");
  expect(told).toEqual([]);
});

test("the host is as before the first up", async () => {
  const after = await hostState(host);
  expect(after.etc).toEqual(before.host.etc);
  expect(after.local).toEqual(before.host.local);
  for (const [command, output] of Object.entries(before.host.outputs))
    expect(after.outputs[command], command).toBe(output);
  // The spool of accepted deliveries remains, and the stamps that mark the host as removed.
  expect(before.host.named).toEqual([]);
  expect(after.named).toEqual([paths.state, paths.spool]);
  const stamps = await host.read(`find ${paths.state} -type f -printf '%P ' -exec cat {} \\;`);
  const left = stamps.split("\n").filter(Boolean);
  expect(left).toHaveLength(arrived.length);
  for (const stamp of left) expect(stamp).toMatch(/^stamps\/[a-z-]+ absent-[0-9a-f]{12}$/);
});

test("the zone is as before the first up, including ids, order and dates of other owners' rules", () => {
  expect(comparable(world.api.zone)).toEqual(before.zone);
});

test("up keeps accepted deliveries, prints their number, and makes them readable for root only", async () => {
  expect(await world.spooled(host)).toHaveLength(accepted.length);
  const said = leaving.diagnostics.map(({ message }) => message).join("\n");
  expect(said).toContain(`kept ${paths.spool}: ${accepted.length} accepted deliveries`);
  expect(await host.read(`find ${paths.spool} -perm /077 -o ! -user root -o ! -group root`)).toBe("");
});

test("the audit of a removed host is clean", async () => {
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});
