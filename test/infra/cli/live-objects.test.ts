/** `npm run adopt` for a name with several live records. All else of it: test/engine/adopt.test.ts. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Declared, find } from "../../../infra/cli/live-objects.ts";
import { cloudflareApi } from "../../../infra/edge/api.ts";
import { records } from "../../../infra/edge/dns.ts";
import { type Api, apiToken, startApi } from "../../fakes/cloudflare/api.ts";
import { emptyZone } from "../../fakes/cloudflare/zone.ts";
import { exampleHost, served, siteHostname } from "../../fixtures.ts";

let api: Api;
beforeAll(async () => {
  api = await startApi({ zone: emptyZone("example.org", "pro") });
});
afterAll(() => api.close());
beforeEach(() => {
  api.zone.dns_records = [];
});

const type = "cloudflare:index/dnsRecord:DnsRecord";
const second = { ...exampleHost, name: "web2", hostname: "hooks2.example.org", address: "203.0.113.11" };
const declared: Declared[] = records({ ...served, hosts: [exampleHost, second] })
  .filter((record) => record.type === "A")
  .map((inputs) => ({
    ...{ type, inputs },
    name: inputs.name === siteHostname ? `${inputs.name} A ${inputs.content}` : `${inputs.name} A`,
  }));
const live = (name: string, ...contents: string[]) =>
  api.zone.dns_records.push(
    ...contents.map((content) => ({ id: content, name, type: "A", content, proxied: true, ttl: 1 })),
  );
const adopted = async (name: string) => {
  const access = cloudflareApi({ baseUrl: api.url, token: apiToken });
  const found = declared.filter((one) => one.inputs.name === name).map((one) => find(access, one, api.zone, declared));
  return (await Promise.all(found)).map(({ id, notes }) => [id?.split("/")[1], ...notes]);
};

test("adopt finds each host's own record of a site", async () => {
  live(siteHostname, "203.0.113.11", "203.0.113.10");
  expect(await adopted(siteHostname)).toEqual([["203.0.113.10"], ["203.0.113.11"]]);
});

test("adopt leaves a site's record that leads elsewhere, and names it once", async () => {
  live(siteHostname, "203.0.113.80", "203.0.113.11");
  expect(await adopted(siteHostname)).toEqual([
    [undefined, expect.stringMatching(/^also leads to 203\.0\.113\.80, .* share of visitors: remove it$/)],
    ["203.0.113.11"],
  ]);
});

test("adopt takes over one record of a hook's name, wherever it leads", async () => {
  live(exampleHost.hostname, "198.51.100.7", "198.51.100.8");
  expect(await adopted(exampleHost.hostname)).toEqual([
    ["198.51.100.7", expect.stringMatching(/^also leads to 198\.51\.100\.8, .* share of deliveries: remove it$/)],
  ]);
});
