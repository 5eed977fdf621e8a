/** Faults of a configuration that serves a site, in site-checks.ts, by their beginnings. */
import { expect, test } from "vitest";
import type { Site } from "../../../infra/config/settings.ts";
import { servingFaults } from "../../../infra/config/site-checks.ts";
import { example, exampleHost, served, serving } from "../../fixtures.ts";

type Config = Parameters<typeof servingFaults>[0];
const faultsOf = (settings: object) => {
  const { hosts, hooks, ...rest } = settings as Config;
  const placed = <T extends object>(list: readonly T[], key: string) =>
    list.map((one, i) => ({ ...one, at: `${key}[${i}]` }));
  const config = { ...rest, hosts: placed(hosts, "hosts"), hooks: placed(hooks, "hooks") };
  return servingFaults(config).map(({ key, says }) => `${key} ${says}`);
};
const named = (hostname: string) => serving(example, { hostname });
const beside = (second: object) => ({
  ...served,
  hosts: [exampleHost, { ...exampleHost, name: "web2", hostname: "hooks2.example.org", ...second }],
});
const { hostname: _, ...unserved } = served.hooks[0]!.site as Site;
const sites = (count: number) => ({
  ...served,
  hooks: Array.from({ length: count }, (_, i) => named(`s${i}.example.org`).hooks[0]),
});

const name = "hooks[0].site.hostname";

test.each<[string, object, ...says: string[]]>([
  ["no site", example],
  ["a site", served],
  ["the zone itself as hostname", named("example.org")],
  ["several hosts", beside({})],
  ["an absent host with another port", beside({ originPort: 9443, state: "absent" })],
  [
    "a site that another server serves, on hosts with different ports",
    { ...beside({ originPort: 9443 }), hooks: [{ ...served.hooks[0], site: unserved }] },
  ],
  ["as many sites as a host's certificate holds", sites(199)],
  ["one more", sites(200), "hooks has 200 sites to serve, and a host's certificate holds 199"],
  ["a name that only ends in the same letters", named("myexample.org"), `${name} is "myexample.org", which is not in`],
])("%s", (_, settings, ...says) => {
  expect(faultsOf(settings).map((fault, i) => fault.slice(0, says[i]?.length))).toEqual(says);
});
