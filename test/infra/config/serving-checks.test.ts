/** What serving a site asks of the other keys: each fault by its key, with its cure, all of them at once. */
import { describe, expect, test } from "vitest";
import type { Site } from "../../../infra/config/settings.ts";
import { servingFaults } from "../../../infra/config/site-checks.ts";
import { example, exampleHost } from "../../example.ts";
import { served, serving } from "../../served.ts";

type Config = Parameters<typeof servingFaults>[0];
const config = (settings: object): Config => settings as Config;
const said = (settings: object) => servingFaults(config(settings)).map(({ key, says }) => `${key} ${says}`);
const named = (hostname: string) => said(serving(example, { hostname }));
const hosts = (...changes: object[]) => changes.map((change) => ({ ...exampleHost, ...change }));
const second = { name: "web2", hostname: "hooks2.example.org", address: "203.0.113.11" };

test("what fits has none: the zone itself, several machines, a site that others serve", () => {
  expect(said(example)).toEqual([]);
  expect(said(served)).toEqual([]);
  expect(named("example.org")).toEqual([]);
  expect(said({ ...served, hosts: hosts({}, second) })).toEqual([]);
  const { hostname: _, ...unserved } = served.hooks[0]!.site as Site;
  const hooks = [{ ...served.hooks[0], site: unserved }];
  expect(said({ ...served, hooks, hosts: hosts({}, { ...second, originPort: 9443 }) })).toEqual([]);
});

describe("what does not is named", () => {
  test.each([
    ["another zone's name", named("www.example.net"), /^hooks\[0\]\.site\.hostname is not in the zone example\.org$/],
    ["a name that only ends like it", named("myexample.org"), /^hooks\[0\]\.site\.hostname is not in the zone/],
    [
      "a name for hooks",
      named(exampleHost.hostname),
      /^hooks\[0\]\.site\.hostname is hosts\[0\]\.hostname, .* take another name$/,
    ],
    [
      "one name for two sites",
      said({ ...served, hooks: [served.hooks[0], { ...served.hooks[0], name: "docs" }] }),
      /^hooks\[1\]\.site\.hostname repeats hooks\[0\]\.site\.hostname/,
    ],
    [
      "machines with different ports",
      said({ ...served, hosts: hosts({}, { ...second, originPort: 9443 }) }),
      /^hosts\[1\]\.originPort is 9443, hosts\[0\]'s is 8443, .*www\.example\.org, on one port: give them the same$/,
    ],
    [
      "machines behind one address",
      said({ ...served, hosts: hosts({}, { ...second, address: exampleHost.address }) }),
      /^hosts\[1\]\.address is hosts\[0\]'s, too, .*: give each machine its own$/,
    ],
    [
      "more names than a certificate holds",
      said({
        ...served,
        hooks: Array.from({ length: 200 }, (_, i) => serving(example, { hostname: `s${i}.example.org` }).hooks[0]),
      }),
      /^hooks serve 200 sites: a machine's certificate holds 199/,
    ],
  ])("%s", (_, faults, says) => {
    expect(faults).toEqual([expect.stringMatching(says)]);
  });

  test("and all of them come together", () => {
    const all = { ...serving(example, { hostname: exampleHost.hostname }), zone: "example.net" };
    expect(said({ ...all, hosts: hosts({}, { ...second, originPort: 9443 }) })).toHaveLength(3);
  });
});

test("a machine that is to be absent keeps no other from its port", () => {
  expect(said({ ...served, hosts: hosts({}, { ...second, originPort: 9443, state: "absent" }) })).toEqual([]);
});
