/** Faults of a configuration that serves a site: each with its exact text, all of them together. */
import { describe, expect, test } from "vitest";
import type { Site } from "../../../infra/config/settings.ts";
import { servingFaults } from "../../../infra/config/site-checks.ts";
import { example, exampleHost, served, serving } from "../../fixtures.ts";

type Config = Parameters<typeof servingFaults>[0];
const config = (settings: object): Config => {
  const { hosts, hooks, ...rest } = settings as Config;
  const placed = <T extends object>(list: readonly T[], key: string) =>
    list.map((one, i) => ({ ...one, at: `${key}[${i}]` }));
  return { ...rest, hosts: placed(hosts, "hosts"), hooks: placed(hooks, "hooks") };
};
const faultsOf = (settings: object) => servingFaults(config(settings)).map(({ key, says }) => `${key} ${says}`);
const named = (hostname: string) => faultsOf(serving(example, { hostname }));
const hosts = (...changes: object[]) => changes.map((change) => ({ ...exampleHost, ...change }));
const second = { name: "web2", hostname: "hooks2.example.org", address: "203.0.113.11" };

test("there is no fault for the zone itself as hostname, several hosts, or a site that another server serves", () => {
  expect(faultsOf(example)).toEqual([]);
  expect(faultsOf(served)).toEqual([]);
  expect(named("example.org")).toEqual([]);
  expect(faultsOf({ ...served, hosts: hosts({}, second) })).toEqual([]);
  const { hostname: _, ...unserved } = served.hooks[0]!.site as Site;
  const hooks = [{ ...served.hooks[0], site: unserved }];
  expect(faultsOf({ ...served, hooks, hosts: hosts({}, { ...second, originPort: 9443 }) })).toEqual([]);
});

test("a host's certificate holds 199 sites", () => {
  const hooks = Array.from({ length: 199 }, (_, i) => serving(example, { hostname: `s${i}.example.org` }).hooks[0]);
  expect(faultsOf({ ...served, hooks })).toEqual([]);
});

describe("each fault names its key", () => {
  test.each([
    [
      "another zone's name",
      named("www.example.net"),
      'hooks[0].site.hostname is "www.example.net", which is not in the zone example.org. Use a name in it, such as www.example.org.',
    ],
    [
      "a name that only ends in the same letters",
      named("myexample.org"),
      'hooks[0].site.hostname is "myexample.org", which is not in the zone example.org. Use a name in it, such as www.example.org.',
    ],
    [
      "a name for hooks",
      named(exampleHost.hostname),
      'hooks[0].site.hostname is "hooks.example.org", as is hosts[0].hostname, where all but hooks is blocked. Use another name.',
    ],
    [
      "one name for two sites",
      faultsOf({ ...served, hooks: [served.hooks[0], { ...served.hooks[0], name: "docs" }] }),
      'hooks[1].site.hostname repeats hooks[0].site.hostname, "www.example.org". Use a hostname for each site.',
    ],
    [
      "hosts with different ports",
      faultsOf({ ...served, hosts: hosts({}, { ...second, originPort: 9443 }) }),
      "hosts[1].originPort is 9443, and hosts[0].originPort is 8443, but Cloudflare reaches both hosts for www.example.org on one port. Use the same port.",
    ],
    [
      "more names than a certificate holds",
      faultsOf({
        ...served,
        hooks: Array.from({ length: 200 }, (_, i) => serving(example, { hostname: `s${i}.example.org` }).hooks[0]),
      }),
      "hooks has 200 sites to serve, and a host's certificate holds 199. Serve fewer sites.",
    ],
  ])("%s", (_, faults, says) => {
    expect(faults).toEqual([says]);
  });

  test("all faults come together", () => {
    const all = { ...serving(example, { hostname: exampleHost.hostname }), zone: "example.net" };
    expect(faultsOf({ ...all, hosts: hosts({}, { ...second, originPort: 9443 }) })).toHaveLength(3);
  });
});

test("an absent host may have another port", () => {
  expect(faultsOf({ ...served, hosts: hosts({}, { ...second, originPort: 9443, state: "absent" }) })).toEqual([]);
});
