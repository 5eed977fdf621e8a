/**
 * Drift at Cloudflare: the whole program under the real engine, in a zone that its owner changes too. Preview reports
 * each difference, `up` repairs it, and no rule of the zone's owner is lost or altered. Each test also runs alone.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientOf } from "../fakes/cloudflare/client.ts";
import { type Rule, type Ruleset, rulesOf, type ZoneState } from "../fakes/cloudflare/zone.ts";
import { patience } from "./engine.ts";
import { config, content, custom, foreignRules, origin } from "./foreign-rules.ts";
import { atCloudflare, hostsThatAre, itemsOf, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

const isPushgates = ({ ref }: Rule): boolean => ref.startsWith("pushgate_");

const record = (zone: ZoneState, type: string) => zone.dns_records.find((one) => one.type === type)!;

/** The zone without the fields that change with each certificate and each write. */
const shape = (zone: ZoneState) => ({
  ...structuredClone(zone),
  rulesets: zone.rulesets.map((one) => ({ phase: one.phase, name: one.name, rules: content(one.rules) })),
});

describe("in a zone whose owner has rules in every phase", { timeout: patience }, () => {
  let w: ProgramStack;
  let client: ReturnType<typeof clientOf>;
  /** The owner's rules by phase, as before pushgate. A test that adds one adds it here. */
  const owners: Record<string, ReturnType<typeof content>> = {};
  let ids: string[];
  /** A client certificate of the owner's. */
  let another: string;
  const rules = (phase: string) => rulesOf(w.api.zone, phase);
  const pushgates = (phase: string) => rules(phase).filter(isPushgates);
  const refs = (phase: string) => rules(phase).map(({ ref }) => ref);
  const hostname = "hooks.example.org";
  const O = "Z/origin_tls_client_auth/hostnames";
  const ownersAreUntouched = () => {
    for (const [phase, before] of Object.entries(owners))
      expect(content(rules(phase).filter((rule) => !isPushgates(rule)))).toStrictEqual(before);
    expect(rules("http_ratelimit")).toStrictEqual(rate.rules);
  };
  /** A phase that pushgate does not declare and never writes to. */
  let rate: Ruleset;

  beforeAll(async () => {
    w = await programStack({ edge: { plan: "pro" } });
    client = clientOf(() => w.api);
    for (const [phase, list] of Object.entries(foreignRules)) {
      const body = { name: `their ${phase}`, kind: "zone", phase, description: "since 2019", rules: list };
      owners[phase] = content((await client.result<Ruleset>("POST", "Z/rulesets", body)).rules);
      expect(owners[phase]).toHaveLength(3);
    }
    const characteristics = ["cf.colo.id", "ip.src"];
    const limit = { characteristics, period: 10, requests_per_period: 9, mitigation_timeout: 10 };
    const expression = 'http.request.uri.path eq "/login"';
    const limited = [{ ref: "their_rate", action: "block", expression, ratelimit: limit }];
    const made = { name: "default", kind: "zone", phase: "http_ratelimit", rules: limited };
    const leaf = await w.api.authority.issue("another");
    const upload = { certificate: leaf.certificate, private_key: leaf.key };
    another = (await client.result<{ id: string }>("POST", `${O}/certificates`, upload)).id;
    rate = structuredClone(await client.result<Ruleset>("POST", "Z/rulesets", made));
    succeeded(await w.stack.pushgate("adopt", "--yes"));
    ownersAreUntouched();
    w.ssh.keyed();
    succeeded(await w.stack.up());
    ids = [custom, origin, config].flatMap((phase) => pushgates(phase).map(({ id }) => id));
  }, patience);
  afterAll(() => w?.close());
  test("up after adopting places pushgate's rules where they decide, and keeps the owner's rules as they were", () => {
    ownersAreUntouched();
    expect(refs(custom).slice(0, 2)).toEqual(["pushgate_delivery", "pushgate_rest"]);
    expect(refs(origin).at(-1)).toBe("pushgate_origin_8443");
    expect(refs(config).at(-1)).toBe("pushgate_strict_tls");
    expect(w.api.zone.rulesets.map(({ name }) => name)).toContain(`their ${custom}`);
  });

  test("preview reports and up repairs inserted, edited, disabled and moved rules, a moved and a deleted record", async () => {
    const whole = shape(w.api.zone);
    const { id } = w.api.zone.rulesets.find(({ phase }) => phase === custom)!;
    const slipped = { ref: "slipped_in", action: "managed_challenge", expression: "ssl", description: "just a moment" };
    const { rules: more } = await client.result<Ruleset>("PUT", `Z/rulesets/${id}`, {
      rules: [slipped, ...rules(custom)],
    });
    owners[custom] = [...content(more.slice(0, 1)), ...owners[custom]!];
    pushgates(origin)[0]!.action_parameters = { origin: { port: 443 } };
    pushgates(config)[0]!.enabled = false;
    rules(config).unshift(rules(config).pop()!);
    Object.assign(record(w.api.zone, "A"), { content: "198.51.100.99", proxied: false });
    w.api.zone.dns_records = w.api.zone.dns_records.filter(({ type }) => type === "A");

    const preview = succeeded(await w.stack.preview());
    expect(preview.stdout).toContain(
      'origin rules: pushgate_origin_8443: actionParameters is {"origin":{"port":443}}, declared {"origin":{"port":8443}}',
    );
    expect(preview.stdout).toContain("configuration rules: pushgate_strict_tls: enabled is false, declared true");
    expect(preview.stdout).toContain("custom rules: the order is slipped_in, pushgate_delivery, pushgate_rest, ");
    expect(atCloudflare(preview)).toEqual([
      "create hooks.example.org AAAA",
      "update configuration rules rules",
      "update custom rules rules",
      "update hooks.example.org A content proxied",
      "update origin rules rules",
    ]);
    expect(rules(custom)[0]!.ref).toBe("slipped_in");
    const audit = await w.stack.pushgate("audit", "--json");
    const drifts = itemsOf(audit).flatMap(({ host, ...one }) => (host === null ? [Object.values(one)] : []));
    const order = expect.arrayContaining(["pushgate_rest"]);
    const found = [
      ["custom rules", "order", "order", order, order],
      ["origin rules", "pushgate_origin_8443: actionParameters", "property"],
      ["configuration rules", "pushgate_strict_tls: enabled", "property", false, true],
      ["hooks.example.org A", "content", "update", "198.51.100.99", "203.0.113.10"],
      ["hooks.example.org A", "proxied", "update", false, true],
      ["hooks.example.org AAAA", "hooks.example.org AAAA", "create", null],
    ];
    expect(audit.code).toBe(7);
    for (const one of found) expect(drifts.map((drift) => drift.slice(0, one.length))).toContainEqual(one);

    succeeded(await w.stack.up());
    ownersAreUntouched();
    expect(refs(custom)).toEqual(["pushgate_delivery", "pushgate_rest", ...owners[custom]!.map(({ ref }) => ref)]);
    const { rulesets, dns_records: dns } = shape(w.api.zone);
    for (const phase of [origin, config])
      expect(rulesets.find((one) => one.phase === phase)).toEqual(whole.rulesets.find((one) => one.phase === phase));
    expect(dns.map(({ type, content, proxied }) => [type, content, proxied]).sort()).toEqual([
      ["A", "203.0.113.10", true],
      ["AAAA", "2001:db8::10", true],
    ]);
    expect([custom, origin, config].flatMap((phase) => pushgates(phase).map((rule) => rule.id))).toEqual(ids);
  });

  const associated = (certId: string, enabled: boolean | null) =>
    client.result("PUT", O, { config: [{ hostname, cert_id: certId, enabled }] });
  test("preview reports and up restores a client certificate that was removed, without a moment in between", async () => {
    const before = structuredClone(w.api.zone.origin_pulls.hostname_certificates);
    const { id } = before.find((one) => one.id !== another)!;
    await associated(id, null);
    const preview = succeeded(await w.stack.preview());
    expect(atCloudflare(preview)).toEqual([`update ${hostname} client certificate configs`]);
    const says = `the client certificate of ${hostname} at Cloudflare is ${id}, deleted; declared is ${id}, on.`;
    expect(preview.stdout).toContain(says);

    w.api.requests.length = 0;
    const up = succeeded(await w.stack.up());
    expect(up.stdout).toContain(`Cloudflare presents client certificate ${id} for ${hostname} again`);
    const written = w.api.requests.filter(({ method }) => method !== "GET");
    // One write, which replaces the association: no moment is without a certificate.
    expect(written.map(({ method, path, body }) => ({ method, path, body }))).toEqual([
      {
        ...{ method: "PUT", path: `/zones/${w.api.zone.id}/origin_tls_client_auth/hostnames` },
        body: { config: [{ hostname, cert_id: id, enabled: true }] },
      },
    ]);
    expect(w.api.zone.origin_pulls.hostnames).toMatchObject([{ hostname, cert_id: id, enabled: true }]);
    expect(w.api.zone.origin_pulls.hostname_certificates).toEqual(before);
    expect(atCloudflare(succeeded(await w.stack.preview()))).toEqual([]);
  });

  test("preview reports a client certificate that was deleted, and a new generation makes another", async () => {
    const [leaf] = w.api.zone.origin_pulls.hostname_certificates.filter(({ id }) => id !== another);
    await client.result("DELETE", `${O}/certificates/${leaf!.id}`);
    const preview = await w.stack.preview("--expect-no-changes");
    expect(preview.code, preview.stdout).toBe(7);
    expect(atCloudflare(preview)).toEqual([`update ${hostname} client certificate configs`]);
    expect(preview.stdout).toContain(`at Cloudflare is ${leaf!.id}, deleted; declared is ${leaf!.id}, on. Raise push`);
    const up = await w.stack.up();
    expect(up.code).toBe(1);
    expect(up.stdout).toContain("raise pushgate:edge.generation by one");

    w.stack.configure({ "pushgate:edge": { plan: "pro", generation: 2 } });
    succeeded(await w.stack.up());
    const [fresh] = w.api.zone.origin_pulls.hostname_certificates.filter(({ id }) => id !== another);
    expect(w.api.zone.origin_pulls.hostnames).toMatchObject([{ cert_id: fresh!.id, enabled: true }]);
    expect(atCloudflare(succeeded(await w.stack.preview()))).toEqual([]);
  });

  test("a new generation and a manual change at once end with the new certificate, and its write is the provider's", async () => {
    const [former] = w.api.zone.origin_pulls.hostname_certificates.filter(({ id }) => id !== another);
    await associated(former!.id, false);
    w.stack.configure({ "pushgate:edge": { plan: "pro", generation: 3 } });
    w.api.requests.length = 0;
    const up = succeeded(await w.stack.up());
    expect(up.stdout).not.toContain("declared is");
    const [fresh] = w.api.zone.origin_pulls.hostname_certificates.filter(({ id }) => id !== another);
    expect(fresh!.id).not.toBe(former!.id);
    expect(w.api.zone.origin_pulls.hostnames).toMatchObject([{ cert_id: fresh!.id, enabled: true }]);
    const associations = w.api.requests.filter(({ method, path }) => method === "PUT" && path.endsWith("/hostnames"));
    expect(associations).toHaveLength(1);
    expect(atCloudflare(succeeded(await w.stack.preview()))).toEqual([]);
  });

  test("state: absent removes pushgate's rules and keeps the owner's rulesets and their names, and destroy then changes nothing", async () => {
    w.stack.configure({ "pushgate:hosts": hostsThatAre("absent") });
    succeeded(await w.stack.up());
    ownersAreUntouched();
    expect([custom, origin, config].flatMap(pushgates)).toEqual([]);
    expect(w.api.zone).toMatchObject({ dns_records: [], origin_certificates: [], settings: { ssl: "full" } });
    expect(w.api.zone.origin_pulls).toMatchObject({ hostnames: [], hostname_certificates: [{ id: another }] });
    for (const { name, phase, description } of w.api.zone.rulesets)
      if (phase !== rate.phase) expect([name, description]).toEqual([`their ${phase}`, "since 2019"]);

    const whole = structuredClone(w.api.zone);
    succeeded(await w.stack.destroy());
    expect(w.api.zone).toStrictEqual(whole);
    expect(await w.stack.resources()).toEqual([]);
  });
});

describe("in a zone whose owner has no rules", { timeout: patience }, () => {
  let w: ProgramStack;
  let before: ZoneState;
  beforeAll(async () => {
    w = await programStack({ edge: { plan: "free", botFightMode: "off" } });
    Object.assign(w.api.zone.bot_management, { fight_mode: true, is_robots_txt_managed: true });
    w.api.zone.dns_records.push({
      ...{ id: "1".repeat(32), name: "www.example.org", type: "A", content: "203.0.113.80", proxied: true, ttl: 1 },
      ...{ comment: "the owner's", tags: [], settings: {}, meta: {}, proxiable: true },
    });
    before = structuredClone(w.api.zone);
    w.ssh.keyed();
    succeeded(await w.stack.up());
  }, patience);
  afterAll(() => w?.close());
  test("preview reports and up repairs Bot Fight Mode, deleted certificates and a deleted phase", async () => {
    const { zone } = w.api;
    expect(zone.bot_management).toMatchObject({ fight_mode: false, is_robots_txt_managed: true });
    zone.bot_management.fight_mode = true;
    zone.origin_certificates = [];
    zone.origin_pulls.hostname_certificates = [];
    zone.origin_pulls.hostnames = [];
    zone.rulesets = zone.rulesets.filter(({ phase }) => phase !== custom);
    const preview = succeeded(await w.stack.preview());
    expect(preview.stdout).toContain("Bot Fight Mode: is on, declared off");
    expect(atCloudflare(preview)).toEqual([
      "create client certificate",
      "create custom rules",
      "create hooks.example.org client certificate",
      "create hooks.example.org origin certificate",
      "update Bot Fight Mode fightMode",
    ]);
    succeeded(await w.stack.up());
    expect(zone.bot_management.fight_mode).toBe(false);
    expect(rulesOf(zone, custom).map(({ ref }) => ref)).toEqual(["pushgate_delivery", "pushgate_rest"]);
    expect(zone.origin_certificates).toHaveLength(1);
    const [leaf] = zone.origin_pulls.hostname_certificates;
    expect(zone.origin_pulls.hostnames).toMatchObject([
      { hostname: "hooks.example.org", cert_id: leaf!.id, enabled: true },
    ]);
  });

  test("destroy leaves the zone as it was, except Bot Fight Mode, which the API cannot delete", async () => {
    // A present host's lock stops a destroy: hosts-leave.test.ts.
    w.stack.configure({ "pushgate:hosts": hostsThatAre("absent") });
    const destroy = succeeded(await w.stack.destroy("--run-program"));
    expect(atCloudflare(destroy).filter((step) => step.startsWith("delete "))).toHaveLength(9);
    const { bot_management: bots, ...rest } = w.api.zone;
    const { bot_management: were, ...as } = before;
    expect(rest).toStrictEqual(as);
    expect(bots).toEqual({ ...were, fight_mode: false });
    expect(await w.stack.resources()).toEqual([]);
  });
});
