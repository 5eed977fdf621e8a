/** A configuration without faults, and tables of faults by their beginnings; test/golden/messages.txt has each text whole. */
import { expect, test } from "vitest";
import { found } from "../../../infra/config/faults.ts";
import { networks } from "../../../infra/networks.ts";
import { release, secrets } from "../../fixtures.ts";
import { type Changes, expectFaults, faultsOf, hook, host, parsed, withSite } from "./faults-of.ts";

const second = { name: "web2", ssh: "root@web2", address: "203.0.113.11", hostname: "hooks2.example.org" };
const without = { "hooks[0].site": undefined };
const selfHosted = (change: object = {}) => {
  const own = { gitHost: "gitea", repository: "https://git.example.net/site.git", sources: ["198.51.100.8"] };
  return Object.fromEntries(Object.entries({ ...own, ...change }).map(([key, value]) => [`hooks[0].${key}`, value]));
};
const zone = (name: string, hostname = `hooks.${name}`) => ({ zone: name, "hosts[0].hostname": hostname });
const x = (count: number) => "x".repeat(count);
const real = { "cloudflare:baseUrl": undefined };

test("the smallest configuration gets every default", () => {
  const { settings } = parsed({ ...without, limits: undefined });
  expect(settings.hosts[0]).toEqual({ ...host, sudo: false, originPort: 8443, state: "present" });
  expect(settings.hooks[0]).toMatchObject({ sources: networks.githubHooks.cidrs });
  expect(settings.limits.bodyBytes).toBe(5 << 20);
});

test("sources of a self-hosted git host are sorted, and lose each range that a wider one covers", () => {
  const { settings } = parsed(selfHosted({ sources: ["2001:db8:1::/48", "198.51.100.8", "198.51.100.0/28"] }));
  expect(settings.hooks[0]?.sources).toEqual(["198.51.100.0/28", "2001:db8:1::/48"]);
});

test.each<Changes>([
  { "hooks[0].branch": "新分支/50%#ünï" },
  { "hooks[0].repository": "https://github.com/example/c++.git" },
  { "cloudflare:apiToken": "a-token_1" },
  { "hosts[0].name": "w", "hosts[0].hostname": "h.example.org" },
  zone("example.de"),
  selfHosted({ repository: "https://git.example.net:8443/site.git" }),
  selfHosted({ gitHost: "gogs" }),
  withSite({ hugo: { exec: ["(?im)^npm$"] } }),
  { edge: { plan: "free", botFightMode: "off" } },
  // Of the example's, at Cloudflare itself, one is in the name and not the whole.
  { ...real, ...zone("myexample.org"), "hosts[0].address": "192.0.9.1" },
  { ...real, ...zone("example.org.uk", "h.example.org.uk"), "hosts[0].address": "192.0.9.1" },
  { "secrets.site.current": x(32) },
  { "secrets.site.current": x(512) },
  // For GitHub it is text that only begins like a key of Standard Webhooks.
  { "secrets.site.current": `whsec_${x(41)}` },
])("%j has no fault", (changes) => expectFaults(changes));

const partOfName = ", and ssh takes the port or the brackets for a part of the name. Use ssh://";
const withPassword = (other: string) => `, with a name or a password. Use ${other}; a private repository`;
/** Each value is one fault: `<key> is <value><says>`. */
test.each<[key: string, says: string, ...values: unknown[]]>([
  ["zone", ". Use a DNS name in lower case, such as example.org.", "", "203.0.113.1", ["example.org"], "EXAMPLE"],
  ["zone", ". Use", "example.or-", "example-.org", `${"a.".repeat(126)}org`],
  ["edge.plan", ". Use one of free, pro", "gold"],
  ["edge", ". Use an object with the keys plan, botFightMode, generation, canary.", "pro", []],
  ["edge.botFightMode", ", but a rule skips bot products", "off"],
  ["edge.botFightMode", ". Use off, or leave it out", "on"],
  ["edge.canary", ". Use true or false.", "no"],
  ["limits.bodyBytes", ". Use a number of bytes from 1024", 1],
  ["limits", ". Use an object", ["a"]],

  ["hosts", ". Use a list of at least one host.", [], "web1"],
  ["hosts[0].name", ". Use 1 to 32 letters", "web1-"],
  ["hosts[0].ssh", ". Use", "-oProxyCommand=x", "root@web1 -v", "root@-web1", "ssh://root@web1:0"],
  ["hosts[0].ssh", ". Use", "ssh://root@web1:65536", "ssh://root@[web1]:22", "xssh://root@web1"],
  ["hosts[0].ssh", ". Use", "ssh://root:hunter2@web1"],
  ["hosts[0].ssh", `${partOfName}root@web1:2222.`, "root@web1:2222"],
  ["hosts[0].ssh", `${partOfName}root@[2001:db8::1].`, "root@[2001:db8::1]"],
  ["hosts[0].ssh", `${partOfName}[2001:db8::1]:22.`, "[2001:db8::1]:22"],
  ["hosts[0].address", ". Use an IPv4 address", "2001:db8::1"],
  ["hosts[0].address", ", which the internet does not route. Use", "10.0.0.5"],
  ["hosts[0].address", ", which is Cloudflare's. Use", "104.16.0.10"],
  ["hosts[0].address6", ". Use an IPv6", "203.0.113.1"],
  ["hosts[0].address6", ", which the internet does not", "fd00::1"],
  ["hosts[0].address6", ", which is Cloudflare's", "2606:4700::10"],
  ["hosts[0].hostname", ", which is not in", "hooks.example.com"],
  ["hosts[0].originPort", ". Use a TCP port", 70_000],

  ["hooks", ". Use", { site: hook }],
  ["hooks[0].name", ". Use 1 to 32 letters", "../x", "Site"],
  ["hooks[0].name", ", which YAML reads as a number: put it in quotes. Use", 7],
  ["hooks[0].gitHost", ". Use one of forgejo, gitea", "sourcehut"],
  ["hooks[0].sources[0]", ", which admits every", "0.0.0.0/0"],
  ["hooks[0].sources[0]", ", which covers the host itself", "127.0.0.1", "::1"],
  ["hooks[0].sources[0]", ", which overlaps Cloudflare's", "104.16.0.0/13"],
  ["hooks[0].sources[0]", ", which the internet does not", "10.1.2.3", "fd00::/8"],
  ["hooks[0].repository", withPassword("https://github.com/x.git"), "https://ada@github.com/x.git"],
  ["hooks[0].repository", withPassword("https://github.com/x.git"), "https://u:hunter2@github.com/x.git"],
  ["hooks[0].repository", withPassword("ssh://git@github.com/x.git"), "ssh://git:hunter2@github.com/x.git"],
  ["hooks[0].repository", ', and an address has no " " here. Use', `see ${hook.repository}`],
  // Whether it needs host keys and a deploy key is unknown.
  ["hooks[0].repository", ". Use", "example/site"],
  ["hooks[0].branch", ', and git accepts no ".." there (character 5). Use a branch name that git accepts', "main..dev"],
  ["hooks[0].branch", ". Use", ""],
  ["hooks[0].branch", ", which YAML reads as a boolean: put it", true],
  ["hooks[0].branch", ", the full name of a ref. Use a branch's name alone, such as main.", "refs/tags/refs/heads/v1"],
  ["hooks[0].branch", ", the full name of a ref. Use a branch's name alone, such as dev.", "refs/heads/dev"],
])("%s is wrong%s", (key, says, ...values) => {
  for (const value of values)
    expectFaults({ ...(key.includes("sources") && selfHosted()), [key]: value }, `${key} ${found(value)}${says}`);
});

/** One mistake is one fault, unless more are listed. */
test.each<[says: string, Changes, ...more: string[]]>([
  ['hosts[0].hostname is "hooks.example.org", which is not in', { zone: "example.o" }],
  ["edge.plan is missing. Use one of free, pro", { "edge.plan": undefined }],
  ["limit is not a key pushgate knows. Did you mean limits?", { limit: { a: 1 } }],
  ["hosts[0].state is a part of another key, written without --path", { "pushgate:hosts[0].state": "absent" }],
  ["hooks[0].colour is not a key pushgate knows. Check its", { "hooks[0].colour": "red" }],
  ["hooks[0].sources is set, but github publishes", { "hooks[0].sources": ["198.51.100.0/28"] }],
  ["hooks[0].sources is missing, and gitea publishes no", selfHosted({ sources: undefined })],
  ['hooks[0].repository is "a/b". Use', { "hooks[0].repository": "a/b", "secrets.site.deployKey": "x" }],

  [
    'secrets.site is missing. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand',
    { secrets: {} },
  ],
  ["secrets.site is missing. Run:", { secrets: undefined }],
  ["secrets is no object. For each hook, run:", { secrets: "none" }],
  ["secrets is a list. For each hook, run:", { secrets: [] }],
  ["secrets.site has the wrong type. Use", { "secrets.site": "hunter2" }],
  [
    "secrets.site.current has the wrong type. Use",
    { "secrets.site.current": 1234567, "secrets.site.previous": ["hunter2"] },
    "secrets.site.previous has the wrong type. Use",
  ],
  ["secrets.site.colour is not a key pushgate knows. Check", { "secrets.site.colour": "red" }],
  ["secrets.site.current has fewer than 32 characters. Use 32 to 512", { "secrets.site.current": x(31) }],
  ["secrets.site.current has more than 512", { "secrets.site.current": x(513) }],
  ["secrets.site.current contains white space or a", { "secrets.site.current": `${x(32)} y` }],
  [
    'secrets.site.current is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "whsec_$(openssl',
    { ...selfHosted({ gitHost: "gitlab-self-managed" }), "secrets.site.current": `whsec_${x(41)}` },
  ],
  [
    "secrets.site.current is no key of Standard Webhooks",
    selfHosted({ gitHost: "standard-webhooks" }),
    "secrets.site.previous is no key of Standard Webhooks",
  ],
  [
    "secrets.other belongs to no hook. Correct the hook's name, or run: npx pulumi config rm",
    { "secrets.other": { current: "short" } },
    "secrets.other.current has fewer than 32 characters",
  ],
  ["secrets.site.status has more than 1024", { "secrets.site.status": x(1025) }],
  ["secrets.site.status has fewer than 20", { "secrets.site.status": x(19) }],
  ["secrets.site.status contains white", { "secrets.site.status": ` ${x(20)}` }],
  ["secrets.site.status is set, but the hook has no site", { ...without, "secrets.site.status": x(20) }],
  ["secrets.site.status is set, but gogs has", { ...selfHosted({ gitHost: "gogs" }), "secrets.site.status": x(20) }],
  ['hooks[0].gitHost is "sourcehut"', { "hooks[0].gitHost": "sourcehut", "secrets.site.status": x(20) }],

  ["cloudflare:apiToken has characters that no token has", { "cloudflare:apiToken": "Bearer hunter2" }],
  ["cloudflare:apiToken has characters", { "cloudflare:apiToken": "hunter2\n" }],
  ["cloudflare:apiToken is missing: pushgate reads it from the stack's", { "cloudflare:apiToken": undefined }],
  [
    'zone is "example.org", the example\'s. Use',
    { ...real, ...selfHosted(), "hosts[0].address6": "2001:db8::10" },
    'hosts[0].address is "203.0.113.10", which is reserved for documentation',
    'hosts[0].address6 is "2001:db8::10", which is reserved for documentation',
    'hooks[0].sources[0] is "198.51.100.8", which is reserved for documentation',
  ],
  // A wrong shape hides no fault between keys, and all faults come together.
  [
    'edge is "pro"',
    {
      ...{ edge: "pro", typo: {}, tpyo: 1, "hosts[0].address": "none", "hosts[0].originPort": -1 },
      ...{ "hosts[1]": { ...second, hostname: "a.example.com" }, "hosts[2]": second, "hooks[0].branch": "" },
      "hooks[1]": { ...hook, repository: "git@gitlab.com:example/site.git" },
      "secrets.site.current": "hunter2",
    },
    'hosts[0].address is "none"',
    "hosts[0].originPort is -1",
    "hooks[0].branch is empty",
    "typo is not a key",
    "tpyo is not a key",
    'hosts[1].hostname is "a.example.com", which is not in the zone example.org',
    'hosts[2].name repeats hosts[1].name, "web2"',
    'hosts[2].ssh repeats hosts[1].ssh, "root@web2"',
    'hosts[2].address repeats hosts[1].address, "203.0.113.11"',
    'hooks[1].repository is at gitlab.com, and gitHost is "github"',
    "secrets.site.current has fewer than 32 characters",
  ],
])("%s", (says, changes, ...more) => expectFaults(changes, says, ...more));

const two = (change: object) => ({
  "hosts[0].address6": "2001:db8::1",
  "hosts[1]": { ...second, address6: "2001:db8::2", ...change },
});
const to = (url: string, more = {}) => ({ name: "team", url, format: "standard", ...more });
const notifyKey = `whsec_${"A".repeat(43)}=`;
const ofTwo = (change: object, first: object = {}) => ({
  ...withSite({ hostname: "www.example.org", notify: [to("https://chat.example.org/x")], ...first }),
  "hooks[1]": {
    ...{ ...hook, name: "docs" },
    site: { webRoot: "/var/www/docs", content: "/srv/docs", hostname: "docs.example.org", ...change },
  },
  secrets: { site: { ...secrets.site, notify: { team: notifyKey } }, docs: secrets.docs },
});
const notifying = (...notify: object[]) => ofTwo({}, { notify });
const port = (originPort: number, ssh = host.ssh) => ({ "hosts[0].originPort": originPort, "hosts[0].ssh": ssh });
const [own, otherSites, ssh] = ["pushgate's own ports", "port of the host's other sites", "SSH's port"];
const [itself, notify] = ["pushgate itself answers", "hooks[0].site.notify"];

test("two of everything, side by side, has no fault", () => {
  expectFaults({ ...two({ ssh: "ssh://root@web1.example.org:2222", originPort: 9460 }), ...without });
  expectFaults(ofTwo({ folders: { a: "/srv/a" } }));
  expectFaults(port(9870));
  expectFaults({ ...two({}), ...ofTwo({}) });
  // The ports may differ where pushgate serves no site, or one of the hosts leaves.
  expectFaults(two({ originPort: 9443 }));
  expectFaults({ ...two({ originPort: 9443, state: "absent" }), ...ofTwo({}) });
});

/** Every pair of values that must differ: the fault is at the one, and names the other. */
test.each<[key: string, other: string, Changes]>([
  ["hosts[1].name", "hosts[0].name", two({ name: "web1" })],
  ["hosts[1].hostname", "hosts[0].hostname", two({ hostname: host.hostname })],
  ["hosts[1].ssh", "hosts[0].ssh", two({ ssh: "ssh://root@WEB1.example.org:22" })],
  ["hosts[1].address", "hosts[0].address", two({ address: host.address })],
  ["hosts[1].address6", "hosts[0].address6", two({ address6: "2001:DB8:0::1" })],
  ["hosts[1].originPort", "hosts[0].originPort", { ...two({ originPort: 9443 }), ...ofTwo({}) }],
  ["hosts[0].hostname", "the zone itself", { "hosts[0].hostname": "example.org" }],
  ["hosts[0].originPort", ssh, port(22)],
  ["hosts[0].originPort", ssh, port(2222, "ssh://root@web1:2222")],
  ["hosts[0].originPort", otherSites, port(80)],
  ["hosts[0].originPort", otherSites, port(443)],
  ["hosts[0].originPort", own, port(9461)],
  ["hosts[0].originPort", own, port(9869)],
  ["hooks[1].name", "hooks[0].name", { "hooks[1]": hook }],
  ["hooks[0].repository", itself, selfHosted({ repository: "https://hooks.example.org/x.git" })],
  [`${notify}[0].url`, itself, notifying(to("https://hooks.example.org/webhook/docs"))],
  [`${notify}[0].url`, itself, notifying(to("https://www.example.org/x"))],
  [`${notify}[0].url`, "no slash at its end", notifying(to("https://a.example.org/x", { format: "slack" }))],
  [`${notify}[1].name`, `repeats ${notify}[0].name, "team"`, notifying(to("https://a.org/x"), to("https://b.org/x"))],
  ["hooks[1].site.hostname", "hosts[0].hostname", ofTwo({ hostname: host.hostname })],
  ["hooks[1].site.hostname", "hooks[0].site.hostname", ofTwo({ hostname: "www.example.org" })],
  ["hooks[1].site.webRoot", "hooks[0].site.webRoot", ofTwo({ webRoot: "/var/www/site" })],
  ["hooks[1].site.webRoot", "hooks[0].site.webRoot", ofTwo({ webRoot: "/var/www/site/docs" })],
  ["hooks[1].site.webRoot", "hooks[0].site.content", ofTwo({ webRoot: "/srv/content/site/docs" })],
  ["hooks[1].site.webRoot", "inside content", ofTwo({ webRoot: "/srv/docs/www" })],
  ["hooks[1].site.content", "hooks[0].site.webRoot", ofTwo({ content: "/var/www/site/docs" })],
  ["hooks[1].site.folders.a", "hooks[0].site.webRoot", ofTwo({ folders: { a: "/var/www/site/a" } })],
  ...(["amd64", "arm64"] as const).map((architecture): [string, string, Changes] => [
    "hooks[1].site.tools.sass",
    "in hooks[0].site, with other digests",
    ofTwo(
      { tools: { sass: { ...release("1.2.3"), [architecture]: "c".repeat(64) } } },
      { tools: { sass: release("1.2.3") } },
    ),
  ]),
  ["hooks[1].site.writers", "a group of your own", ofTwo({ writers: "pushgate-nginx" })],
  ["secrets.site.previous", "current", { "secrets.site.previous": secrets.site.current }],
  ["secrets.site.notify.team", "current", { ...ofTwo({}), "secrets.site.current": notifyKey }],
])("%s is not as %s", (key, other, changes) => {
  const faults = faultsOf(changes);
  expect(faults).toEqual([expect.stringContaining(other)]);
  expect(faults[0]!.startsWith(`${key} `)).toBe(true);
});

test("two sites may have two releases of one program", () => {
  const other = { ...release("1.2.4"), amd64: "c".repeat(64) };
  expect(faultsOf(ofTwo({ tools: { sass: other } }, { tools: { sass: release("1.2.3") } }))).toEqual([]);
});

/** Of a repository elsewhere, the kind that fits; undefined where the one that is written does. */
test.each<[gitHost: string, repository: string, other?: string]>([
  ["github", "https://WWW.GitHub.com/a/b.git"],
  ["github", "https://notgithub.com/a/b.git", "github-enterprise with `sources`"],
  ["github", "https://acme.ghe.com/a/b.git", "github-enterprise with `sources`"],
  ["github", "https://gitlab.com/a/b.git", "gitlab"],
  ["github-enterprise", "https://acme.ghe.com/a/b.git"],
  ["github-enterprise", "https://ghe.example.net/a/b.git"],
  ["github-enterprise", "https://github.com/a/b.git", "github"],
  ["gitlab", "https://gitlab.example.net/a/b.git", "gitlab-self-managed with `sources`"],
  ["gitlab-self-managed", "https://gitlab.com/a/b.git", "gitlab"],
  ["bitbucket", "https://git.example.net/scm/a/b.git", "bitbucket-data-center with `sources`"],
  ["bitbucket-data-center", "https://bitbucket.org/a/b.git", "bitbucket"],
  ["gitea", "https://codeberg.org:8443/a/b.git", "forgejo with `sources`"],
  ["gitea", "https://acme.ghe.com/a/b.git", "github-enterprise with `sources`"],
])("gitHost %s and the repository %s: %s", (gitHost, repository, other) => {
  const { hostname } = new URL(repository);
  const says = `hooks[0].repository is at ${hostname}, and gitHost is "${gitHost}". Use a repository of the git host that delivers, or gitHost: ${other}.`;
  const sources = ["github", "gitlab", "bitbucket"].includes(gitHost) ? undefined : ["198.51.100.8"];
  const changes = { "hooks[0].gitHost": gitHost, "hooks[0].repository": repository, "hooks[0].sources": sources };
  expect(faultsOf(changes)).toEqual(other === undefined ? [] : [says]);
});

test("each hook has its secrets, newest first, and its other credentials beside them", () => {
  const deployKey = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
  const credentials = { deployKey, status: "s".repeat(20), purge: "p".repeat(20) };
  const { settings, secrets: found } = parsed({
    "hooks[0].repository": "git@github.com:example/site.git",
    ...withSite({
      knownHosts: ["github.com ssh-ed25519 AAAA"],
      notify: [to("https://chat.example.org/b"), to("https://ntfy.example.org/b", { name: "phone", format: "ntfy" })],
      ...{ hostname: "www.example.org", purge: true, previews: { hostname: "preview.example.org" } },
    }),
    "hooks[1]": { ...hook, name: "docs", site: { webRoot: "/var/www/docs" } },
    "secrets.site": { ...secrets.site, ...credentials, notify: { team: notifyKey, phone: x(20) } },
    "secrets.docs": secrets.docs,
  });
  expect(found).toEqual({
    site: [secrets.site.current, secrets.site.previous],
    "site.deploy-key": [deployKey],
    "site.status": [credentials.status],
    "site-previews.deploy-key": [deployKey],
    "site-previews.status": [credentials.status],
    "site.notify": [`team:${notifyKey}`, `phone:${x(20)}`],
    "site.purge": [credentials.purge],
    docs: [secrets.docs.current],
  });
  expect(settings.hooks.map((hook) => [hook.name, "setsStatus" in hook])).toEqual([
    ["site", true],
    ["docs", false],
  ]);
  expect(JSON.stringify(settings)).not.toMatch(/PRIVATE KEY|ssss|whsec_|pppp/);
});

const plain = { isSecret: (key: string) => key === "cloudflare:apiToken" };
test("all secrets in plain text are a fault, and no secrets at all none of that kind", () => {
  expect(faultsOf({}, plain)).toEqual([expect.stringMatching(/^secrets is plain text\. For each hook, run: /)]);
  expect(faultsOf({ secrets: {} }, plain)).toEqual([expect.stringMatching(/^secrets\.site is missing/)]);
});
test.each(["t", "a b"])("Cloudflare's token %j in plain text is one fault", (token) => {
  expect(faultsOf({ "cloudflare:apiToken": token }, { isSecret: (key) => key !== "cloudflare:apiToken" })).toEqual([
    expect.stringMatching(/^cloudflare:apiToken is plain text\. Make a new token, and run: /),
  ]);
});

/** One beside an encrypted one, which only the stack file shows. */
test.each<[stackFile: string, ...plain: string[]]>([
  [""],
  ["encryptionsalt: v1:abc"],
  ["config: { pushgate:secrets: null }"],
  ["config: { pushgate:secrets: { site: null } }"],
  // These two have a fault of their shape.
  ["config: { pushgate:secrets: { site: [plain] } }"],
  ["config: { pushgate:secrets: { site: { current: { more: plain } } } }"],
  ["config: { pushgate:secrets: { secure: v1:abc } }"],
  ["config: { pushgate:secretsOther: { a: b }, other:pushgate:secrets: { a: b }, pushgate:zone: a }"],
  ["config: { pushgate:secrets: { site: { current: { secure: v1:abc }, previous: plain } } }", "site.previous"],
  ["config: { pushgate:secrets: { site: { current: 7 } } }", "site.current"],
  ["config: { pushgate:secrets: { site: { current: a, previous: b } } }", "site.current", "site.previous"],
  ["config: { pushgate:secrets.site: { current: plain } }", "site.current"],
  ["config: { pushgate:secrets: { secure: { current: plain } } }", "secure.current"],
  ["config: { pushgate:secrets: { site: { secure: v1:abc, current: a } } }", "site.secure", "site.current"],
])("secrets in plain text are found in the stack file %s", (stackFile, ...paths) => {
  const run = "Make a new secret, and run: npx pulumi config set --secret --path pushgate:secrets.";
  const says = (path: string) => `secrets.${path} is plain text beside encrypted secrets. ${run}${path}`;
  expect(faultsOf({}, { stackFile })).toEqual(paths.map(says));
});
