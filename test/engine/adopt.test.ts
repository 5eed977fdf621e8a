/**
 * `npx pushgate adopt` under the real engine, against the fake Cloudflare: a zone that was used before pushgate, a state that
 * was lost, and an engine that is killed right after a write to Cloudflare, with what docs/operating.md says to type then.
 * Each test continues where the one before it ended. test/hosts/edge/state-lost.test.ts proves that no delivery is rejected
 * meanwhile; test/hosts/rebuild/walk.ts kills the engine while it changes a host.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, isWrite, type Seen } from "../fakes/cloudflare/api.ts";
import { clientOf } from "../fakes/cloudflare/client.ts";
import { emptyZone, type Ruleset } from "../fakes/cloudflare/zone.ts";
import type { Run, Workspace } from "./engine.ts";
import { content, custom } from "./foreign-rules.ts";
import { killEngine, locked, removeEmptyChecksum, unlock } from "./killed-engine.ts";
import { atCloudflare, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let all: ProgramStack;
let api: Api;
let stack: Workspace;

beforeAll(async () => {
  all = await programStack({ site: true, edge: { plan: "free", botFightMode: "off" } });
  ({ api, stack } = all);
  all.ssh.keyed();
});
afterAll(() => all?.close());

const textOf = ({ stdout, stderr }: Run): string => stdout + stderr;
const zonesOwn = () =>
  api.zone.rulesets.map(({ phase, rules }) => [
    phase,
    content(rules.filter(({ ref }) => !ref.startsWith("pushgate_"))),
  ]);

let before: ReturnType<typeof zonesOwn>;

test("adopt without --yes lists what exists and what is in the way, and changes nothing", async () => {
  const client = clientOf(() => api);
  const rules = [{ action: "block", expression: 'http.host eq "old.example.org"', description: "since 2019" }];
  const body = { name: "their rules", kind: "zone", phase: custom, rules };
  expect((await client.result<Ruleset>("POST", "Z/rulesets", body)).rules).toHaveLength(1);
  for (const content of ["198.51.100.7", "198.51.100.8", "2001:db8::10"]) {
    const type = content.includes(":") ? "AAAA" : "A";
    await client.result("POST", "Z/dns_records", { name: "hooks", type, content });
  }
  api.zone.bot_management.fight_mode = true;
  before = zonesOwn();
  const zone = structuredClone(api.zone);
  const ran = await stack.pushgate("adopt");
  expect(ran.code).toBe(1);
  const said = textOf(ran);
  expect(said).toContain(`custom rules: ruleset "their rules"\n    Ruleset zones/${zone.id}/`);
  expect(said).toContain(`hooks.example.org A: A record, 198.51.100.7\n    DnsRecord ${zone.id}/`);
  expect(said).toMatch(/also leads to 198\.51\.100\.8, which gets .* remove it/);
  expect(said).toContain("origin rules: does not exist");
  expect(said).toContain("Hosts need no adopting");
  expect(said).toMatch(
    /pushgate: Take these \d+ over\? .* Nothing was changed, as there is no terminal for an answer\. Add --yes\./,
  );
  expect(api.zone).toStrictEqual(zone);
  expect(await stack.resources()).toEqual([]);
});

test("adopt --yes imports it, up merges the rules, and the next preview is empty", async () => {
  const said = textOf(succeeded(await stack.pushgate("adopt", "--yes")));
  expect(said).toContain("4 adopted. Next: npx pulumi preview");
  // Import protects what it adopts, so destroy fails.
  const whole = structuredClone(api.zone);
  expect((await stack.destroy()).code).not.toBe(0);
  expect(api.zone).toStrictEqual(whole);
  expect(atCloudflare(succeeded(await stack.up()))).toEqual([
    "create client certificate",
    "create configuration rules",
    "create hooks.example.org client certificate",
    "create hooks.example.org origin certificate",
    "create origin rules",
    "create www.example.org A 203.0.113.10",
    "create www.example.org AAAA 2001:db8::10",
    "create www.example.org client certificate",
    "update Bot Fight Mode fightMode",
    "update custom rules rules",
    "update hooks.example.org A content proxied",
    "update hooks.example.org AAAA proxied",
  ]);
  expect(api.zone.bot_management.fight_mode).toBe(false);
  // As adopt says.
  api.zone.dns_records = api.zone.dns_records.filter(({ content }) => content !== "198.51.100.8");
  api.requests.length = 0;
  expect(atCloudflare(succeeded(await stack.preview()))).toEqual([]);
  // Without a change the preview sends no dry run.
  expect(api.requests.filter(({ method }) => method !== "GET")).toEqual([]);
  expect(zonesOwn().find(([phase]) => phase === custom)).toEqual(before.find(([phase]) => phase === custom));
  expect(api.zone.rulesets.find(({ phase }) => phase === custom)).toMatchObject({ name: "their rules" });
  expect(api.zone.dns_records.map(({ type, content }) => `${type} ${content}`).sort()).toEqual([
    ...["A 203.0.113.10", "A 203.0.113.10", "AAAA 2001:db8::10", "AAAA 2001:db8::10"],
  ]);
});

test("after the state was lost, adopt and up leave no second object, and the next preview is empty", async () => {
  const old = structuredClone(api.zone);
  stack = await all.again();
  const said = textOf(succeeded(await stack.pushgate("adopt", "--yes")));
  expect(said).toContain("12 adopted.");
  expect(said).toContain("its key was only in the lost state");
  api.requests.length = 0;
  const up = succeeded(await stack.up());
  expect(atCloudflare(up).filter((step) => step.startsWith("create "))).toEqual([]);
  // Records and rules stay. Objects with a key are made anew, and the former ones are deleted last.
  const writes = api.requests.filter(isWrite).map(({ method, path }) => `${method} ${path}`);
  expect(writes.filter((write) => /rulesets|dns_records/.test(write))).toEqual([]);
  expect(writes.slice(-2).every((write) => write.startsWith("DELETE "))).toBe(true);
  const { origin_certificates: origin, origin_pulls: pulls } = api.zone;
  expect(origin).toHaveLength(1);
  expect(pulls.hostname_certificates).toHaveLength(1);
  expect(pulls.hostname_certificates[0]!.id).not.toBe(old.origin_pulls.hostname_certificates[0]!.id);
  const pulled = { cert_id: pulls.hostname_certificates[0]!.id, enabled: true };
  expect(pulls.hostnames).toMatchObject([pulled, pulled]);
  expect(api.zone.rulesets).toStrictEqual(old.rulesets);
  expect(atCloudflare(succeeded(await stack.preview()))).toEqual([]);
});

/** Kills the engine when Cloudflare has got this many more writes. */
function killAt(write: number): void {
  let writes = 0;
  api.requests.push = (seen: Seen) => {
    if (isWrite(seen) && ++writes === write) {
      api.requests.push = Array.prototype.push;
      void killEngine(stack);
    }
    return Array.prototype.push.call(api.requests, seen);
  };
}

test("after kills of the engine cancel, adopt and up finish, and no object that is in use is there twice", async () => {
  Object.assign(api.zone, emptyZone("example.org", "free"));
  stack = await all.again();
  for (const write of [1, 3, 2]) {
    killAt(write);
    expect((await stack.up()).code).toBe(255);
    removeEmptyChecksum(stack);
    if (write === 1) expect((await stack.up()).stderr).toMatch(locked);
    await unlock(stack);
    succeeded(await stack.pushgate("adopt", "--yes"));
  }
  succeeded(await stack.up());
  const { rulesets, dns_records: records, origin_certificates: certificates, origin_pulls: pulls } = api.zone;
  expect([rulesets, records, certificates].map(({ length }) => length)).toEqual([3, 4, 1]);
  // One that a killed `up` made beside the one in its state is in no record: it stays, unused.
  expect(new Set(pulls.hostnames.map(({ cert_id }) => cert_id))).toEqual(
    new Set([pulls.hostname_certificates.at(-1)!.id]),
  );
  expect(atCloudflare(succeeded(await stack.preview()))).toEqual([]);
});
