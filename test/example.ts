/** The settings that tests of pure functions render: Pulumi.prod.yaml's one host and two git hosts, so two source sets. */
import * as v from "valibot";
import { settled } from "../infra/config/derived.ts";
import { shape } from "../infra/config/schema.ts";
import { type Host, parseSettings, type Settings } from "../infra/config/settings.ts";
import { stackConfig } from "./stack-file.ts";

/** Pulumi.prod.yaml unchanged: one of its two hooks has a site. */
export const whole: Settings = parseSettings(stackConfig(), () => true).settings;

/** Without the site: for the layers between git host and receiver. */
export const example: Settings = { ...whole, hooks: whole.hooks.map(({ site: _, ...hook }) => hook) };

export const exampleHost: Host = example.hosts[0]!;

/** Not a real host's key. */
const knownHosts = [
  "[git.example.net]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm1Zk4mDkDq5S2zQkS1oXb0Q8b0vYb2rQdV4q0x9ZrT",
];

/** With a site on both hooks: one has only the required keys, the other every key that changes a unit. */
export const rebuilt: Settings = (() => {
  const raw = stackConfig();
  const key = (name: string) => JSON.parse(raw[`pushgate:${name}`]!) as unknown;
  const [site, docs] = key("hooks") as [Record<string, unknown>, Record<string, unknown>];
  const hooks = [
    { ...site, site: { webRoot: "/var/www/site", content: "/srv/content/site" } },
    {
      ...docs,
      repository: "ssh://git@git.example.net:2222/example/docs.git",
      site: {
        webRoot: "/home/docs/www",
        content: "/home/docs/content",
        keep: [".well-known/acme-challenge"],
        knownHosts,
        egress: ["10.1.2.0/24", "fd12:3456::/48"],
        writers: "docs",
        submodules: true,
        hugo: { path: "/opt/hugo/hugo", minimum: "0.131", exec: ["^npx$"], http: ["^https://api\\.example\\.org/"] },
        limits: { memoryMiB: 256, cpuPercent: 100 },
      },
    },
  ];
  const [zone, edge, hosts, limits] = [raw["pushgate:zone"], key("edge"), key("hosts"), key("limits")];
  return settled(v.parse(shape, { zone, edge, hosts, hooks, limits }));
})();
