/**
 * What protects the rules of the zone's owner: from destroy, and from a write while the owner saves a rule. The whole
 * program under the real engine. Each test continues where the one before it ended.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isWrite, type Seen } from "../fakes/cloudflare/api.ts";
import { type Rule, rulesOf } from "../fakes/cloudflare/zone.ts";
import { custom, origin } from "./foreign-rules.ts";
import { hostsThatAre, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let w: ProgramStack;
const refs = (phase: string) => rulesOf(w.api.zone, phase).map(({ ref }) => ref);
const writes = () => w.api.requests.filter(isWrite);
/** Saves a rule as the dashboard does: the ruleset gets a new version, and a read in progress the former one. */
function saves(phase: string, ref: string): void {
  const added = { ref, action: phase === origin ? "route" : "block", expression: "ssl", description: `${ref} by hand` };
  const rule = { ...added, id: ref.padEnd(32, "0"), enabled: true, version: "1", last_updated: "2026-01-01T00:00:00Z" };
  if (phase === origin) Object.assign(rule, { action_parameters: { origin: { port: 8080 } } });
  w.api.zone.rulesets = w.api.zone.rulesets.map((one) =>
    one.phase === phase
      ? { ...one, version: `${Number(one.version) + 1}`, rules: [...one.rules, rule as unknown as Rule] }
      : one,
  );
}

/** Calls `act` once, when the program reads this phase's ruleset. The check right before a write reads it by its id. */
function atRead(phase: string, act: () => void): void {
  w.api.requests.push = (seen: Seen) => {
    if (seen.path.endsWith(`/phases/${phase}/entrypoint`)) {
      w.api.requests.push = Array.prototype.push;
      act();
    }
    return Array.prototype.push.call(w.api.requests, seen);
  };
}

describe("in a zone that held only pushgate's rules at the first `up`", () => {
  beforeAll(async () => {
    w = await programStack();
    w.ssh.keyed();
    succeeded(await w.stack.up());
  });
  afterAll(() => w?.close());

  test("the engine refuses destroy before any request to Cloudflare, and prints how to leave", async () => {
    saves(custom, "office");
    const whole = structuredClone(w.api.zone);
    const held = (await w.stack.resources()).length;
    w.api.requests.length = 0;
    for (const flags of [[], ["--ignore-protect"], ["--exclude-protected"], ["--continue-on-error"]]) {
      const destroy = await w.stack.destroy(...flags);
      expect(destroy.code).not.toBe(0);
      expect(destroy.stdout).toContain("leave by `state: absent` on every host and `pulumi up`");
    }
    expect(w.api.requests).toEqual([]);
    expect(w.api.zone).toStrictEqual(whole);
    expect((await w.stack.resources()).length).toBe(held);
  });

  test("destroy --run-program deletes nothing and names the owner's rule", async () => {
    const whole = structuredClone(w.api.zone);
    w.api.requests.length = 0;
    const destroy = await w.stack.destroy("--run-program");
    expect(destroy.code).not.toBe(0);
    expect(destroy.stdout).toContain('the zone\'s own rules would be deleted, too: "office by hand"');
    expect(writes()).toEqual([]);
    expect(w.api.zone).toStrictEqual(whole);
  });

  test("without the hooks in the state, destroy deletes the owner's rule", async () => {
    const { rulesets, ...rest } = structuredClone(w.api.zone);
    const text = await w.stack.stateText();
    const importState = async (state: string) => {
      const file = join(w.folder, "state.json");
      writeFileSync(file, state);
      expect((await w.stack.pulumi("stack", "import", "--file", file, "--stack", "test")).code).toBe(0);
    };
    const state = JSON.parse(text) as { deployment: { resources: { resourceHooks?: object }[] } };
    for (const resource of state.deployment.resources) delete resource.resourceHooks;
    await importState(JSON.stringify(state));
    succeeded(await w.stack.destroy());
    expect(refs(custom)).toEqual([]);
    Object.assign(w.api.zone, { rulesets, ...rest });
    await importState(text);
  });

  test("up writes nothing if the owner saves a rule after the program read the zone, and the next up keeps the rule", async () => {
    rulesOf(w.api.zone, custom)[0]!.enabled = false;
    atRead(custom, () => saves(custom, "late"));
    w.api.requests.length = 0;
    const up = await w.stack.up();
    expect(up.code).not.toBe(0);
    expect(up.stdout).toContain(
      "the zone's own rules were changed during this run, and nothing was written. Run npx pulumi up again.",
    );
    expect(writes()).toEqual([]);
    expect(refs(custom)).toEqual(["pushgate_delivery", "pushgate_rest", "office", "late"]);
    succeeded(await w.stack.up());
    expect(refs(custom)).toEqual(["pushgate_delivery", "pushgate_rest", "office", "late"]);
    expect(rulesOf(w.api.zone, custom)[0]!.enabled).toBe(true);
  });

  test("state: absent deletes no ruleset in which the owner saves a rule meanwhile, and the next up keeps the rule", async () => {
    w.stack.configure({ "pushgate:hosts": hostsThatAre("absent") });
    atRead(origin, () => saves(origin, "last"));
    const up = await w.stack.up();
    expect(up.code).not.toBe(0);
    expect(up.stdout).toContain('the zone\'s own rules would be deleted, too: "last by hand"');
    expect(refs(origin)).toEqual(["pushgate_origin_8443", "last"]);
    succeeded(await w.stack.up());
    expect([refs(custom), refs(origin)]).toEqual([["office", "late"], ["last"]]);
    expect(w.api.zone.dns_records).toEqual([]);
  });
});
