/**
 * What tests, the demo and the golden files share: one stack configuration with its secrets, the settings parsed from
 * it, and seeded random numbers. It is not read from Pulumi.prod.yaml, which a user may change.
 */
import * as v from "valibot";
import { settled } from "../infra/config/derived.ts";
import { shape } from "../infra/config/schema.ts";
import { type Host, parseSettings, type RawConfig, type Settings, type Site } from "../infra/config/settings.ts";
import { apiToken } from "./fakes/cloudflare/api.ts";

/** At least 32 characters each. Tests search for these texts wherever no secret may be. */
export const secrets = {
  site: { current: "test-site-current-0123456789-abcdefghij", previous: "test-site-previous-0123456789-abcdefghi" },
  docs: { current: "test-docs-current-0123456789-abcdefghij" },
};

/** The source of another Cloudflare customer's Worker: in Cloudflare's ranges, and not of this zone. */
export const foreignWorker = "2a06:98c0:3600::103";

const hosts = [
  {
    name: "web1",
    ssh: "root@web1.example.org",
    address: "203.0.113.10",
    address6: "2001:db8::10",
    hostname: "hooks.example.org",
    originPort: 8443,
    state: "present",
  },
];

/** Two git hosts, so two source sets: one publishes its ranges, one is self-hosted. */
const hooks = [
  {
    name: "site",
    gitHost: "github",
    repository: "https://github.com/example/site.git",
    branch: "main",
    site: { webRoot: "/var/www/site", content: "/srv/content/site", hostname: "www.example.org" },
  },
  {
    name: "docs",
    gitHost: "forgejo",
    sources: ["198.51.100.0/28"],
    repository: "https://git.example.net/example/docs.git",
    branch: "main",
  },
];

const limits = {
  bodyBytes: 5 << 20,
  rejectionsPerMinute: 60,
  concurrentPerSource: 32,
  proxyRate: 200,
  proxyBurst: 500,
};

/** The keys of a stack file without the secrets. */
export const stackFile = {
  "pushgate:zone": "example.org",
  "pushgate:edge": { plan: "pro" },
  "pushgate:hosts": hosts,
  "pushgate:hooks": hooks,
  "pushgate:limits": limits,
};

/** The configuration as the engine passes it: text stays text, any other value becomes JSON. */
export const asPassed = (config: Readonly<Record<string, unknown>>): RawConfig =>
  Object.fromEntries(
    Object.entries(config)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
  );

/** `overrides` replaces keys; undefined leaves one out. The API is a fake one: at Cloudflare's the zone is not allowed. */
export const stackConfig = (overrides: Readonly<Record<string, unknown>> = {}): RawConfig =>
  asPassed({
    ...{ "cloudflare:baseUrl": "http://fake.invalid", "cloudflare:apiToken": apiToken, ...stackFile },
    ...{ "pushgate:secrets": secrets, ...overrides },
  });

/** The first hook has a site that pushgate serves; the second has none. */
export const served: Settings = parseSettings(stackConfig(), () => true).settings;

export const site: Site = served.hooks[0]!.site!;
export const siteHostname: string = site.hostname!;
export const exampleHost: Host = served.hosts[0]!;

/** Without a site: for tests of the layers between git host and receiver. */
export const example: Settings = { ...served, hooks: served.hooks.map(({ site: _, ...hook }) => hook) };

/** `settings` with the site on the first hook. `changed` replaces keys of the site. */
export const serving = (settings: Settings, changed: Partial<Site> = {}): Settings => ({
  ...settings,
  hooks: settings.hooks.map((hook, i) => (i === 0 ? { ...hook, site: { ...site, ...changed } } : hook)),
});

/** No real host's key. */
const knownHosts = [
  "[git.example.net]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm1Zk4mDkDq5S2zQkS1oXb0Q8b0vYb2rQdV4q0x9ZrT",
];

/** No real archive's digests. */
export const release = (version: string) => ({ version, amd64: "a".repeat(64), arm64: "b".repeat(64) });

/** With a site on both hooks: one has only the required key, the other every key that changes a unit. */
export const rebuilt: Settings = settled(
  v.parse(shape, {
    zone: "example.org",
    edge: { plan: "pro" },
    hosts,
    hooks: [
      { ...hooks[0], site: { webRoot: "/var/www/site" } },
      {
        ...hooks[1],
        branch: "新分支/50%#ünï",
        repository: "ssh://git@git.example.net:2222/example/docs.git",
        site: {
          webRoot: "/srv/docs/www",
          content: "/home/docs/content",
          folder: "docs",
          schedule: "Mon..Fri 06:00",
          knownHosts,
          egress: ["10.1.2.0/24", "fd12:3456::/48"],
          writers: "docs",
          submodules: false,
          notify: [
            { name: "team", url: "https://chat.example.org/hooks/builds", format: "standard" },
            { name: "phone", url: "https://ntfy.example.org/builds", format: "ntfy", published: true },
            { name: "mail", url: "mailto:team@example.org,ops@example.org", format: "email" },
          ],
          hugo: {
            ...{ exec: ["^npx$"], http: ["^https://api\\.example\\.org/"] },
            ...{ baseUrl: "https://docs.example.org/", environment: "staging", arguments: ["--buildFuture", "--gc"] },
            variables: { HUGO_PARAMS_LINE: 'a "b" \\ %c $d' },
          },
          tools: { hugo: release("0.152.2"), sass: release("1.89.2"), node: release("22.20.0") },
          npm: true,
          limits: { memoryMiB: 256, cpuPercent: 100 },
        },
      },
    ],
    limits,
  }),
  ["docs"],
);

/** What the layers of a host get from other layers. */
export const made = {
  certificate: "PEM",
  clientCaPem: "PEM",
  programs: { receiver: { sha256: "" }, builder: { sha256: "" }, fetcher: { sha256: "" }, reporter: { sha256: "" } },
};

/** Mulberry32: the same numbers for the same seed on every host; from 0 up to, but not including, 1. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
