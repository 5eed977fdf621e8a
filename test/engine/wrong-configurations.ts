/**
 * Wrong configurations, each a change of `right`: a key of the stack file and what is written there, as YAML, or
 * undefined where the key is left out. The fault must name that key, unless further values name others: all that one
 * change makes wrong.
 */
import type { Schema } from "../../infra/config/faults.ts";
import { unwrapped } from "../../infra/config/faults.ts";
import { shape } from "../../infra/config/schema.ts";
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
        ...{ name: "docs", gitHost: "forgejo", sources: ["198.51.100.0/28"], branch: "main" },
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

const host = (change: string) =>
  `{ name: web2, ssh: root@web2, address: 203.0.113.11, hostname: hooks2.example.org, ${change} }`;
const hook = (change: string) =>
  `{ name: blog, gitHost: github, repository: "https://github.com/example/blog.git", branch: main, ${change} }`;
const under = (key: string, ...written: readonly (string | undefined)[]): Row[] => written.map((one) => [key, one]);
const long = (length: number) => "x".repeat(length);

const zone = under("zone", undefined, "", "example", "203.0.113.1", "https://example.org/");

const edge: Row[] = [
  ["edge", undefined, "edge.plan"],
  ...under("edge", "pro"),
  ...under("edge.plan", undefined, "Pro"),
  ...under("edge.botFightMode", "off", "false"),
  ...under("edge.generation", "1.5", '"2"'),
  ...under("edge.canary", '"no"'),
  ...under("edge.plans", "pro"),
];

const hosts: Row[] = [
  ...under("hosts", undefined, "[]", "web1", "{ web1: { ssh: root@web1 } }"),
  ...under("hosts[0]", "web1"),
  ...under("hosts[0].name", undefined, "7", "web_1", long(33)),
  ...under("hosts[0].ssh", undefined, "-oProxyCommand=x", "root@web1;id"),
  ...under("hosts[0].sudo", "yes"),
  ...under("hosts[0].address", undefined, "web1.example.org", "203.0.113.10/32", '"2001:db8::10"'),
  ...under("hosts[0].address", "10.0.0.5", "127.0.0.1", "0.0.0.0", "169.254.1.1", "104.16.0.10"),
  ["hosts[0]", host('address6: "2001:db8::11"').replace("address: 203.0.113.11, ", ""), "hosts[0].address"],
  ...under("hosts[0].address6", "203.0.113.10", '"::1"', '"fe80::1"', '"fd00::1"', '"2606:4700::10"'),
  ...under("hosts[0].hostname", undefined, "example.org", "hooks.example.com", "hooks"),
  ...under("hosts[0].hostname", "https://hooks.example.org", "hooks.example.org:8443", '"*.example.org"'),
  ...under("hosts[0].originPort", "22", "443", "70000", '"8443"'),
  ...under("hosts[0].state", "gone"),
  ...under("hosts[0].adress", "203.0.113.10"),
  ["hosts[1]", host("").replace("web2,", "web1,"), "hosts[1].name"],
  ["hosts[1]", host("").replace("root@web2", "root@web1.example.org"), "hosts[1].ssh"],
  ["hosts[1]", host("").replace("203.0.113.11", "203.0.113.10"), "hosts[1].address"],
  ["hosts[1]", host("").replace("hooks2", "hooks"), "hosts[1].hostname"],
  ["hosts[1]", host("originPort: 9443"), "hosts[1].originPort"],
];

const selfHosted = "hooks[1].sources";
const hooks: Row[] = [
  ...under("hooks", undefined, "[]", "site", "{ site: { gitHost: github } }"),
  ...under("hooks[0].name", undefined, "../x", "7"),
  ["hooks[2]", hook("").replace("blog,", "site,"), "hooks[2].name"],
  ["hooks[1].name", "github", "hooks[1].name", "secrets.github", "secrets.docs"],
  ...under("hooks[0].gitHost", undefined, "GitHub", "sourcehut"),
  ["hooks[0].gitHost", "gitlab", "hooks[0].repository"],
  ...under("hooks[0].sources", "[198.51.100.0/28]"),
  ...under(selfHosted, undefined, "[]", "198.51.100.0/28"),
  ...[
    ...["git.example.net", "198.51.100.1/28", "198.51.100.0/33", "0.0.0.0/0", "127.0.0.1", "104.16.0.0/13"],
    ...["192.168.0.0/24", "fd00::/8"],
  ].map((range): Row => [selfHosted, `[${range}]`, `${selfHosted}[0]`]),
  ...under("hooks[0].repository", undefined, "example/site", "http://github.com/example/site.git"),
  ...under("hooks[0].repository", "https://user:password@github.com/example/site.git"),
  ...under("hooks[0].repository", "https://gitlab.com/example/site.git"),
  ...under("hooks[1].repository", "https://github.com/example/docs.git", "git.example.net:example/docs.git"),
  ...under("hooks[0].branch", undefined, '""', "refs/heads/main", "refs/tags/v1", "HEAD", "--upload-pack=x"),
  ...under("hooks[0].branch", "true", "1.0"),
  ...under("hooks[0].brunch", "main"),
];

const at = (key: string, ...written: readonly (string | undefined)[]) => under(`hooks[0].site.${key}`, ...written);
const sites: Row[] = [
  ...under("hooks[0].site", "true"),
  ...at("webRoot", undefined, "/", "/etc/www", "/root/www", "www/site", "/var/www/../site", "/srv/my site"),
  ...at("webRoot", "/srv/content/site/public"),
  ["hooks[0].site.webRoot", "/var/www", "hooks[0].site.webRoot", "hooks[1].site.webRoot"],
  ["hooks[0].site.webRoot", "/var/www/docs", "hooks[1].site.webRoot"],
  ...at("content", "/etc/content", "/home", "/var/www/site/content"),
  ...at("hostname", "www.example.com", "hooks.example.org"),
  ["hooks[1].site.hostname", "www.example.org"],
  ...at("folders", "downloads", "[/srv/downloads]"),
  ["hooks[0].site.folders", "{ downloads: srv }", "hooks[0].site.folders.downloads"],
  ["hooks[0].site.folders", "{ index.html: /srv/downloads }", "hooks[0].site.folders.index.html"],
  ["hooks[0].site.paths", "[/layouts]", "hooks[0].site.paths[0]"],
  ["hooks[0].site.assets", "[.css]", "hooks[0].site.assets[0]"],
  ...at("submodules", '"yes"'),
  ["hooks[1].site.knownHosts", undefined],
  ["hooks[1].site.knownHosts", `["${knownHost.replace("git.", "other.")}"]`],
  ["hooks[1].site.knownHosts", '["git.example.net"]', "hooks[1].site.knownHosts[0]"],
  ...["0.0.0.0/0", "127.0.0.1", "169.254.169.254", "8.8.8.8"].map(
    (range): Row => ["hooks[0].site.egress", `[${range}]`, "hooks[0].site.egress[0]"],
  ),
  ...at("writers", "Web Editors"),
  ["hooks[0].site.notify", "https://chat.example.org/hooks", "secrets.site.notify"],
  ...[
    "http://chat.example.org/x",
    "https://me:pw@chat.example.org/x",
    "https://10.0.0.5/x",
    "https://a.example.org:99999/x",
  ].map((url): Row => ["hooks[0].site.notify", url, "hooks[0].site.notify", "secrets.site.notify"]),
  ...at("hugo.path", "hugo", "/home/me/hugo"),
  ...at("hugo.minimum", "0.131"),
  ["hooks[0].site.hugo.exec", '["("]', "hooks[0].site.hugo.exec[0]"],
  ...at("reconcileMinutes", "0"),
  ...at("limits.memoryMiB", "1 GiB"),
  ...at("limits.pagesPercent", "101"),
  ...at("limits.memory", "512"),
];

const limits: Row[] = [
  ...under("limits.bodyBytes", "5 MB", "1e9"),
  ...under("limits.rejectionsPerMinute", "0"),
  ...under("limits.concurrentPerSource", "0"),
  ...under("limits.proxyRate", "0"),
  ...under("limits.proxyBurst", "-1"),
  ...under("limits.bodybytes", "1024"),
];

const secret = (key: string, secret: string, ...faults: string[]): Row => [`secrets.${key}`, { secret }, ...faults];
const ofSecrets: Row[] = [
  ["secrets", undefined, "secrets.site", "secrets.docs"],
  ["secrets.site", undefined],
  ["secrets.site.current", undefined],
  secret("site.current", "short"),
  secret("site.current", `${long(32)} y`),
  secret("site.current", `${long(32)}ü`),
  secret("site.previous", secrets.site.current),
  secret("site.curent", long(40)),
  secret("other.current", long(40), "secrets.other"),
  ["secrets.site.current", long(40)],
  [
    "secrets",
    `{ site: { current: ${long(40)} }, docs: { current: ${long(41)}, deployKey: x } }`,
    "secrets",
    "secrets.docs.deployKey",
  ],
  secret("site.deployKey", privateKey("PRIVATE KEY")),
  ["secrets.docs.deployKey", undefined],
  secret("docs.deployKey", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm1Zk4mDkDq5S2zQkS1oXb0Q8b0vYb2rQdV4q0x9ZrT me"),
  secret("docs.deployKey", "AAAA"),
  secret("docs.deployKey", privateKey("ENCRYPTED PRIVATE KEY")),
  secret("site.status", "short"),
  secret("site.status", `${long(30)} y`),
  secret("site.notify", `whsec_${Buffer.alloc(32).toString("base64")}`),
];

const others: Row[] = [
  ["cloudflare:apiToken", undefined],
  ["cloudflare:apiToken", "plain-token-0123456789-0123456789-abcdef"],
  ["cloudflare:apiToken", { secret: "Bearer 0123456789" }],
  // At Cloudflare's own API the zone and the addresses of an example are rejected.
  ["cloudflare:baseUrl", undefined, "zone", "hosts[0].address", "hooks[1].sources[0]"],
  ...under("limit", "{ bodyBytes: 1024 }"),
  // As `pulumi config set` writes it without --path.
  ['"hosts[0].state"', "absent", "hosts[0].state"],
];

/** Lists and mappings swapped: every list of the schema with a mapping, and the other way round. */
function swapped(schema: Schema, key: string): Row[] {
  const { item, entries } = unwrapped(schema);
  if (item !== undefined) return [[key, "{ a: b }"], ...swapped(item, `${key}[0]`)];
  if (entries === undefined) return [];
  return [[key, "[a]"], ...Object.entries(entries).flatMap(([name, child]) => swapped(child, `${key}.${name}`))];
}
const kinds = Object.entries(shape.entries).flatMap(([name, schema]) => swapped(schema, name));

export const rows: readonly Row[] = [
  ...[zone, edge, hosts, hooks, sites, limits, ofSecrets, others].flat(),
  ...kinds,
  ["zone", "[example.org]"],
  ["secrets", "[a]"],
  ["secrets.site", "[a]"],
];
