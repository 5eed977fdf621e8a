/**
 * `state: absent` gives machine and zone back as they were, with neighbours on both, and loses no accepted delivery.
 * The zone has rules of its own in each phase; docs/decisions/006 says in which order things go.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { phases } from "../../../infra/edge/zone/phase.ts";
import { paths } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import type { Rule, Ruleset, ZoneState } from "../../fakes/cloudflare/zone.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { addNeighbours } from "../lab/neighbours.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { type Traces, traces } from "../traces.ts";
import { type Answer, buildWorld, hostEntry, hostnameOf, type World } from "../world.ts";

const at = "2026-01-01T00:00:00Z";

/** A ruleset as the operator's dashboard made it. */
function operators(phase: string, rules: readonly Partial<Rule>[]): Ruleset {
  const about = { name: "default", description: "", kind: "zone", version: "4", phase, last_updated: at };
  return {
    ...about,
    id: phase.padEnd(32, "0").slice(0, 32),
    rules: rules.map((rule, index) => {
      const id = `${phase}${index}`.padEnd(32, "f");
      return { id, ref: id, version: "2", last_updated: at, enabled: true, ...rule } as Rule;
    }),
  };
}

function othersRules(zone: ZoneState): void {
  zone.rulesets.push(
    operators(phases.custom.phase, [
      { ref: "ours_before_you", action: "managed_challenge", expression: "(not ssl)", description: "old clients" },
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

/** A ruleset's own count of its changes and its date go on; everything in it, rules' versions and dates too, is as it was. */
const comparable = (zone: ZoneState) => ({
  ...structuredClone(zone),
  rulesets: zone.rulesets
    .map(({ version: _, last_updated: __, ...content }) => structuredClone(content))
    .sort((a, b) => (a.phase < b.phase ? -1 : 1)),
});

let host: Host;
let world: World;
let before: { machine: Traces; zone: ReturnType<typeof comparable> };
let leaving: Run;
/** Layers, in the order they came. */
let arrived: string[];
/** Good deliveries that were answered 202, from the first up on; and all other answers to them while layers left. */
const accepted: Answer[] = [];
const meanwhile: Answer[] = [];
/** Valid signatures from a stranger: straight to the origin port, and through the edge. */
const strangers: Answer[] = [];
const foreign: Answer[] = [];

async function deliver(): Promise<Answer> {
  const answer = await world.deliver();
  (answer.status === 202 ? accepted : meanwhile).push(answer);
  return answer;
}

beforeAll(async () => {
  host = await bootHost({ name: "leaver", release, variant: "packages" });
  await addNeighbours(host);
  world = await buildWorld([host], { zone: othersRules });
  before = { machine: await traces(host), zone: comparable(world.api.zone) };

  const adopt = join(world.stack.folder, "adopt.json");
  const resources = world.api.zone.rulesets.map(({ id, phase }) => ({
    type: "cloudflare:index/ruleset:Ruleset",
    name: Object.values(phases).find((one) => one.phase === phase)!.name,
    id: `zones/${world.api.zone.id}/${id}`,
  }));
  writeFileSync(adopt, JSON.stringify({ resources }));
  const adopted = await world.stack.pulumi(
    ...["import", "--file", adopt, "--yes", "--skip-preview", "--generate-code=false", "--stack", "test"],
  );
  expect(adopted.code, adopted.stdout + adopted.stderr).toBe(0);
  const up = await world.stack.up();
  expect(up.code, up.stdout).toBe(0);
  arrived = up.steps
    .filter(({ type, name }) => type.endsWith("Command") && name.startsWith("leaver-") && !name.endsWith("-file"))
    .map(({ name }) => name.replace("leaver-", ""))
    // No hook has a site here: what was never on the machine has nothing to leave.
    .filter((layer) => !["builder-program", "egress", "builder", "site"].includes(layer));
  expect(Object.keys((await traces(host)).etc)).not.toEqual(Object.keys(before.machine.etc));
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

test("one up takes everything away, the last layer first, then the name, then what protected it", () => {
  expect(leaving.code, leaving.stdout).toBe(0);
  const order = leaving.steps.map(({ op, name }) => `${op} ${name.replace(/^leaver-/, "")}`);
  expect(arrived).toEqual(expect.arrayContaining(["packages", "receiver", "proxy", "firewall", "guard"]));
  const updates = order.filter((step) => step.startsWith("update"));
  expect(updates.slice(0, -3)).toEqual(arrived.toReversed().map((layer) => `update ${layer}`));
  // Side by side, as neither of the two rests on the other; who passes the edge comes after both.
  expect(updates.slice(-3, -1).sort()).toEqual(["update configuration rules", "update origin rules"]);
  expect(updates.at(-1)).toBe("update custom rules");
  const name = hostnameOf(host);
  const gone = order.filter((step) => step.startsWith("delete"));
  expect(gone.slice(0, 2).sort()).toEqual([`delete ${name} A`, `delete ${name} AAAA`]);
  expect(gone.slice(2).sort()).toEqual(
    ["client certificate", `${name} client certificate`, `${name} origin certificate`, "receiver-program-file"].map(
      (what) => `delete ${what}`,
    ),
  );
});

test("while layers left, nobody but the git host was let in, and no answer was a success that was none", async () => {
  expect(strangers.length).toBeGreaterThan(10);
  // Directly: the firewall's silence, then the proxy without a client certificate, then nobody.
  expect(strangers.filter(({ status }) => status !== 0 && status !== 400)).toEqual([]);
  expect(foreign.length).toBeGreaterThan(10);
  expect(foreign.filter(({ servedBy }) => servedBy === "pushgate-receiver")).toEqual([]);
  // A git host that is told 2xx does not send again.
  const told = meanwhile.filter(
    ({ status, servedBy }) => status < 300 && status > 0 && servedBy !== "pushgate-receiver",
  );
  expect(told).toEqual([]);
});

test("the machine is as it was", async () => {
  const after = await traces(host);
  expect(after.etc).toEqual(before.machine.etc);
  expect(after.local).toEqual(before.machine.local);
  for (const [command, says] of Object.entries(before.machine.says)) expect(after.says[command], command).toBe(says);
  // What is left on purpose: what was accepted, and what tells a machine that stayed clean from one that came back.
  expect(before.machine.named).toEqual([]);
  expect(after.named).toEqual([paths.state, paths.spool]);
  const stamps = await host.read(`find ${paths.state} -type f -printf '%P ' -exec cat {} \\;`);
  const left = stamps.split("\n").filter(Boolean);
  expect(left).toHaveLength(arrived.length);
  for (const stamp of left) expect(stamp).toMatch(/^stamps\/[a-z-]+ absent-[0-9a-f]{12}$/);
});

test("the zone is as it was, rules of its own with ids, order and dates", () => {
  expect(comparable(world.api.zone)).toEqual(before.zone);
});

test("what was accepted is kept, counted, and root's alone", async () => {
  expect(await world.spooled(host)).toHaveLength(accepted.length);
  const said = leaving.diagnostics.map(({ message }) => message).join("\n");
  expect(said).toContain(`kept ${paths.spool}: ${accepted.length} accepted deliveries`);
  expect(await host.read(`find ${paths.spool} -perm /077 -o ! -user root -o ! -group root`)).toBe("");
});

test("the audit of a machine that was left is clean", async () => {
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});
