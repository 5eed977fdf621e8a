/**
 * Wrong configurations, each a change of `right`: a key of the stack file and what is written there, as YAML, or
 * undefined where the key is left out. The fault must name that key, unless further values name others: all that one
 * change makes wrong. test/infra/config has each fault; these are what YAML, the engine and its encryption make of one.
 */
import { secrets } from "../fixtures.ts";

/** Written encrypted, as `pulumi config set --secret` does. */
type Encrypted = { readonly secret: string };
export type Row = readonly [key: string, written: string | Encrypted | undefined, ...faults: string[]];

const knownHost = "git.example.net ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm1Zk4mDkDq5S2zQkS1oXb0Q8b0vYb2rQdV4q0x9ZrT";
const privateKey = (kind: string) => `-----BEGIN ${kind}-----\nAAAA\n-----END ${kind}-----\n`;

/** Without a fault: two source sets, a site over https and one over SSH. */
export const right = {
  config: {
    "pushgate:zone": "example.org",
    "pushgate:edge": { plan: "pro" },
    "pushgate:hosts": [
      { name: "web1", ssh: "root@web1.example.org", address: "203.0.113.10", hostname: "hooks.example.org" },
    ],
    "pushgate:hooks": [
      {
        ...{ name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" },
        site: { webRoot: "/var/www/site", content: "/srv/content/site", hostname: "www.example.org" },
      },
      {
        ...{ name: "docs", gitHost: "forgejo", sources: ["198.51.100.0/28"], branch: "新分支/50%#ünï" },
        repository: "git@git.example.net:example/docs.git",
        site: { webRoot: "/var/www/docs", content: "/srv/content/docs", knownHosts: [knownHost] },
      },
    ],
  },
  secrets: {
    site: secrets.site,
    docs: { ...secrets.docs, deployKey: privateKey("PRIVATE KEY") },
  },
};

const long = "x".repeat(40);
const secret = (key: string, secret: string, ...faults: string[]): Row => [`secrets.${key}`, { secret }, ...faults];

/** The rows of one preview do not touch each other. */
export const previews: readonly (readonly Row[])[] = [
  [
    ["zone", "203.0.113.1"],
    ["edge.plan", "Pro"],
    ["hosts[0].name", "7"],
    ["hosts[0].ssh", "root@web1:2222"],
    ["hosts[0].originPort", '"8443"'],
    ["hosts[0].adress", "203.0.113.10"],
    ["hooks[0].repository", "https://user:password@github.com/example/site.git"],
    ["hooks[0].branch", "true"],
    ["limits.bodyBytes", "1e9"],
  ],
  [
    ["zone", "[example.org]"],
    ["edge", "pro"],
    ["hosts[0]", "web1"],
    ["hooks[0].sources", "{ a: b }"],
    ["hooks[0].site.folders", "[/srv/downloads]"],
    ["hooks[1].branch", "a:b"],
    ["limits", "[a]"],
    // As `pulumi config set` writes it without --path.
    ['"hosts[0].state"', "absent", "hosts[0].state"],
    secret("site.current", "short"),
  ],
  [
    ["zone", undefined],
    ["edge", undefined, "edge.plan"],
    ["hosts", "{ web1: { ssh: root@web1 } }"],
    ["hooks", undefined],
    ["limit", "{ bodyBytes: 1024 }"],
  ],
  [
    ["hosts[0].address", "104.16.0.10"],
    secret("site.curent", long),
    secret("other.current", long, "secrets.other"),
    secret("docs.deployKey", privateKey("ENCRYPTED PRIVATE KEY")),
    ["cloudflare:apiToken", { secret: "Bearer 0123456789" }],
  ],
  [["secrets", undefined, "secrets.site", "secrets.docs"]],
  [
    ["secrets.site.current", long],
    ["cloudflare:apiToken", "plain-token-0123456789-0123456789-abcdef"],
  ],
  [
    [
      "secrets",
      `{ site: { current: ${long} }, docs: { current: ${long}y, deployKey: x } }`,
      ...["secrets", "secrets.docs.deployKey"],
    ],
    ["cloudflare:apiToken", undefined],
  ],
  [["secrets", "[a]"]],
  // At Cloudflare's own API the zone and the addresses of an example are rejected.
  [["cloudflare:baseUrl", undefined, "zone", "hosts[0].address", "hooks[1].sources[0]"]],
];
