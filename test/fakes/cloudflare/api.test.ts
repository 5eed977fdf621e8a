/**
 * The fake API rejects what the real one rejects. Tokens, permissions and quotas are in test/infra/edge/zone, expressions
 * in expression.test.ts.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import type { Plan } from "../../../infra/config/settings.ts";
import { type Api, startApi } from "./api.ts";
import { createAuthority } from "./authority.ts";
import { clientOf } from "./client.ts";
import { type DnsRecord, emptyZone } from "./zone.ts";

const authority = await createAuthority("test CA");
const api: Api = await startApi({ zone: emptyZone("example.org", "free"), authority });
const { ask, result, refused } = clientOf(() => api);
beforeEach(() => void Object.assign(api.zone, emptyZone("example.org", "free")));
afterAll(async () => {
  await api.close();
  await authority.close();
});

const rule = (ref: string, more: object = {}) => ({
  ...{ ref, action: "block", expression: 'http.host eq "a.example.org"' },
  ...more,
});
const firewall = "http_request_firewall_custom";
const ofPhase = (phase: string, rules: object[]) => ({ name: "default", kind: "zone", phase, rules });
const custom = (...rules: object[]) => ofPhase(firewall, rules);
const pulls = "Z/origin_tls_client_auth/hostnames";

describe("rulesets", () => {
  test("a second ruleset in a phase is rejected, an empty first one too", async () => {
    await ask("POST", "Z/rulesets", custom());
    expect(await refused("POST", "Z/rulesets", custom(rule("a")))).toBe(
      "400 20217 'zone' is not a valid value for kind because exceeded maximum number of zone rulesets for phase http_request_firewall_custom",
    );
  });
  const only = (change: object, phase = firewall): [string, object[]] => [phase, [rule("a", change)]];
  const skip = (parameters?: object) => only({ action: "skip", action_parameters: parameters });
  const route = (parameters: object) => only({ action: "route", action_parameters: parameters }, "http_request_origin");
  const set = (parameters: object) =>
    only({ action: "set_config", action_parameters: parameters }, "http_config_settings");
  test.each<[Plan, RegExp, readonly [string, object[]]]>([
    ["free", /^400 20003 .* value for phase$/, only({}, "http_request_sanitize")],
    ["enterprise", /^400 20127 .*a Bot Management plan/, only({ expression: "cf.bot_management.score lt 30" })],
    ["business", /Enterprise plan is required/, only({ action: "log" })],
    ["free", /not unique/, [firewall, [rule("a"), rule("a")]]],
    ["free", /unknown field "expresion"/, only({ expresion: "x" })],
    ["free", /description is too long/, only({ description: "x".repeat(501) })],
    ["free", /nothing to skip/, skip()],
    ["free", /'BIC' is not a valid value for products/, skip({ products: ["BIC"] })],
    ["free", /not a valid value for port/, route({ origin: { port: 0 } })],
    ["free", /'host' is not a valid value for a route's/, route({ origin: { host: "x.example.net", port: 1 } })],
    ["free", /not a valid value for ssl/, set({ ssl: "very" })],
  ])("on %s: %s", async (plan, says, [phase, rules]) => {
    api.zone.plan = plan;
    expect(await refused("POST", "Z/rulesets", ofPhase(phase, rules))).toMatch(says);
  });
});

test("DNS: relative names become whole, and what cannot be is rejected", async () => {
  const record = { name: "hooks", type: "A", content: "203.0.113.10", proxied: true, ttl: 300 };
  const made = await result<DnsRecord>("POST", "Z/dns_records", record);
  expect(made).toMatchObject({ name: "hooks.example.org", ttl: 1, proxied: true, proxiable: true });
  expect(await refused("POST", "Z/dns_records", record)).toMatch(/400 81058/);
  const cname = { ...record, type: "CNAME", content: "x.example.org" };
  expect(await refused("POST", "Z/dns_records", cname)).toMatch(/81053/);
  expect(await refused("POST", "Z/dns_records", { ...record, content: "::1" })).toMatch(/9005/);
  expect((await ask("DELETE", `Z/dns_records/${made.id}`)).result).toEqual({ id: made.id });
  expect(await refused("GET", `Z/dns_records/${made.id}`)).toMatch(/^404 81044/);
});

test.each<[Plan, object, number]>([
  ["free", { fight_mode: true }, 200],
  ["free", { fight_mode: "on" }, 400],
  ["free", { sbfm_definitely_automated: "allow" }, 400],
  ["pro", { fight_mode: false }, 400],
])("bot management on %s: %j is %i", async (plan, body, status) => {
  Object.assign(api.zone, emptyZone("example.org", plan));
  expect((await ask("PUT", "Z/bot_management", body)).status).toBe(status);
});

test("the Origin CA signs a request for names of the zone, and no other", async () => {
  const csr = readFileSync(new URL("../plugins/request.pem", import.meta.url), "utf8");
  const wanted = { csr, hostnames: ["hooks.example.org"], request_type: "origin-ecc", requested_validity: 5475 };
  const made = await result<{ certificate: string }>("POST", "/certificates", wanted);
  const certificate = new X509Certificate(made.certificate);
  expect(certificate.verify(new X509Certificate(authority.certificate).publicKey)).toBe(true);
  expect(certificate.subjectAltName).toBe("DNS:hooks.example.org");
  for (const [change, says] of [
    [{ hostnames: ["notexample.org"] }, /^400 1010 Failed to validate/],
    [{ hostnames: [] }, /^400 1007/],
    [{ request_type: "origin-rsa" }, /^400 1006/],
    [{ csr: "nothing" }, /^400 1005/],
    [{ requested_validity: 10 }, /^400 1008/],
  ] as const)
    expect(await refused("POST", "/certificates", { ...wanted, ...change })).toMatch(says);
  expect((await ask("GET", "/certificates")).status).toBe(400);
});

test("a client certificate is accepted with its key, for a hostname of the zone", async () => {
  const [leaf, other] = [await authority.issue("pushgate"), await authority.issue("other")];
  const upload = (certificate: string, private_key: string) => ({ certificate, private_key });
  for (const [pair, says] of [
    [upload(authority.certificate, leaf.key), /missing leaf certificate/],
    [upload(leaf.certificate, other.key), /does not match/],
    [upload("x", "y"), /PEM/],
  ] as const)
    expect(await refused("POST", `${pulls}/certificates`, pair)).toMatch(says);
  const made = await result<{ id: string }>("POST", `${pulls}/certificates`, upload(leaf.certificate, leaf.key));
  expect(made).toMatchObject({ status: "pending_deployment" });
  const shown = (await ask("GET", `${pulls}/certificates/${made.id}`)).result;
  expect(shown).toMatchObject({ status: "active", certificate: leaf.certificate });
  expect(shown).not.toHaveProperty("private_key");

  const config = (hostname: string, cert_id = made.id) => ({ config: [{ hostname, cert_id, enabled: true }] });
  const hostname = "hooks.example.org";
  expect(await refused("PUT", pulls, config("hooks.example.net"))).toMatch(/^400 1431/);
  expect(await refused("PUT", pulls, { config: [] })).toMatch(/^400 1430/);
  expect(await refused("PUT", pulls, config(hostname, "another"))).toMatch(/^400 1432/);
  expect((await ask("PUT", pulls, config(hostname))).result).toMatchObject([{ enabled: true, cert_id: made.id }]);
});
