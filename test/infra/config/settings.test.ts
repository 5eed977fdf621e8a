/** A configuration without faults, and a table of faults by their beginnings; test/golden/messages.txt has each text whole. */
import { describe, expect, test } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { networks } from "../../../infra/networks.ts";
import { release, secrets, stackConfig } from "../../fixtures.ts";

type Overrides = Readonly<Record<string, unknown>>;
const host = { name: "web1", ssh: "root@web1.example.org", address: "203.0.113.10", hostname: "hooks.example.org" };
const second = { name: "web2", ssh: "root@web2", address: "203.0.113.11", hostname: "hooks2.example.org" };
const hook = { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" };
const site = { webRoot: "/var/www/site", content: "/srv/content/site" };
const fits = { "pushgate:hosts": [host], "pushgate:hooks": [hook], "pushgate:secrets": { site: secrets.site } };

type Given = { readonly isSecret?: (key: string) => boolean; readonly stackFile?: string };
const parsed = (overrides: Overrides, { isSecret = () => true, stackFile }: Given = {}) =>
  parseSettings(stackConfig({ ...fits, ...overrides }), isSecret, stackFile);

function faultsOf(overrides: Overrides, given?: Given): string[] {
  try {
    parsed(overrides, given);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.faults.map(({ key, says }) => `${key} ${says}`);
    throw error;
  }
}
/** The faults, cut to the length of those that are wanted. */
const cut = (faults: readonly string[], wanted: readonly string[]) =>
  faults.map((fault, i) => fault.slice(0, wanted[i]?.length));

const hosts = (...list: object[]) => ({ "pushgate:hosts": list });
const withHost = (change: object) => hosts({ ...host, ...change });
const hooks = (...list: object[]) => ({ "pushgate:hooks": list });
const withHook = (change: object) => hooks({ ...hook, ...change });
const withSite = (change: object) => withHook({ site: { ...site, ...change } });
const selfHosted = (change: object = {}) =>
  withHook({ gitHost: "gitea", repository: "https://git.example.net/site.git", sources: ["198.51.100.8"], ...change });
const from = (...sources: string[]) => selfHosted({ sources });
const withSecrets = (change: object) => ({ "pushgate:secrets": { site: { ...secrets.site, ...change } } });
const zone = (name: unknown, hostname = `hooks.${name}`) => ({ "pushgate:zone": name, ...withHost({ hostname }) });
const edge = (value: unknown) => ({ "pushgate:edge": value });
const x = (count: number) => "x".repeat(count);
const status = { status: x(20) };
const real = { "cloudflare:baseUrl": undefined };

test("the smallest configuration gets every default", () => {
  const { settings } = parsed({ "pushgate:limits": undefined });
  expect(settings.hosts[0]).toEqual({ ...host, sudo: false, originPort: 8443, state: "present" });
  expect(settings.hooks[0]).toMatchObject({ sources: networks.githubHooks.cidrs });
  expect(settings.limits.bodyBytes).toBe(5 << 20);
});

test("sources of a self-hosted git host are sorted, and lose each range that a wider one covers", () => {
  const { settings } = parsed(from("2001:db8:1::/48", "198.51.100.8", "198.51.100.0/28"));
  expect(settings.hooks[0]?.sources).toEqual(["198.51.100.0/28", "2001:db8:1::/48"]);
});

test.each<[Overrides]>([
  [withHook({ branch: "新分支/50%#ünï" })],
  [withHook({ repository: "https://github.com/example/c++.git" })],
  [{ "cloudflare:apiToken": "a-token_1" }],
  [withHost({ name: "w", hostname: "h.example.org" })],
  [zone("example.de")],
  [selfHosted({ repository: "https://git.example.net:8443/site.git" })],
  [selfHosted({ gitHost: "gogs", site })],
  [withSite({ hugo: { exec: ["(?im)^npm$"] } })],
  [edge({ plan: "free", botFightMode: "off" })],
  // Of the example's, at Cloudflare itself, one is in the name and not the whole.
  [{ ...real, ...zone("myexample.org"), ...withHost({ address: "192.0.9.1", hostname: "hooks.myexample.org" }) }],
  [{ ...real, ...zone("example.org.uk"), ...withHost({ address: "192.0.9.1", hostname: "h.example.org.uk" }) }],
  [withSecrets({ current: x(32) })],
  [withSecrets({ current: x(512) })],
  // For GitHub it is text that only begins like a key of Standard Webhooks.
  [withSecrets({ current: `whsec_${x(41)}` })],
])("%j has no fault", (overrides) => expect(faultsOf(overrides)).toEqual([]));

/** One mistake is one fault, unless more are listed. */
test.each<[says: string, Overrides, ...more: string[]]>([
  ["zone is empty. Use a DNS name in lower case, such as example.org.", { "pushgate:zone": "" }],
  ['zone is "203.0.113.1". Use', { "pushgate:zone": "203.0.113.1" }],
  ['zone is "7". Use', { "pushgate:zone": "7" }],
  ["zone is a list. Use a DNS name", { "pushgate:zone": ["example.org"] }],
  ['zone is "EXAMPLE". Use', { "pushgate:zone": "EXAMPLE" }],
  ['zone is "example.or-"', { "pushgate:zone": "example.or-" }],
  ['zone is "example-.org"', { "pushgate:zone": "example-.org" }],
  ['zone is "a.a.', { "pushgate:zone": `${"a.".repeat(126)}org` }],
  ['hosts[0].hostname is "hooks.example.org", which is not in', { "pushgate:zone": "example.o" }],
  ['edge.plan is "gold". Use one of free, pro', edge({ plan: "gold" })],
  ["edge.plan is missing. Use one of free, pro", edge({})],
  ['edge is "pro". Use an object with the keys plan, botFightMode, generation, canary.', edge("pro")],
  ["edge is empty. Use an object", edge([])],
  ['edge.botFightMode is "off", but a rule skips bot products', edge({ plan: "pro", botFightMode: "off" })],
  ['edge.canary is "no". Use true or false.', edge({ plan: "pro", canary: "no" })],
  ["limit is not a key pushgate knows. Did you mean limits?", { "pushgate:limit": { a: 1 } }],
  ["limits.bodyBytes is 1. Use a number of bytes from 1024", { "pushgate:limits": { bodyBytes: 1 } }],
  ["limits is a list. Use an object", { "pushgate:limits": ["a"] }],
  ["hosts[0].state is a part of another key, written without --path", { "pushgate:hosts[0].state": "absent" }],

  ["hosts is empty. Use a list of at least one host.", hosts()],
  ['hosts is "web1". Use a list of at least one host.', { "pushgate:hosts": "web1" }],
  ['hosts[0].name is "web1-"', withHost({ name: "web1-" })],
  ['hosts[0].ssh is "-oProxyCommand=x". Use', withHost({ ssh: "-oProxyCommand=x" })],
  ['hosts[0].ssh is "root@web1 -v". Use', withHost({ ssh: "root@web1 -v" })],
  ...[
    "root@-web1",
    "ssh://root@web1:0",
    "ssh://root@web1:65536",
    "ssh://root@[web1]:22",
    "ssh://root:hunter2@web1",
  ].map((ssh): [string, Overrides] => [`hosts[0].ssh is "${ssh.replace(/^ssh:.*@/, "…@")}". Use`, withHost({ ssh })]),
  ...["root@web1:2222", "root@[2001:db8::1]", "[2001:db8::1]:22"].map((ssh): [string, Overrides] => [
    `hosts[0].ssh is "${ssh}", and ssh takes the port or the brackets for a part of the name. Use ssh://${ssh}.`,
    withHost({ ssh }),
  ]),
  ['hosts[0].address is "2001:db8::1". Use an IPv4 address', withHost({ address: "2001:db8::1" })],
  ['hosts[0].address is "10.0.0.5", which the internet does not route. Use', withHost({ address: "10.0.0.5" })],
  [`hosts[0].address is "104.16.0.10", which is Cloudflare's own. Use`, withHost({ address: "104.16.0.10" })],
  ['hosts[0].address6 is "203.0.113.1". Use an IPv6', withHost({ address6: "203.0.113.1" })],
  ['hosts[0].address6 is "fd00::1", which the internet does not', withHost({ address6: "fd00::1" })],
  [`hosts[0].address6 is "2606:4700::10", which is Cloudflare's`, withHost({ address6: "2606:4700::10" })],
  ['hosts[0].hostname is "hooks.example.com", which is not in', withHost({ hostname: "hooks.example.com" })],
  ["hosts[0].originPort is 70000. Use a TCP port", withHost({ originPort: 70_000 })],

  ["hooks is an object", { "pushgate:hooks": { site: hook } }],
  ["hooks[0].colour is not a key pushgate knows. Check its", withHook({ colour: "red" })],
  ['hooks[0].name is "../x". Use 1 to 32 letters', withHook({ name: "../x" })],
  ['hooks[0].name is "Site". Use', withHook({ name: "Site" })],
  ["hooks[0].name is 7, which YAML reads as a number: put it in quotes. Use", withHook({ name: 7 })],
  ['hooks[0].gitHost is "sourcehut". Use one of forgejo, gitea', withHook({ gitHost: "sourcehut" })],
  ["hooks[0].sources is set, but github publishes", withHook({ sources: ["198.51.100.0/28"] })],
  ["hooks[0].sources is missing, and gitea publishes no", selfHosted({ sources: undefined })],
  ['hooks[0].sources[0] is "198.51.100.1/28", in which host bits are set. Use', from("198.51.100.1/28")],
  ['hooks[0].sources[0] is "0.0.0.0/0", which admits every', from("0.0.0.0/0")],
  ['hooks[0].sources[0] is "127.0.0.1", which covers the host itself', from("127.0.0.1")],
  ['hooks[0].sources[0] is "::1", which covers the host itself', from("::1")],
  [`hooks[0].sources[0] is "104.16.0.0/13", which overlaps Cloudflare's`, from("104.16.0.0/13")],
  ['hooks[0].sources[0] is "10.1.2.3", which the internet does not', from("10.1.2.3")],
  ['hooks[0].sources[0] is "fd00::/8", which the internet does not', from("fd00::/8")],
  ...[
    ["https://ada@github.com/x.git", "https://github.com/x.git"],
    ["https://u:hunter2@github.com/x.git", "https://github.com/x.git"],
    ["ssh://git:hunter2@github.com/x.git", "ssh://git@github.com/x.git"],
  ].map(([repository, other]): [string, Overrides] => [
    `hooks[0].repository is "…@github.com/x.git", with a name or a password. Use ${other}; a private repository`,
    withHook({ repository }),
  ]),
  [
    'hooks[0].repository is "see https://github.com/example/site.git", and an address has no " " here. Use',
    withHook({ repository: `see ${hook.repository}` }),
  ],
  // Whether it needs host keys and a deploy key is unknown.
  ['hooks[0].repository is "example/site". Use', withHook({ repository: "example/site", site })],
  [
    'hooks[0].repository is "example/site". Use',
    { ...withHook({ repository: "example/site", site }), ...withSecrets({ deployKey: "x" }) },
  ],
  [
    'hooks[0].branch is "main..dev", and git accepts no ".." there (character 5). Use a branch name that git accepts',
    withHook({ branch: "main..dev" }),
  ],
  ["hooks[0].branch is empty. Use", withHook({ branch: "" })],
  ["hooks[0].branch is true, which YAML reads as a boolean: put it", withHook({ branch: true })],
  ...[
    ["refs/tags/refs/heads/v1", "main"],
    ["refs/heads/dev", "dev"],
  ].map(([branch, name]): [string, Overrides] => [
    `hooks[0].branch is "${branch}", the full name of a ref. Use a branch's name alone, such as ${name}.`,
    withHook({ branch }),
  ]),

  [
    'secrets.site is missing. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand',
    { "pushgate:secrets": {} },
  ],
  ["secrets.site is missing. Run:", { "pushgate:secrets": undefined }],
  ["secrets is no object. For each hook, run:", { "pushgate:secrets": "none" }],
  ["secrets is a list. For each hook, run:", { "pushgate:secrets": [] }],
  ["secrets.site has the wrong type. Use", { "pushgate:secrets": { site: "hunter2" } }],
  [
    "secrets.site.current has the wrong type. Use",
    withSecrets({ current: 1234567, previous: ["hunter2"] }),
    "secrets.site.previous has the wrong type. Use",
  ],
  ["secrets.site.colour is not a key pushgate knows. Check", withSecrets({ colour: "red" })],
  ["secrets.site.current has fewer than 32 characters. Use 32 to 512", withSecrets({ current: x(31) })],
  ["secrets.site.current has more than 512", withSecrets({ current: x(513) })],
  ["secrets.site.current contains white space or a", withSecrets({ current: `${x(32)} y` })],
  [
    'secrets.site.current is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "whsec_$(openssl',
    { ...selfHosted({ gitHost: "gitlab-self-managed" }), ...withSecrets({ current: `whsec_${x(41)}` }) },
  ],
  [
    "secrets.site.current is no key of Standard Webhooks",
    selfHosted({ gitHost: "standard-webhooks" }),
    "secrets.site.previous is no key of Standard Webhooks",
  ],
  [
    "secrets.other belongs to no hook. Correct the hook's name, or run: npx pulumi config rm",
    { "pushgate:secrets": { site: secrets.site, other: { current: "short" } } },
    "secrets.other.current has fewer than 32 characters",
  ],
  ["secrets.site.status has more than 1024", { ...withSite({}), ...withSecrets({ status: x(1025) }) }],
  ["secrets.site.status has fewer than 20", { ...withSite({}), ...withSecrets({ status: x(19) }) }],
  ["secrets.site.status contains white", { ...withSite({}), ...withSecrets({ status: ` ${x(20)}` }) }],
  ["secrets.site.status is set, but the hook has no site", { ...selfHosted(), ...withSecrets(status) }],
  ["secrets.site.status is set, but gogs has", { ...selfHosted({ gitHost: "gogs", site }), ...withSecrets(status) }],
  ['hooks[0].gitHost is "sourcehut"', { ...withHook({ gitHost: "sourcehut", site }), ...withSecrets(status) }],

  ["cloudflare:apiToken has characters that no token has", { "cloudflare:apiToken": "Bearer hunter2" }],
  ["cloudflare:apiToken has characters", { "cloudflare:apiToken": "hunter2\n" }],
  ["cloudflare:apiToken is missing: pushgate reads it from the stack's", { "cloudflare:apiToken": undefined }],
  [
    'zone is "example.org", the example\'s. Use',
    { ...real, ...withHost({ address6: "2001:db8::10" }), ...from("198.51.100.0/28") },
    'hosts[0].address is "203.0.113.10", which is reserved for documentation',
    'hosts[0].address6 is "2001:db8::10", which is reserved for documentation',
    'hooks[0].sources[0] is "198.51.100.0/28", which is reserved for documentation',
  ],
  // A wrong shape hides no fault between keys, and all faults come together.
  [
    'edge is "pro"',
    {
      ...{ "pushgate:edge": "pro", "pushgate:typo": {} },
      ...hosts({ ...host, address: "none", originPort: -1 }, { ...second, hostname: "a.example.com" }, second),
      ...hooks({ ...hook, branch: "" }, { ...hook, repository: "git@gitlab.com:example/site.git" }),
      ...withSecrets({ current: "hunter2" }),
    },
    'hosts[0].address is "none"',
    "hosts[0].originPort is -1",
    "hooks[0].branch is empty",
    "typo is not a key",
    'hosts[1].hostname is "a.example.com", which is not in the zone example.org',
    'hosts[2].name repeats hosts[1].name, "web2"',
    'hosts[2].ssh repeats hosts[1].ssh, "root@web2"',
    'hosts[2].address repeats hosts[1].address, "203.0.113.11"',
    'hooks[1].repository is at gitlab.com, and gitHost is "github"',
    "secrets.site.current has fewer than 32 characters",
  ],
])("%s", (says, overrides, ...more) => {
  const [faults, wanted] = [faultsOf(overrides), [says, ...more]];
  expect(cut(faults, wanted)).toEqual(wanted);
  // No secret is quoted.
  expect(faults.join()).not.toMatch(/hunter2|1234567/);
});

const two = (change: object) =>
  hosts({ ...host, address6: "2001:db8::1" }, { ...second, address6: "2001:db8::2", ...change });
const to = (url: string, more = {}) => ({ name: "team", url, format: "standard", ...more });
const notifyKey = `whsec_${"A".repeat(43)}=`;
const notified = { ...secrets.site, current: x(32), notify: { team: notifyKey } };
const ofTwo = (change: object, first: object = {}) => ({
  ...hooks(
    { ...hook, site: { ...site, hostname: "www.example.org", notify: [to("https://chat.example.org/x")], ...first } },
    {
      ...hook,
      name: "docs",
      site: { webRoot: "/var/www/docs", content: "/srv/docs", hostname: "docs.example.org", ...change },
    },
  ),
  "pushgate:secrets": { site: notified, docs: secrets.docs },
});
const port = (originPort: number, ssh = host.ssh) => withHost({ originPort, ssh });
const [own, otherSites, ssh] = ["pushgate's own ports", "port of the host's other sites", "SSH's port"];

test("two of everything, side by side, has no fault", () => {
  const near = { ssh: "ssh://root@web1.example.org:2222", originPort: 9460 };
  expect(faultsOf({ ...two(near), ...hooks(hook) })).toEqual([]);
  expect(faultsOf(ofTwo({ folders: { a: "/srv/a" } }))).toEqual([]);
  expect(faultsOf(port(9870))).toEqual([]);
  expect(faultsOf({ ...two({}), ...ofTwo({}) })).toEqual([]);
  // The ports may differ where pushgate serves no site, or one of the hosts leaves.
  expect(faultsOf({ ...two({ originPort: 9443 }), ...withSite({}) })).toEqual([]);
  expect(faultsOf({ ...two({ originPort: 9443, state: "absent" }), ...ofTwo({}) })).toEqual([]);
});

/** Every pair of values that must differ: the fault is at the one, and names the other. */
test.each<[key: string, other: string, Overrides]>([
  ["hosts[1].name", "hosts[0].name", two({ name: "web1" })],
  ["hosts[1].hostname", "hosts[0].hostname", two({ hostname: host.hostname })],
  ["hosts[1].ssh", "hosts[0].ssh", two({ ssh: "ssh://root@WEB1.example.org:22" })],
  ["hosts[1].address", "hosts[0].address", two({ address: host.address })],
  ["hosts[1].address6", "hosts[0].address6", two({ address6: "2001:DB8:0::1" })],
  ["hosts[1].originPort", "hosts[0].originPort", { ...two({ originPort: 9443 }), ...ofTwo({}) }],
  ["hosts[0].hostname", "the zone itself", withHost({ hostname: "example.org" })],
  ["hosts[0].originPort", ssh, port(22)],
  ["hosts[0].originPort", ssh, port(2222, "ssh://root@web1:2222")],
  ["hosts[0].originPort", otherSites, port(80)],
  ["hosts[0].originPort", otherSites, port(443)],
  ["hosts[0].originPort", own, port(9461)],
  ["hosts[0].originPort", own, port(9869)],
  ["hooks[1].name", "hooks[0].name", hooks(hook, hook)],
  ["hooks[0].repository", "pushgate itself answers", selfHosted({ repository: "https://hooks.example.org/x.git" })],
  [
    "hooks[0].site.notify[0].url",
    "pushgate itself answers",
    ofTwo({}, { notify: [to("https://hooks.example.org/webhook/docs")] }),
  ],
  [
    "hooks[0].site.notify[0].url",
    "no slash at its end",
    ofTwo({}, { notify: [to("https://a.example.org/x", { format: "slack" })] }),
  ],
  [
    "hooks[0].site.notify[1].name",
    'repeats hooks[0].site.notify[0].name, "team"',
    ofTwo({}, { notify: [to("https://a.example.org/x"), to("https://b.example.org/x")] }),
  ],
  ["hooks[0].site.notify[0].url", "pushgate itself answers", ofTwo({}, { notify: [to("https://www.example.org/x")] })],
  ["hooks[1].site.hostname", "hosts[0].hostname", ofTwo({ hostname: host.hostname })],
  ["hooks[1].site.hostname", "hooks[0].site.hostname", ofTwo({ hostname: "www.example.org" })],
  ["hooks[1].site.webRoot", "hooks[0].site.webRoot", ofTwo({ webRoot: "/var/www/site" })],
  ["hooks[1].site.webRoot", "hooks[0].site.webRoot", ofTwo({ webRoot: "/var/www/site/docs" })],
  ["hooks[1].site.webRoot", "hooks[0].site.content", ofTwo({ webRoot: "/srv/content/site/docs" })],
  ["hooks[1].site.webRoot", "the system", ofTwo({ webRoot: "/var/log/pushgate-nginx/docs" })],
  ["hooks[1].site.webRoot", "inside content", ofTwo({ webRoot: "/srv/docs/www" })],
  ["hooks[1].site.content", "hooks[0].site.webRoot", ofTwo({ content: "/var/www/site/docs" })],
  ["hooks[1].site.content", "inside webRoot", ofTwo({ content: "/var/www/docs" })],
  ["hooks[1].site.folders.a", "hooks[0].site.webRoot", ofTwo({ folders: { a: "/var/www/site/a" } })],
  [
    "hooks[1].site.tools.sass",
    "in hooks[0].site, with other digests",
    ofTwo({ tools: { sass: { ...release("1.2.3"), amd64: "c".repeat(64) } } }, { tools: { sass: release("1.2.3") } }),
  ],
  ["hooks[1].site.writers", "a group of your own", ofTwo({ writers: "pushgate-nginx" })],
  ["secrets.site.previous", "current", withSecrets({ current: x(32), previous: x(32) })],
  [
    "secrets.site.notify.team",
    "current",
    { ...ofTwo({}), "pushgate:secrets": { site: { ...notified, current: notifyKey }, docs: secrets.docs } },
  ],
])("%s is not as %s", (key, other, overrides) => {
  const faults = faultsOf(overrides);
  expect(faults).toEqual([expect.stringContaining(other)]);
  expect(faults[0]!.startsWith(`${key} `)).toBe(true);
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
  ["gitea", "https://codeberg.org/a/b.git", "forgejo with `sources`"],
  ["gitea", "https://acme.ghe.com/a/b.git", "github-enterprise with `sources`"],
])("gitHost %s and the repository %s: %s", (gitHost, repository, other) => {
  const { host } = new URL(repository);
  const sources = ["github", "gitlab", "bitbucket"].includes(gitHost) ? {} : { sources: ["198.51.100.8"] };
  const says = `hooks[0].repository is at ${host}, and gitHost is "${gitHost}". Use a repository of the git host that delivers, or gitHost: ${other}.`;
  expect(faultsOf(withHook({ gitHost, repository, ...sources }))).toEqual(other === undefined ? [] : [says]);
});

test("each hook has its secrets, newest first, and its other credentials beside them", () => {
  const credentials = {
    deployKey: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
    status: "s".repeat(20),
    notify: { team: notifyKey, phone: x(20) },
    purge: "p".repeat(20),
  };
  const readOverSsh = {
    ...hook,
    repository: "git@github.com:example/site.git",
    site: {
      ...site,
      knownHosts: ["github.com ssh-ed25519 AAAA"],
      notify: [to("https://chat.example.org/b"), to("https://ntfy.example.org/b", { name: "phone", format: "ntfy" })],
      hostname: "www.example.org",
      purge: true,
      previews: { hostname: "preview.example.org" },
    },
  };
  const given = { site: { ...secrets.site, ...credentials }, docs: secrets.docs };
  const { settings, secrets: found } = parsed({
    ...hooks(readOverSsh, { ...hook, name: "docs", site: { webRoot: "/var/www/docs" } }),
    "pushgate:secrets": given,
  });
  expect(found).toEqual({
    site: [secrets.site.current, secrets.site.previous],
    "site.deploy-key": [credentials.deployKey],
    "site.status": [credentials.status],
    "site-previews.deploy-key": [credentials.deployKey],
    "site-previews.status": [credentials.status],
    "site.notify": [`team:${notifyKey}`, `phone:${x(20)}`],
    "site.purge": [credentials.purge],
    docs: [secrets.docs.current],
  });
  expect(settings.hooks.map(({ name, setsStatus }) => [name, setsStatus])).toEqual([
    ["site", true],
    ["docs", undefined],
  ]);
  expect(JSON.stringify(settings)).not.toMatch(/PRIVATE KEY|ssss|whsec_|pppp/);
});

describe("a secret in plain text is a fault", () => {
  const plain = { isSecret: (key: string) => key === "cloudflare:apiToken" };
  test("all secrets, and no secrets at all", () => {
    expect(faultsOf({}, plain)).toEqual([expect.stringMatching(/^secrets is plain text\. For each hook, run: /)]);
    expect(faultsOf({ "pushgate:secrets": {} }, plain)).toEqual([expect.stringMatching(/^secrets\.site is missing/)]);
  });
  test.each(["t", "a b"])("Cloudflare's token %j, with one fault", (token) => {
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
  ])("in the stack file %s", (stackFile, ...paths) => {
    const says = (path: string) =>
      `secrets.${path} is plain text beside encrypted secrets. Make a new secret, and run: npx pulumi config set --secret --path pushgate:secrets.${path}`;
    expect(faultsOf({}, { stackFile })).toEqual(paths.map(says));
  });
});
