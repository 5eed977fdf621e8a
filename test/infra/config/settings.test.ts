/** A configuration without faults, and a table of faults by their beginnings; test/golden/messages.txt has each text whole. */
import { describe, expect, test } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { networks } from "../../../infra/networks.ts";
import { secrets, stackConfig } from "../../fixtures.ts";

type Overrides = Readonly<Record<string, unknown>>;
const host = { name: "web1", ssh: "root@web1.example.org", address: "203.0.113.10", hostname: "hooks.example.org" };
const second = { name: "web2", ssh: "root@web2", address: "203.0.113.11", hostname: "hooks2.example.org" };
const hook = { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" };
const site = { webRoot: "/var/www/site", content: "/srv/content/site" };
const fits = { "pushgate:hosts": [host], "pushgate:hooks": [hook], "pushgate:secrets": { site: secrets.site } };

type Given = { readonly isSecret?: (key: string) => boolean; readonly stackFile?: string; readonly hasToken?: boolean };
const parsed = (overrides: Overrides, { isSecret = () => true, stackFile, hasToken }: Given = {}) =>
  parseSettings(stackConfig({ ...fits, ...overrides }), isSecret, stackFile, hasToken);

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
  [withHook({ branch: "HEADLINE" })],
  [withHook({ branch: "@home" })],
  [withHook({ branch: "home@" })],
  [{ "cloudflare:apiToken": "a-token_1" }],
  [withHost({ name: "w", hostname: "h.example.org" })],
  [zone("example.de")],
  [zone("example.info")],
  [selfHosted({ repository: "https://git.example.net:8443/site.git" })],
  [selfHosted({ gitHost: "gogs", site })],
  [withSite({ hugo: { minimum: "10.1" } })],
  [withSite({ hugo: { minimum: "0.111.12" } })],
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
  ['hosts[0].address is "2001:db8::1". Use an IPv4 address', withHost({ address: "2001:db8::1" })],
  ['hosts[0].address is "10.0.0.5", which the internet does not route. Use', withHost({ address: "10.0.0.5" })],
  [`hosts[0].address is "104.16.0.10", which is Cloudflare's own. Use`, withHost({ address: "104.16.0.10" })],
  ['hosts[0].address6 is "203.0.113.1". Use an IPv6', withHost({ address6: "203.0.113.1" })],
  ['hosts[0].address6 is "fd00::1", which the internet does not', withHost({ address6: "fd00::1" })],
  [`hosts[0].address6 is "2606:4700::10", which is Cloudflare's`, withHost({ address6: "2606:4700::10" })],
  ['hosts[0].hostname is "hooks.example.com", which is not in', withHost({ hostname: "hooks.example.com" })],
  ['hosts[0].hostname is "evilexample.org", which is not in', withHost({ hostname: "evilexample.org" })],
  ['hosts[0].hostname is "example.org", the zone itself', withHost({ hostname: "example.org" })],
  ['hosts[0].hostname is "Hooks.example.org". Use', withHost({ hostname: "Hooks.example.org" })],
  ["hosts[0].originPort is 22, SSH's port: only", withHost({ originPort: 22 })],
  ["hosts[0].originPort is 443, the port of the host's other", withHost({ originPort: 443 })],
  ["hosts[0].originPort is 80, the port of the host's other", withHost({ originPort: 80 })],
  ["hosts[0].originPort is 70000. Use a TCP port", withHost({ originPort: 70_000 })],
  ['hosts[0].state is "gone". Use one of present, absent, lost.', withHost({ state: "gone" })],
  [
    'hosts[1].name repeats hosts[0].name, "web1". Use a name for each host',
    hosts(...Array(2).fill({ ...host, ssh: "root@hosts[77]" })),
    'hosts[1].hostname repeats hosts[0].hostname, "hooks.example.org". Use a hostname for each host',
    // A target in the form of a place in a list is quoted as it is.
    'hosts[1].ssh repeats hosts[0].ssh, "root@hosts[77]". List each host once',
    'hosts[1].address repeats hosts[0].address, "203.0.113.10". Use an address for each host',
  ],
  [
    'hosts[11].hostname is "h.example.com"',
    hosts(
      ...Array.from({ length: 12 }, (_, i) => ({
        ...{ name: `web${i}`, ssh: `root@web${i}`, address: `203.0.113.${i}` },
        hostname: i === 11 ? "h.example.com" : `h${i}.example.org`,
      })),
    ),
  ],

  ["hooks is empty. Use a list of at least one hook.", hooks()],
  ["hooks is an object", { "pushgate:hooks": { site: hook } }],
  ["hooks[0].colour is not a key pushgate knows. Check its", withHook({ colour: "red" })],
  ['hooks[0].name is "../x". Use 1 to 32 letters', withHook({ name: "../x" })],
  ['hooks[0].name is "Site". Use', withHook({ name: "Site" })],
  ["hooks[0].name is 7, which YAML reads as a number: put it in quotes. Use", withHook({ name: 7 })],
  [
    `hooks[0].name is "github", the name of the socket for github's published ranges. Use another name.`,
    { ...selfHosted({ name: "github" }), "pushgate:secrets": { github: secrets.site } },
  ],
  ['hooks[1].name repeats hooks[0].name, "site". Use a name for each hook: its path is', hooks(hook, hook)],
  ['hooks[0].gitHost is "sourcehut". Use one of forgejo, gitea', withHook({ gitHost: "sourcehut" })],
  ["hooks[0].sources is set, but github publishes", withHook({ sources: ["198.51.100.0/28"] })],
  ["hooks[0].sources is missing, and gitea publishes no", selfHosted({ sources: undefined })],
  ['hooks[0].sources[0] is "git.example.net". Use an address, or', from("git.example.net")],
  ['hooks[0].sources[0] is "198.51.100.1/28", in which host bits are set. Use', from("198.51.100.1/28")],
  ['hooks[0].sources[0] is "0.0.0.0/0", which admits every', from("0.0.0.0/0")],
  ['hooks[0].sources[0] is "127.0.0.1", which covers the host itself', from("127.0.0.1")],
  ['hooks[0].sources[0] is "::1", which covers the host itself', from("::1")],
  [`hooks[0].sources[0] is "104.16.0.0/13", which overlaps Cloudflare's`, from("104.16.0.0/13")],
  ['hooks[0].sources[0] is "10.1.2.3", which the internet does not', from("10.1.2.3")],
  ['hooks[0].sources[0] is "fd00::/8", which the internet does not', from("fd00::/8")],
  ['hooks[0].repository is "…@example.org/x.git". Use an', withHook({ repository: "https://u:p@example.org/x.git" })],
  ['hooks[0].repository is "see https', withHook({ repository: `see ${hook.repository}` })],
  ['hooks[0].repository is "https', withHook({ repository: `${hook.repository} here` })],
  // Whether it needs host keys and a deploy key is unknown.
  ['hooks[0].repository is "example/site". Use', withHook({ repository: "example/site", site })],
  [
    'hooks[0].repository is "example/site". Use',
    { ...withHook({ repository: "example/site", site }), ...withSecrets({ deployKey: "x" }) },
  ],
  ["hooks[0].repository is at gitlab.com", withHook({ repository: "git@gitlab.com:example/site.git", site })],
  ['hooks[0].repository is at github.com, and gitHost is "gitlab"', withHook({ gitHost: "gitlab" })],
  ['hooks[0].repository is at github.com, and gitHost is "forgejo"', selfHosted({ ...hook, gitHost: "forgejo" })],
  ...["--upload-pack=x", "HEAD", "@", "main~1", "main..dev", "main.lock", "main.lock/a", "main/"].map(
    (branch): [string, Overrides] => [`hooks[0].branch is "${branch}". Use a branch name`, withHook({ branch })],
  ),
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
  ["secrets.site.current has fewer than 32", withSecrets({ current: "" })],
  ["secrets.site.current has more than 512", withSecrets({ current: x(513) })],
  ["secrets.site.current contains white space or a", withSecrets({ current: `${x(32)} y` })],
  ["secrets.site.previous equals current. Remove it", withSecrets({ current: x(32), previous: x(32) })],
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
  ["secrets.site.status contains white", { ...withSite({}), ...withSecrets({ status: `${x(20)} ` }) }],
  ["secrets.site.status is set, but the hook has no site", { ...selfHosted(), ...withSecrets(status) }],
  ["secrets.site.status is set, but gogs has", { ...selfHosted({ gitHost: "gogs", site }), ...withSecrets(status) }],
  ['hooks[0].gitHost is "sourcehut"', { ...withHook({ gitHost: "sourcehut", site }), ...withSecrets(status) }],

  ["cloudflare:apiToken has characters that no token has", { "cloudflare:apiToken": "Bearer hunter2" }],
  ["cloudflare:apiToken has characters", { "cloudflare:apiToken": "hunter2\n" }],
  ["cloudflare:apiToken has characters", { "cloudflare:apiToken": "" }],
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

test("each hook has its secrets, newest first, and its other credentials beside them", () => {
  const credentials = {
    deployKey: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
    status: "s".repeat(20),
    notify: `whsec_${"A".repeat(43)}=`,
  };
  const readOverSsh = {
    ...hook,
    repository: "git@github.com:example/site.git",
    site: { ...site, knownHosts: ["github.com ssh-ed25519 AAAA"], notify: "https://chat.example.org/builds" },
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
    "site.notify": [credentials.notify],
    docs: [secrets.docs.current],
  });
  expect(settings.hooks.map(({ name, setsStatus }) => [name, setsStatus])).toEqual([
    ["site", true],
    ["docs", undefined],
  ]);
  expect(JSON.stringify(settings)).not.toMatch(/PRIVATE KEY|ssss|whsec_/);
});

describe("a secret in plain text is a fault", () => {
  const plain = { isSecret: () => false };
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

test("a missing token is a fault, unless the environment has one", () => {
  expect(faultsOf({}, { hasToken: false })).toEqual([
    expect.stringMatching(/^cloudflare:apiToken is missing\. Make a/),
  ]);
  expect(faultsOf({}, { hasToken: true })).toEqual([]);
});
