/** `npx pushgate adopt` among several candidates of each kind. The rest of the command: test/engine/adopt.test.ts. */
import { afterAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { find, type Resource } from "../../../../infra/cli/stack/live-objects.ts";
import { cloudflareApi } from "../../../../infra/edge/api.ts";
import { records } from "../../../../infra/edge/dns.ts";
import { apiToken, startApi } from "../../../fakes/cloudflare/api.ts";
import { createAuthority } from "../../../fakes/cloudflare/authority.ts";
import { emptyZone } from "../../../fakes/cloudflare/zone.ts";
import { exampleHost, served, siteHostname } from "../../../fixtures.ts";

const api = await startApi({ zone: emptyZone("example.org", "pro") });
afterAll(() => api.close());
beforeEach(() => {
  Object.assign(api.zone, emptyZone("example.org", "pro"));
});

const access = () => cloudflareApi({ baseUrl: api.url, token: apiToken });
const second = { ...exampleHost, name: "web2", hostname: "hooks2.example.org", address: "203.0.113.11" };
const declared = records({ ...served, hosts: [exampleHost, second] })
  .filter(({ type }) => type === "A")
  .map((inputs): Resource => {
    const name = inputs.name === siteHostname ? `${inputs.name} A ${inputs.content}` : `${inputs.name} A`;
    return { type: "cloudflare:index/dnsRecord:DnsRecord", name, inputs };
  });

const name = exampleHost.hostname;
const elsewhere = (to: string, whose: string) =>
  expect.stringMatching(new RegExp(`^also leads to ${to.replaceAll(".", "\\.")}, .* share of ${whose}: remove it$`));
const [own1, own2, other] = ["203.0.113.10", "203.0.113.11", "203.0.113.80"] as const;
const [first, more] = ["198.51.100.7", "198.51.100.8"] as const;
const [toOther, toMore] = [elsewhere(other, "visitors"), elsewhere(more, "deliveries")];
test.each<[string, string, string, string[], unknown[]]>([
  ["each host's own of a site", siteHostname, "A", [own2, own1], [[own1], [own2]]],
  ["none of a site that leads elsewhere, once named", siteHostname, "A", [other, own2], [[undefined, toOther], [own2]]],
  ["one of a hook's name, wherever it leads", name, "A", [first, more], [[first, toMore]]],
  ["none of another type", name, "CNAME", ["hooks.example.net"], [[undefined]]],
])("of the records adopt takes %s", async (_, name, type, contents, taken) => {
  const record = (content: string) => ({ id: content, name, type, content, proxied: true, ttl: 1 });
  api.zone.dns_records.push(...contents.map(record));
  const wanted = declared.filter(({ inputs }) => inputs.name === name);
  const found = await Promise.all(wanted.map((one) => find(access(), one, api.zone, declared)));
  expect(found.map(({ id, notes = [] }) => [id?.split("/")[1], ...notes])).toEqual(taken);
});

/** The object's id as the import file has it, what it is, and the notes. */
const found = async (kind: string, inputs: Resource["inputs"], name = "") => {
  const resource = { type: `cloudflare:index/${kind}`, name, inputs };
  const { id, what, notes = [] } = await find(access(), resource, api.zone, [resource]);
  return [id?.replace(api.zone.id, "Z"), what, ...notes];
};
const nothing = [undefined, undefined];

test("of a phase's rulesets adopt takes the zone's own, not a managed one and not another phase's", async () => {
  const phase = "http_request_firewall_custom";
  const add = (letter: string, kind: string, of = phase) =>
    api.zone.rulesets.push({ id: letter.repeat(32), kind, name: `${letter} rules`, phase: of, rules: [] } as never);
  const own = () => found("ruleset:Ruleset", { phase, kind: "zone" });
  add("a", "managed");
  add("b", "custom");
  add("d", "zone", "http_request_origin");
  expect(await own()).toEqual(nothing);
  add("c", "zone");
  expect(await own()).toEqual([`zones/Z/${"c".repeat(32)}`, 'ruleset "c rules"']);
});

test("of the origin certificates adopt takes the newest with exactly these names, and names the others", async () => {
  const names = [exampleHost.hostname, siteHostname];
  const adopted = () => found("originCaCertificate:OriginCaCertificate", { hostnames: names });
  const certificate = (id: string, hostnames: string[], expires_on: string) =>
    api.zone.origin_certificates.push({ id, certificate: "", hostnames, expires_on });
  certificate("more", [...names, "zoo.example.org"], "2041-11-01T00:00:00Z");
  certificate("fewer", names.slice(1), "2041-11-01T00:00:00Z");
  expect(await adopted()).toEqual(nothing);
  certificate("older", names, "2040-01-01T00:00:00Z");
  certificate("newest", names.toReversed(), "2041-11-02T00:00:00Z");
  certificate("old", names, "2041-11-01T00:00:00Z");
  expect(await adopted()).toEqual([
    ...["newest", "origin certificate newest, until 2041-11-02"],
    expect.stringContaining("`up` creates another one and then revokes it"),
    ...["old", "older"].map((id) => `certificate ${id} has the same names and stays: revoke it after \`up\``),
  ]);
});

test("of the client certificates adopt takes the newest that pushgate made for this zone, and names the others", async () => {
  const kind = "authenticatedOriginPullsHostnameCertificate:AuthenticatedOriginPullsHostnameCertificate";
  const issuer = "pushgate origin pulls of example.org";
  const issued = async (by: string) => {
    const authority = await createAuthority(by);
    onTestFinished(() => authority.close());
    return (await authority.issue(issuer)).certificate;
  };
  const uploaded = (id: string, certificate: string, uploaded_on: string, status = "active") =>
    api.zone.origin_pulls.hostname_certificates.push({ id, certificate, status, uploaded_on } as never);
  for (const by of ["pushgate origin pulls of example.net", `${issuer}.example.net`, "another CA"])
    uploaded(by, await issued(by), "2026-04-01T00:00:00Z");
  uploaded("broken", "no certificate", "2026-04-01T00:00:00Z");
  const own = await issued(issuer);
  for (const status of ["deleted", "pending_deletion"]) uploaded(status, own, "2026-05-01T00:00:00Z", status);
  expect(await found(kind, {})).toEqual(nothing);
  for (const [id, month] of Object.entries({ older: 1, newest: 3, old: 2 }))
    uploaded(id, own, `2026-0${month}-01T00:00:00Z`);
  expect(await found(kind, {})).toEqual([
    ...["Z/newest", "client certificate newest"],
    expect.stringContaining("its key was only in the lost state"),
    ...["old", "older"].map((id) => `client certificate ${id} is pushgate's too and stays: delete it after \`up\``),
  ]);
});

test("of the origin pulls of hostnames adopt takes those of this hostname, unless they are being deleted", async () => {
  const { hostname } = exampleHost;
  const kind = "authenticatedOriginPulls:AuthenticatedOriginPulls";
  const pulls = (hostname: string, status: string) =>
    api.zone.origin_pulls.hostnames.push({ hostname, cert_id: `of ${hostname}`, enabled: true, status } as never);
  const own = () => found(kind, { configs: [{ hostname }] });
  for (const status of ["deleted", "pending_deletion"]) pulls(hostname, status);
  pulls(siteHostname, "active");
  expect(await own()).toEqual(nothing);
  api.zone.origin_pulls.hostnames = [];
  pulls(hostname, "active");
  const one = [`Z/${hostname}`, `client certificate of ${hostname} for ${hostname}`];
  expect(await own()).toEqual(one);
  // A preview does not know `configs` while the certificate is to be created.
  expect(await found(kind, {}, `${hostname} client certificate`)).toEqual(one);
});
