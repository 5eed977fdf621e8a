/**
 * Drift at Cloudflare: the whole program under the real engine, in a zone whose owner has rules in every phase and changes
 * them, too. Preview reports each difference, `up` repairs it, and no rule of the zone's owner is lost or altered. Each test
 * also runs alone.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { clientOf } from "../fakes/cloudflare/client.ts";
import { type DnsRecord, type Rule, type Ruleset, rulesOf } from "../fakes/cloudflare/zone.ts";
import { config, content, custom, foreignRules, origin } from "./foreign-rules.ts";
import { atCloudflare, hostsThatAre, itemsOf, type ProgramStack, programStack, succeeded } from "./program-stack.ts";

let w: ProgramStack;
let client: ReturnType<typeof clientOf>;
/** The owner's rules by phase, as before pushgate. A test that changes them changes them here. */
const owners: Record<string, ReturnType<typeof content>> = {};
let ids: string[];
/** A client certificate of the owner's. */
let another: string;
/** A phase that pushgate does not declare and never writes to. */
let rate: Ruleset;
/** A DNS record of the owner's. */
let website: DnsRecord;
const isPushgates = ({ ref }: Rule): boolean => ref.startsWith("pushgate_");
const rules = (phase: string) => rulesOf(w.api.zone, phase);
const pushgates = (phase: string) => rules(phase).filter(isPushgates);
const hostname = "hooks.example.org";
const records = () => w.api.zone.dns_records.filter(({ name }) => name === hostname);
const O = "Z/origin_tls_client_auth/hostnames";
/** pushgate's client certificate. */
const leaf = () => w.api.zone.origin_pulls.hostname_certificates.find(({ id }) => id !== another)!;
const isPresented = (cert_id: string) =>
  expect(w.api.zone.origin_pulls.hostnames).toMatchObject([{ hostname, cert_id, enabled: true }]);
const ownersAreUntouched = () => {
  for (const [phase, before] of Object.entries(owners))
    expect(content(rules(phase).filter((rule) => !isPushgates(rule)))).toStrictEqual(before);
  expect(rules("http_ratelimit")).toStrictEqual(rate.rules);
};
const isClean = async () => expect(atCloudflare(succeeded(await w.stack.preview()))).toEqual([]);

beforeAll(async () => {
  w = await programStack();
  client = clientOf(() => w.api);
  const record = { name: "www", type: "A", content: "203.0.113.80", proxied: true, comment: "the owner's" };
  website = await client.result("POST", "Z/dns_records", record);
  for (const [phase, list] of Object.entries(foreignRules)) {
    const body = { name: `their ${phase}`, kind: "zone", phase, description: "since 2019", rules: list };
    owners[phase] = content((await client.result<Ruleset>("POST", "Z/rulesets", body)).rules);
    expect(owners[phase]).toHaveLength(list.length);
  }
  const limit = { characteristics: ["ip.src"], period: 10, requests_per_period: 9, mitigation_timeout: 10 };
  const limited = [{ ref: "their_rate", action: "block", expression: "ssl", ratelimit: limit }];
  const made = { name: "default", kind: "zone", phase: "http_ratelimit", rules: limited };
  rate = structuredClone(await client.result<Ruleset>("POST", "Z/rulesets", made));
  const { certificate, key } = await w.api.authority.issue("another");
  another = (await client.result<{ id: string }>("POST", `${O}/certificates`, { certificate, private_key: key })).id;
  succeeded(await w.stack.pushgate("adopt", "--yes"));
  ownersAreUntouched();
  w.ssh.keyed();
  succeeded(await w.stack.up());
  ownersAreUntouched();
  ids = [custom, origin, config].flatMap((phase) => pushgates(phase).map(({ id }) => id));
});
afterAll(() => w?.close());

test("preview reports and up repairs inserted, edited, disabled and moved rules, a moved and a deleted record", async () => {
  const whole = [origin, config].map((phase) => content(rules(phase)));
  const { id } = w.api.zone.rulesets.find(({ phase }) => phase === custom)!;
  const slipped = { ref: "slipped_in", action: "managed_challenge", expression: "ssl", description: "just a moment" };
  const { rules: more } = await client.result<Ruleset>("PUT", `Z/rulesets/${id}`, {
    rules: [slipped, ...rules(custom)],
  });
  owners[custom] = [...content(more.slice(0, 1)), ...owners[custom]!];
  pushgates(origin)[0]!.action_parameters = { origin: { port: 443 } };
  pushgates(config)[0]!.enabled = false;
  rules(config).unshift(rules(config).pop()!);
  Object.assign(records().find(({ type }) => type === "A")!, { content: "198.51.100.99", proxied: false });
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
    ["configuration rules", "pushgate_strict_tls: enabled", "property", false, true],
    ["hooks.example.org A", "content", "update", "198.51.100.99", "203.0.113.10"],
    ["hooks.example.org A", "proxied", "update", false, true],
    ["hooks.example.org AAAA", "hooks.example.org AAAA", "create", null],
  ];
  expect(audit.code).toBe(7);
  for (const one of found) expect(drifts.map((drift) => drift.slice(0, one.length))).toContainEqual(one);

  succeeded(await w.stack.up());
  ownersAreUntouched();
  expect(rules(custom).map(({ ref }) => ref)).toEqual([
    ...["pushgate_delivery", "pushgate_rest"],
    ...owners[custom].map(({ ref }) => ref),
  ]);
  expect([origin, config].map((phase) => content(rules(phase)))).toEqual(whole);
  expect(whole.map((list) => list.at(-1)!.ref)).toEqual(["pushgate_origin_8443", "pushgate_strict_tls"]);
  expect(
    records()
      .map(({ type, content, proxied }) => [type, content, proxied])
      .sort(),
  ).toEqual([
    ["A", "203.0.113.10", true],
    ["AAAA", "2001:db8::10", true],
  ]);
  expect([custom, origin, config].flatMap((phase) => pushgates(phase).map((rule) => rule.id))).toEqual(ids);
});

test("preview reports and up makes again deleted certificates and a deleted phase", async () => {
  const { zone } = w.api;
  zone.origin_certificates = [];
  zone.origin_pulls.hostname_certificates = zone.origin_pulls.hostname_certificates.filter(({ id }) => id === another);
  zone.origin_pulls.hostnames = [];
  zone.rulesets = zone.rulesets.filter(({ phase }) => phase !== custom);
  owners[custom] = [];
  expect(atCloudflare(succeeded(await w.stack.preview()))).toEqual([
    "create client certificate",
    "create custom rules",
    "create hooks.example.org client certificate",
    "create hooks.example.org origin certificate",
  ]);
  succeeded(await w.stack.up());
  expect(rules(custom).map(({ ref }) => ref)).toEqual(["pushgate_delivery", "pushgate_rest"]);
  expect(zone.origin_certificates).toHaveLength(1);
  isPresented(leaf().id);
});

test("preview reports and up restores a client certificate that was removed, without a moment in between", async () => {
  const before = structuredClone(w.api.zone.origin_pulls.hostname_certificates);
  const { id } = leaf();
  await client.result("PUT", O, { config: [{ hostname, cert_id: id, enabled: null }] });
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
  isPresented(id);
  expect(w.api.zone.origin_pulls.hostname_certificates).toEqual(before);
  await isClean();
});

test("preview reports a client certificate that was deleted, and a new generation makes another, which the provider writes", async () => {
  const { id } = leaf();
  await client.result("DELETE", `${O}/certificates/${id}`);
  const preview = await w.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(7);
  expect(atCloudflare(preview)).toEqual([`update ${hostname} client certificate configs`]);
  expect(preview.stdout).toContain(`at Cloudflare is ${id}, deleted; declared is ${id}, on. Raise push`);
  const failed = await w.stack.up();
  expect(failed.code).toBe(1);
  expect(failed.stdout).toContain("raise pushgate:edge.generation by one");

  w.stack.configure({ "pushgate:edge": { plan: "pro", generation: 2 } });
  w.api.requests.length = 0;
  const up = succeeded(await w.stack.up());
  expect(up.stdout).not.toContain("declared is");
  isPresented(leaf().id);
  const associations = w.api.requests.filter(({ method, path }) => method === "PUT" && path.endsWith("/hostnames"));
  expect(associations).toHaveLength(1);
  await isClean();
});

test("state: absent removes pushgate's rules and keeps the owner's rulesets and their names, and destroy then changes nothing", async () => {
  w.stack.configure({ "pushgate:hosts": hostsThatAre("absent") });
  succeeded(await w.stack.up());
  ownersAreUntouched();
  expect([custom, origin, config].flatMap(pushgates)).toEqual([]);
  expect(w.api.zone).toMatchObject({ origin_certificates: [], settings: { ssl: "full" } });
  expect(w.api.zone.dns_records).toEqual([website]);
  expect(w.api.zone.origin_pulls).toMatchObject({ hostnames: [], hostname_certificates: [{ id: another }] });
  for (const { name, phase, description } of w.api.zone.rulesets)
    if (phase !== rate.phase) expect([name, description]).toEqual([`their ${phase}`, "since 2019"]);

  const whole = structuredClone(w.api.zone);
  succeeded(await w.stack.destroy());
  expect(w.api.zone).toStrictEqual(whole);
  expect(await w.stack.resources()).toEqual([]);
});
