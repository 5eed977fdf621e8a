/** A configuration without faults, and a table of faults with the exact text that a user reads. */
import { describe, expect, test } from "vitest";
import { type Schema, SettingsError, unwrapped } from "../../../infra/config/faults.ts";
import { shape } from "../../../infra/config/schema.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { networks } from "../../../infra/networks.ts";
import { secrets, stackConfig } from "../../fixtures.ts";

const host = { name: "web1", ssh: "root@web1.example.org", address: "203.0.113.10", hostname: "hooks.example.org" };
const hook = { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" };
const site = { webRoot: "/var/www/site", content: "/srv/content/site" };
const fits = { "pushgate:hosts": [host], "pushgate:hooks": [hook], "pushgate:secrets": { site: secrets.site } };

function faultsOf(overrides: Record<string, unknown>, encrypted = true, stackFile?: string): string[] {
  try {
    parseSettings(stackConfig({ ...fits, ...overrides }), () => encrypted, stackFile);
    return [];
  } catch (error) {
    if (error instanceof SettingsError) return error.faults.map(({ key, says }) => `${key} ${says}`);
    throw error;
  }
}

const withHost = (change: object) => ({ "pushgate:hosts": [{ ...host, ...change }] });
const withHook = (change: object) => ({ "pushgate:hooks": [{ ...hook, ...change }] });
const selfHosted = (change: object) => withHook({ gitHost: "gitea", sources: ["198.51.100.8"], ...change });
const real = { "cloudflare:baseUrl": undefined };

test("the smallest configuration gets every default", () => {
  const { settings } = parseSettings(stackConfig({ ...fits, "pushgate:limits": undefined }), () => true);
  expect(settings.hosts[0]).toEqual({ ...host, sudo: false, originPort: 8443, state: "present" });
  expect(settings.hooks[0]).toMatchObject({ sources: networks.githubHooks.cidrs });
  expect(settings.limits.bodyBytes).toBe(5 << 20);
});

test("sources of a self-hosted git host are sorted, and lose each range that a wider one covers", () => {
  const sources = ["2001:db8:1::/48", "198.51.100.8", "198.51.100.0/28"];
  const { settings } = parseSettings(
    stackConfig({
      ...fits,
      ...withHook({ gitHost: "gitea", repository: "https://git.example.org/site.git", sources }),
    }),
    () => true,
  );
  expect(settings.hooks[0]?.sources).toEqual(["198.51.100.0/28", "2001:db8:1::/48"]);
});

describe("a fault names the key, quotes what was found and says what to do", () => {
  test.each<[string, Record<string, unknown>]>([
    ["zone is empty. Use a DNS name in lower case, such as example.org.", { "pushgate:zone": "" }],
    ['zone is "203.0.113.1". Use a DNS name in lower case, such as example.org.', { "pushgate:zone": "203.0.113.1" }],
    ['zone is "7". Use a DNS name in lower case, such as example.org.', { "pushgate:zone": "7" }],
    [
      'edge.plan is "gold". Use one of free, pro, business, enterprise, enterprise-bots.',
      { "pushgate:edge": { plan: "gold" } },
    ],
    ["edge.plan is missing. Use one of free, pro, business, enterprise, enterprise-bots.", { "pushgate:edge": {} }],
    [
      "limit is not a key pushgate knows. Did you mean limits? See docs/configuration.md.",
      { "pushgate:limit": { a: 1 } },
    ],
    [
      "limits.bodybytes is not a key pushgate knows. Did you mean bodyBytes? See docs/configuration.md.",
      { "pushgate:limits": { bodybytes: 1 } },
    ],
    [
      "limits.bodyBytes is 1. Use a number of bytes from 1024 to 26214400, such as 5242880.",
      { "pushgate:limits": { bodyBytes: 1 } },
    ],
    ["hosts is empty. Use a list of at least one host.", { "pushgate:hosts": [] }],
    ["hooks is empty. Use a list of at least one hook.", { "pushgate:hooks": [] }],
    ['edge is "pro". Use an object with the keys plan, botFightMode, generation, canary.', { "pushgate:edge": "pro" }],
    ['hosts is "web1". Use a list of at least one host.', { "pushgate:hosts": "web1" }],
    [
      'hosts[0].ssh is "-oProxyCommand=x". Use user@host or an alias of ~/.ssh/config.',
      withHost({ ssh: "-oProxyCommand=x" }),
    ],
    [
      'hosts[0].address is "2001:db8::1". Use an IPv4 address: pushgate supports no host that has IPv6 alone.',
      withHost({ address: "2001:db8::1" }),
    ],
    ['hosts[0].address6 is "203.0.113.1". Use an IPv6 address.', withHost({ address6: "203.0.113.1" })],
    [
      'hosts[0].hostname is "hooks.example.com", which is not in the zone example.org. Use a name in it, such as hooks.example.org.',
      withHost({ hostname: "hooks.example.com" }),
    ],
    [
      'hosts[0].hostname is "evilexample.org", which is not in the zone example.org. Use a name in it, such as hooks.example.org.',
      withHost({ hostname: "evilexample.org" }),
    ],
    [
      'hosts[0].hostname is "example.org", the zone itself: Cloudflare would block all but hooks. Use another name, such as hooks.example.org.',
      withHost({ hostname: "example.org" }),
    ],
    [
      'hosts[0].hostname is "Hooks.example.org". Use a DNS name in lower case, such as hooks.example.org.',
      withHost({ hostname: "Hooks.example.org" }),
    ],
    [
      "hosts[0].originPort is 22, SSH's port: only Cloudflare could then log in. Use another TCP port, such as 8443.",
      withHost({ originPort: 22 }),
    ],
    [
      "hosts[0].originPort is 443, the port of the host's other sites. Use a TCP port of its own, such as 8443.",
      withHost({ originPort: 443 }),
    ],
    [
      "hosts[0].originPort is 80, the port of the host's other sites. Use a TCP port of its own, such as 8443.",
      withHost({ originPort: 80 }),
    ],
    ["hosts[0].originPort is 70000. Use a TCP port from 1 to 65535, such as 8443.", withHost({ originPort: 70000 })],
    ['hosts[0].state is "gone". Use one of present, absent, lost.', withHost({ state: "gone" })],
    ['hooks[0].name is "../x". Use 1 to 32 letters from a to z, digits and inner hyphens.', withHook({ name: "../x" })],
    [
      'hooks[0].gitHost is "sourcehut". Use one of forgejo, gitea, gogs, github, gitlab, gitlab-self-managed, bitbucket, bitbucket-data-center, standard-webhooks.',
      withHook({ gitHost: "sourcehut" }),
    ],
    [
      "hooks[0].sources is set, but github publishes its source ranges, and pushgate carries them. Remove it.",
      withHook({ sources: ["198.51.100.0/28"] }),
    ],
    [
      `hooks[0].name is "github", the name of the socket for github's published ranges. Use another name.`,
      withHook({ name: "github", gitHost: "gitea", sources: ["198.51.100.1"] }),
    ],
    [
      "hooks[0].sources is missing, and gitea publishes no source ranges. Use a list of the addresses that it sends deliveries from.",
      withHook({ gitHost: "gitea" }),
    ],
    [
      'hooks[0].sources[0] is "git.example.net". Use an address, or a range in CIDR notation that starts with its first address.',
      withHook({ gitHost: "gitea", sources: ["git.example.net"] }),
    ],
    [
      'hooks[0].sources[0] is "198.51.100.1/28", in which host bits are set. Use an address, or a range in CIDR notation that starts with its first address.',
      withHook({ gitHost: "gitea", sources: ["198.51.100.1/28"] }),
    ],
    [
      `hooks[0].sources[0] is "0.0.0.0/0", which admits every address. Use the git host's own address.`,
      withHook({ gitHost: "gitea", sources: ["0.0.0.0/0"] }),
    ],
    [
      `hooks[0].sources[0] is "127.0.0.1", which covers the host itself. Use the git host's own address.`,
      withHook({ gitHost: "gitea", sources: ["127.0.0.1"] }),
    ],
    [
      `hooks[0].sources[0] is "::1", which covers the host itself. Use the git host's own address.`,
      withHook({ gitHost: "gitea", sources: ["::1"] }),
    ],
    [
      `hooks[0].sources[0] is "104.16.0.0/13", which overlaps Cloudflare's ranges. Use the git host's address, not its proxy's.`,
      withHook({ gitHost: "gitea", sources: ["104.16.0.0/13"] }),
    ],
    [
      'hooks[0].repository is "…@example.org/x.git". Use an https:// or SSH address without a password or token: rendered files are public.',
      withHook({ repository: "https://u:p@example.org/x.git" }),
    ],
    [
      'hooks[0].branch is "--upload-pack=x". Use a branch name that git accepts, such as main.',
      withHook({ branch: "--upload-pack=x" }),
    ],
    [
      'edge.botFightMode is "off", but a rule skips bot products for hooks on the pro plan. Remove it.',
      { "pushgate:edge": { plan: "pro", botFightMode: "off" } },
    ],
    ['edge.canary is "no". Use true or false.', { "pushgate:edge": { plan: "pro", canary: "no" } }],
    [
      'secrets.site is missing. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
      { "pushgate:secrets": {} },
    ],
    [
      'secrets.site is missing. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
      { "pushgate:secrets": undefined },
    ],
    [
      'secrets is no object. For each hook, run: npx pulumi config set --secret --path pushgate:secrets.<hook>.current "$(openssl rand -base64 32)"',
      { "pushgate:secrets": "none" },
    ],
    [
      "secrets.site.colour is not a key pushgate knows. Check its spelling, or remove it; see docs/configuration.md.",
      { "pushgate:secrets": { site: { ...secrets.site, colour: "red" } } },
    ],
    [
      "secrets.site.status has more than 1024 characters. Use the token as the git host shows it.",
      { ...withHook({ site }), "pushgate:secrets": { site: { ...secrets.site, status: "x".repeat(1025) } } },
    ],
    ...[` ${"x".repeat(20)}`, `${"x".repeat(20)} `].map((status): [string, Record<string, unknown>] => [
      "secrets.site.status contains white space or a character outside ASCII. Use the token as the git host shows it.",
      { ...withHook({ site }), "pushgate:secrets": { site: { ...secrets.site, status } } },
    ]),
    [
      `hooks[0].branch is "refs/tags/refs/heads/v1", the full name of a ref. Use a branch's name alone, such as main.`,
      withHook({ branch: "refs/tags/refs/heads/v1" }),
    ],
    [
      `hooks[0].branch is "refs/heads/dev", the full name of a ref. Use a branch's name alone, such as dev.`,
      withHook({ branch: "refs/heads/dev" }),
    ],
    [
      'secrets.site.current has fewer than 32 characters. Use 32 to 512 ASCII characters without spaces. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
      { "pushgate:secrets": { site: { current: "short" } } },
    ],
    [
      'secrets.site.current has fewer than 32 characters. Use 32 to 512 ASCII characters without spaces. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
      { "pushgate:secrets": { site: { current: "" } } },
    ],
    [
      'secrets.site.current contains white space or a character outside ASCII. Use 32 to 512 ASCII characters without spaces. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
      { "pushgate:secrets": { site: { current: `${"x".repeat(32)} y` } } },
    ],
    [
      'hooks[0].repository is at gitlab.com, and gitHost is "github". Use a repository of the git host that delivers, or gitHost: gitlab.',
      withHook({ repository: "git@gitlab.com:example/site.git" }),
    ],
    [
      "hooks[0].name is 7, which YAML reads as a number: put it in quotes. Use 1 to 32 letters from a to z, digits and inner hyphens.",
      withHook({ name: 7 }),
    ],
    [
      "hooks[0].branch is true, which YAML reads as a boolean: put it in quotes. Use a branch name that git accepts, such as main.",
      withHook({ branch: true }),
    ],
    [
      'hooks[0].site.webRoot is "/var/www", which holds more than this site. Use a folder below it.',
      withHook({ site: { webRoot: "/var/www", content: "/srv/content/site" } }),
    ],
    [
      "hooks[0].colour is not a key pushgate knows. Check its spelling, or remove it; see docs/configuration.md.",
      withHook({ colour: "red" }),
    ],
    [
      "secrets.other belongs to no hook. Correct the hook's name, or run: npx pulumi config rm --path pushgate:secrets.other",
      { "pushgate:secrets": { ...fits["pushgate:secrets"], other: secrets.site } },
    ],
    ...(["gitlab", "gitlab-self-managed", "standard-webhooks"] as const).map(
      (gitHost): [string, Record<string, unknown>] => [
        'secrets.site.current is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "whsec_$(openssl rand -base64 32)"',
        {
          ...withHook({ gitHost, repository: "https://git.example.net/site.git" }),
          "pushgate:secrets": { site: { current: `whsec_${"x".repeat(41)}` } },
        },
      ],
    ),
    [
      'secrets.site.previous is no key of Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Run: npx pulumi config set --secret --path pushgate:secrets.site.previous "whsec_$(openssl rand -base64 32)"',
      { ...withHook({ gitHost: "standard-webhooks" }), "pushgate:secrets": { site: secrets.site } },
    ],
    [
      "secrets.site.previous equals current. Remove it: the rotation is over.",
      { "pushgate:secrets": { site: { current: "x".repeat(32), previous: "x".repeat(32) } } },
    ],
  ])("%s", (says, overrides) => {
    expect(faultsOf(overrides)).toContain(says);
  });
});

test("a repeated host or hook is named together with the first one", () => {
  const faults = faultsOf({ "pushgate:hosts": [host, host], "pushgate:hooks": [hook, hook] });
  expect(faults).toContain(
    'hosts[1].hostname repeats hosts[0].hostname, "hooks.example.org". Use a hostname for each host: the git host gets one webhook for each.',
  );
  expect(faults).toContain(
    'hooks[1].name repeats hooks[0].name, "site". Use a name for each hook: its path is /webhook/<name>.',
  );
});

test.each([
  ["name", "Use a name for each host: resource names contain it."],
  ["ssh", "List each host once: pushgate applies to all entries at the same time."],
  ["address", "Use an address for each host: Cloudflare finds a host by it."],
])("two hosts with one %s are a fault", (key, advice) => {
  const second = { ...host, name: "web2", ssh: "root@web2", address: "203.0.113.11", hostname: "hooks2.example.org" };
  const of = (other: object) => faultsOf({ "pushgate:hosts": [host, { ...second, ...other }] });
  expect(of({})).toEqual([]);
  expect(of({ [key]: (host as Record<string, unknown>)[key] })).toEqual([
    expect.stringMatching(new RegExp(`^hosts\\[1\\]\\.${key} repeats hosts\\[0\\]\\.${key}.* ${advice}$`)),
  ]);
});

test.each([
  [31, "secrets.site.current has fewer than 32 characters. "],
  [32, undefined],
  [512, undefined],
  [513, "secrets.site.current has more than 512 characters. "],
])("a secret of %i characters: %s", (length, fault) => {
  const faults = faultsOf({ "pushgate:secrets": { site: { current: "x".repeat(length) } } });
  expect(faults).toEqual(fault === undefined ? [] : [expect.stringContaining(fault)]);
});

test("each hook has its secrets, newest first, and its other credentials beside them", () => {
  const credentials = {
    deployKey: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
    status: "s".repeat(20),
    notify: `whsec_${"A".repeat(43)}=`,
  };
  const hooks = [
    {
      ...hook,
      repository: "git@github.com:example/site.git",
      site: { ...site, knownHosts: ["github.com ssh-ed25519 AAAA"], notify: "https://chat.example.org/builds" },
    },
    { ...hook, name: "docs", site: { webRoot: "/var/www/docs" } },
  ];
  const given = { site: { ...secrets.site, ...credentials }, docs: secrets.docs };
  const parsed = parseSettings(
    stackConfig({ ...fits, "pushgate:hooks": hooks, "pushgate:secrets": given }),
    () => true,
  );
  expect(parsed.secrets).toEqual({
    site: [secrets.site.current, secrets.site.previous],
    "site.deploy-key": [credentials.deployKey],
    "site.status": [credentials.status],
    "site.notify": [credentials.notify],
    docs: [secrets.docs.current],
  });
  expect(parsed.settings.hooks.map(({ name, setsStatus }) => [name, setsStatus])).toEqual([
    ["site", true],
    ["docs", undefined],
  ]);
});

test("all faults come together, those of the secrets included, and no secret is quoted", () => {
  const faults = faultsOf({
    "pushgate:zone": "nonsense",
    "pushgate:hosts": [{ ...host, address: "x", originPort: -1 }],
    "pushgate:secrets": { site: { current: "hunter2" } },
    "pushgate:typo": {},
  });
  expect(faults.map((fault) => fault.split(" ")[0])).toEqual([
    "zone",
    "hosts[0].address",
    "hosts[0].originPort",
    "typo",
    "secrets.site.current",
  ]);
  expect(faults.join("\n")).not.toContain("hunter2");
});

test("a secret that only begins like a key of Standard Webhooks is GitHub's to decide", () => {
  expect(faultsOf({ "pushgate:secrets": { site: { current: `whsec_${"x".repeat(41)}` } } })).toEqual([]);
});

test("a git host without an API for results needs no token for them", () => {
  const gogs = { gitHost: "gogs", repository: "https://git.example.net/site.git", site };
  expect(faultsOf(selfHosted(gogs))).toEqual([]);
});

test("an SSH target in the form of a place in a list is quoted as it is", () => {
  const second = { ...host, name: "web2", address: "203.0.113.11", hostname: "hooks2.example.org" };
  const hosts = [host, second].map((each) => ({ ...each, ssh: "hosts[77]" }));
  expect(faultsOf({ "pushgate:hosts": hosts })).toEqual([
    expect.stringMatching(/^hosts\[1\]\.ssh repeats hosts\[0\]\.ssh, "hosts\[77\]"\. /),
  ]);
});

test("an entry after the tenth is named by its place", () => {
  const hosts = Array.from({ length: 12 }, (_, i) => ({
    ...{ name: `web${i}`, ssh: `root@web${i}`, address: `203.0.113.${i}`, hostname: `h${i}.example.org` },
    ...(i === 11 && { hostname: "h.example.com" }),
  }));
  expect(faultsOf({ "pushgate:hosts": hosts })).toEqual([
    expect.stringMatching(/^hosts\[11\]\.hostname is "h\.example\.com"/),
  ]);
});

describe("a secret in plain text is a fault", () => {
  test("all secrets", () => {
    expect(faultsOf({}, false)).toEqual([
      'secrets is plain text. For each hook, run: npx pulumi config set --secret --path pushgate:secrets.<hook>.current "$(openssl rand -base64 32)"',
    ]);
  });
  test("no secrets at all", () => {
    expect(faultsOf({ "pushgate:secrets": {} }, false)).toEqual([expect.stringMatching(/^secrets\.site is missing/)]);
  });
  test("Cloudflare's token", () => {
    const parsed = (isSecret: boolean) => () =>
      parseSettings(stackConfig({ "cloudflare:apiToken": "t" }), (key) => isSecret || key !== "cloudflare:apiToken");
    expect(parsed(false)).toThrow(
      /^1 fault in the stack configuration\. Nothing was changed\.\n {2}cloudflare:apiToken is plain text\. Make a new token, and run: npx pulumi config set --secret cloudflare:apiToken$/,
    );
    expect(parsed(true)).not.toThrow();
  });
  test("one secret beside an encrypted one, which only the stack file shows", () => {
    const file = "config:\n  pushgate:secrets:\n    site:\n      current: { secure: v1:abc }\n      previous: plain\n";
    expect(faultsOf({}, true, file)).toEqual([
      "secrets.site.previous is plain text beside encrypted secrets. Make a new secret, and run: npx pulumi config set --secret --path pushgate:secrets.site.previous",
    ]);
    expect(faultsOf({}, true, file.replace("previous: plain", "previous: { secure: v1:abc }"))).toEqual([]);
  });
  test.each<[string, string, string[]]>([
    ["nothing", "", []],
    ["no configuration", "encryptionsalt: v1:abc", []],
    ["null", "config:\n  pushgate:secrets: null", []],
    ["a hook without secrets", "config:\n  pushgate:secrets:\n    site: null", []],
    ["a list, which has a fault of its shape", "config:\n  pushgate:secrets:\n    site: [plain]", []],
    ["an object in place of a text, too", "config:\n  pushgate:secrets:\n    site: { current: { more: plain } }", []],
    ["a number", "config:\n  pushgate:secrets:\n    site: { current: 7 }", ["site.current"]],
    [
      "both secrets",
      "config:\n  pushgate:secrets:\n    site: { current: a, previous: b }",
      ["site.current", "site.previous"],
    ],
    ["a key of its own", "config:\n  pushgate:secrets.site: { current: plain }", ["site.current"]],
    ["an encrypted object", "config:\n  pushgate:secrets:\n    secure: v1:abc", []],
    [
      'a hook with the name "secure"',
      "config:\n  pushgate:secrets:\n    secure: { current: plain }",
      ["secure.current"],
    ],
    [
      "an encrypted text beside a plain one",
      "config:\n  pushgate:secrets:\n    site: { secure: v1:abc, current: plain }",
      ["site.secure", "site.current"],
    ],
    [
      "keys of other names",
      "config:\n  pushgate:secretsOther: { a: b }\n  other:pushgate:secrets: { a: b }\n  pushgate:zone: a",
      [],
    ],
  ])("a stack file with %s", (_, file, plain) => {
    expect(faultsOf({}, true, file).map((fault) => fault.split(" ")[0])).toEqual(
      plain.map((path) => `secrets.${path}`),
    );
  });
});

test("a secret of a wrong type is not quoted", () => {
  const says = /^secrets\.site(\.current|\.previous)? has the wrong type\. Use /;
  for (const [site, count] of [
    ["hunter2", 1],
    [{ current: 1234567, previous: ["hunter2"] }, 2],
  ] as const) {
    const faults = faultsOf({ "pushgate:secrets": { site } });
    expect(faults).toHaveLength(count);
    for (const fault of faults) expect(fault).toMatch(says);
    expect(faults.join()).not.toMatch(/hunter2|1234567/);
  }
});

test("what the example has is a fault where the API is Cloudflare's own", () => {
  const sources = ["198.51.100.0/28"];
  const selfHosted = { ...hook, gitHost: "gitea", repository: "https://git.example.net/site.git", sources };
  const example = { "pushgate:hosts": [{ ...host, address6: "2001:db8::10" }], "pushgate:hooks": [selfHosted] };
  expect(faultsOf({ ...example, ...real })).toEqual([
    'zone is "example.org", the example\'s. Use the name of your own zone.',
    'hosts[0].address is "203.0.113.10", which is reserved for documentation. Use a real address.',
    'hosts[0].address6 is "2001:db8::10", which is reserved for documentation. Use a real address.',
    'hooks[0].sources[0] is "198.51.100.0/28", which is reserved for documentation. Use a real address.',
  ]);
  expect(faultsOf(example)).toEqual([]);
});

test.each([
  ["10.0.0.5", "which the internet does not route. Use the public address; behind NAT, that of the router."],
  ["127.0.0.1", "which the internet does not route. Use the public address; behind NAT, that of the router."],
  ["0.0.0.0", "which the internet does not route. Use the public address; behind NAT, that of the router."],
  ["169.254.1.1", "which the internet does not route. Use the public address; behind NAT, that of the router."],
  ["192.168.1.1", "which the internet does not route. Use the public address; behind NAT, that of the router."],
  ["104.16.0.10", "which is Cloudflare's own. Use the address of the host behind it."],
])("the address %s is a fault", (address, says) => {
  expect(faultsOf(withHost({ address }))).toEqual([`hosts[0].address is "${address}", ${says}`]);
});

test.each(["::1", "::", "fe80::1", "fd00::1", "2606:4700::10"])("the IPv6 address %s is a fault", (address6) => {
  expect(faultsOf(withHost({ address6 }))).toEqual([expect.stringMatching(/^hosts\[0\]\.address6 is ".*", which /)]);
});

test.each(["10.1.2.3", "192.168.0.0/24", "100.64.0.0/10", "fd00::/8"])("a source of %s is a fault", (source) => {
  const selfHosted = { gitHost: "gitea", repository: "https://git.example.net/site.git", sources: [source] };
  expect(faultsOf(withHook(selfHosted))).toEqual([
    `hooks[0].sources[0] is "${source}", which the internet does not route, and deliveries come through Cloudflare. Use the git host's public address.`,
  ]);
});

test("a wrong shape hides no fault between keys: each entry is named by its place in the list", () => {
  const second = { ...host, name: "web2", ssh: "root@web2", hostname: "hooks.example.com" };
  const faults = faultsOf({
    "pushgate:edge": "pro",
    "pushgate:hosts": [{ ...host, address: "none" }, second, { ...second, name: "web3", ssh: "root@web3" }],
    "pushgate:hooks": [
      { ...hook, branch: "" },
      { ...hook, repository: "git@gitlab.com:example/site.git" },
    ],
  });
  expect(faults.map((fault) => fault.split(". ")[0])).toEqual([
    'edge is "pro"',
    'hosts[0].address is "none"',
    "hooks[0].branch is empty",
    'hosts[1].hostname is "hooks.example.com", which is not in the zone example.org',
    'hosts[2].hostname is "hooks.example.com", which is not in the zone example.org',
    'hosts[2].hostname repeats hosts[1].hostname, "hooks.example.com"',
    'hosts[2].address repeats hosts[1].address, "203.0.113.10"',
    'hooks[1].repository is at gitlab.com, and gitHost is "github"',
  ]);
});

test("a zone of a wrong shape is one fault, and no hostname is compared with it", () => {
  expect(faultsOf({ "pushgate:zone": "EXAMPLE" })).toEqual([
    'zone is "EXAMPLE". Use a DNS name in lower case, such as example.org.',
  ]);
});

test("a repository of a wrong shape is one fault: whether it needs a deploy key is unknown", () => {
  expect(faultsOf(withHook({ repository: "example/site", site }))).toHaveLength(1);
});

describe("one mistake is one fault", () => {
  const withKey = { "pushgate:secrets": { site: { ...secrets.site, deployKey: "x" } } };
  const withStatus = { "pushgate:secrets": { site: { ...secrets.site, status: "s".repeat(20) } } };
  test.each<[string, Record<string, unknown>, ...string[]]>([
    ["hooks as a mapping", { "pushgate:hooks": { site: hook } }, "hooks is an object"],
    ["a hook's name of a wrong shape", withHook({ name: "Site" }), 'hooks[0].name is "Site"'],
    [
      "a repository of a wrong shape, with a deploy key",
      { ...withHook({ repository: "example/site", site }), ...withKey },
      'hooks[0].repository is "example/site"',
    ],
    [
      "a repository over SSH at another git host, without host keys",
      withHook({ repository: "git@gitlab.com:example/site.git", site }),
      'hooks[0].repository is at gitlab.com, and gitHost is "github"',
    ],
    [
      "another git host than the repository's",
      withHook({ gitHost: "gitlab" }),
      'hooks[0].repository is at github.com, and gitHost is "gitlab"',
    ],
    ["a list for an object", { "pushgate:edge": [] }, "edge is empty. Use an object"],
    ["a list for the zone", { "pushgate:zone": ["example.org"] }, "zone is a list. Use a DNS name"],
    ["a list of secrets", { "pushgate:secrets": [] }, "secrets is a list. For each hook, run"],
    [
      "a short secret of a hook that is none",
      { "pushgate:secrets": { ...fits["pushgate:secrets"], other: { current: "short" } } },
      "secrets.other belongs to no hook",
      "secrets.other.current has fewer than 32 characters",
    ],
    [
      "a token for results of a hook without a site, whose git host has no API for them",
      { ...selfHosted({ gitHost: "gogs", repository: "https://git.example.net/site.git" }), ...withStatus },
      "secrets.site.status is set, but the hook has no site",
    ],
    [
      "a token for results of an unknown git host",
      { ...withHook({ gitHost: "sourcehut", site }), ...withStatus },
      'hooks[0].gitHost is "sourcehut"',
    ],
    [
      "a key for reports that are sent nowhere",
      { ...withHook({ site }), "pushgate:secrets": { site: { ...secrets.site, notify: "x".repeat(40) } } },
      "secrets.site.notify is set, but the hook has no site.notify. Remove it, or set the URL.",
    ],
  ])("%s", (_, overrides, ...says) => {
    expect(faultsOf(overrides)).toEqual(says.map((text) => expect.stringContaining(text)));
  });
});

/** Each key of the schema, as the steps that lead to it, with what it declares. */
function keysOf(schema: Schema, steps: readonly (string | number)[]): [steps: readonly (string | number)[], Schema][] {
  const inner = unwrapped(schema);
  const entries = Object.entries(inner.entries ?? {}).flatMap(([name, child]) => keysOf(child, [...steps, name]));
  return [[steps, inner], ...entries, ...(inner.item ? keysOf(inner.item, [...steps, 0]) : [])];
}

/** `value` with `other` at these steps. */
function withValue(value: unknown, [step, ...rest]: readonly (string | number)[], other: unknown): unknown {
  if (step === undefined) return other;
  const inner = (value as Record<string | number, unknown> | undefined)?.[step];
  const changed = withValue(inner, rest, other);
  return typeof step === "number" ? [changed] : { ...(value as object), [step]: changed };
}

test("every key rejects a list and an object where it declares another kind, as one fault", () => {
  const config = { zone: "example.org", edge: { plan: "pro" }, hosts: [host], hooks: [{ ...hook, site }] };
  const keys = Object.entries(shape.entries).flatMap(([name, schema]) => keysOf(schema, [name]));
  expect(keys.length).toBeGreaterThan(50);
  for (const [steps, { item, entries, value }] of keys) {
    const key = steps
      .map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`))
      .join("")
      .slice(1);
    const faults = (other: unknown) => {
      const changed = withValue(config, steps, other) as Record<string, unknown>;
      return faultsOf(Object.fromEntries(Object.entries(changed).map(([name, value]) => [`pushgate:${name}`, value])));
    };
    const one = (says: string) => [expect.stringContaining(`${key} is ${says}. `)];
    if (item === undefined) expect(faults(["a"]), key).toEqual(one("a list"));
    if (entries === undefined && value === undefined) expect(faults({ a: "b" }), key).toEqual(one("an object"));
  }
});

test("another public git host is offered where the receiver verifies its signature", () => {
  const forgejo = { gitHost: "forgejo", sources: ["198.51.100.0/28"] };
  expect(faultsOf(withHook(forgejo))).toEqual([expect.stringMatching(/that delivers, or gitHost: github\.$/)]);
});

describe("a value is compared as a whole:", () => {
  test.each<[string, Record<string, unknown>, string[]]>([
    [
      "words before a repository",
      withHook({ repository: "see https://github.com/example/site.git" }),
      ["hooks[0].repository"],
    ],
    [
      "words after a repository",
      withHook({ repository: "https://github.com/example/site.git here" }),
      ["hooks[0].repository"],
    ],
    ["a branch that begins like HEAD", withHook({ branch: "HEADLINE" }), []],
    ["a branch that begins with @", withHook({ branch: "@home" }), []],
    ["a branch that ends in @", withHook({ branch: "home@" }), []],
    ["a zone whose last label ends in a hyphen", { "pushgate:zone": "example.or-" }, ["zone"]],
    ["a zone whose first label ends in a hyphen", { "pushgate:zone": "example-.org" }, ["zone"]],
    ["a zone with a top label of one letter", { "pushgate:zone": "example.o" }, ["hosts[0].hostname"]],
    ["a name that ends in a hyphen", withHost({ name: "web1-" }), ["hosts[0].name"]],
    ["a token after a space", { "cloudflare:apiToken": " token" }, ["cloudflare:apiToken"]],
    ["a token of letters, digits, hyphens and underscores", { "cloudflare:apiToken": "a-token_1" }, []],
    ["words after an SSH target", withHost({ ssh: "root@web1 -v" }), ["hosts[0].ssh"]],
    ["a name of one letter", withHost({ name: "w" }), []],
    ["a hostname with a label of one letter", withHost({ hostname: "h.example.org" }), []],
    ...["de", "info"].map((top): [string, Record<string, unknown>, string[]] => [
      `a zone below ${top}`,
      { "pushgate:zone": `example.${top}`, ...withHost({ hostname: `hooks.example.${top}` }) },
      [],
    ]),
    ["a zone of 255 characters", { "pushgate:zone": `${"a.".repeat(126)}org` }, ["zone"]],
    ["a port of four digits in a repository", selfHosted({ repository: "https://git.example.net:8443/site.git" }), []],
    ["a tilde in a branch", withHook({ branch: "main~1" }), ["hooks[0].branch"]],
    ["two dots in a branch", withHook({ branch: "main..dev" }), ["hooks[0].branch"]],
    ["a branch that ends in .lock", withHook({ branch: "main.lock" }), ["hooks[0].branch"]],
    ["a branch with a folder that ends in .lock", withHook({ branch: "main.lock/a" }), ["hooks[0].branch"]],
    [
      "a version of Hugo with two digits before the dot",
      withHook({ site: { ...site, hugo: { minimum: "10.1" } } }),
      [],
    ],
    [
      "a version of Hugo with two digits at its end",
      withHook({ site: { ...site, hugo: { minimum: "0.111.12" } } }),
      [],
    ],
    ["flags of Go in a regular expression", withHook({ site: { ...site, hugo: { exec: ["(?im)^npm$"] } } }), []],
    ["a key of the free plan", { "pushgate:edge": { plan: "free", botFightMode: "off" } }, []],
    [
      "a zone whose name ends like the example's, at Cloudflare itself",
      {
        ...real,
        ...withHost({ address: "192.0.9.1", hostname: "hooks.myexample.org" }),
        "pushgate:zone": "myexample.org",
      },
      [],
    ],
    [
      "a zone whose name begins like the example's, at Cloudflare itself",
      {
        ...real,
        ...withHost({ address: "192.0.9.1", hostname: "hooks.example.org.uk" }),
        "pushgate:zone": "example.org.uk",
      },
      [],
    ],
  ])("%s", (_, overrides, keys) => {
    expect(faultsOf(overrides).map((fault) => fault.split(" ")[0])).toEqual(keys);
  });
});

test.each(["HEAD", "@", "refs/tags/v1"])("%s is no branch", (branch) => {
  expect(faultsOf(withHook({ branch }))).toEqual([expect.stringMatching(/^hooks\[0\]\.branch is "/)]);
});

test("a key that was written without --path is named with the command that removes it", () => {
  expect(faultsOf({ "pushgate:hosts[0].state": "absent" })).toEqual([
    "hosts[0].state is a part of another key, written without --path. Run: npx pulumi config rm 'pushgate:hosts[0].state', then set it with --path.",
  ]);
});

test.each(["Bearer abc", '"abc"', "abc\n", ""])("the token %j is a fault, and is not quoted", (token) => {
  const parse = () => parseSettings(stackConfig({ ...fits, "cloudflare:apiToken": token }), () => true);
  expect(parse).toThrow(/\n {2}cloudflare:apiToken has characters that no token has, such as a space\. Copy the token/);
});

test("a token that is plain text and no token has one fault", () => {
  const parse = () =>
    parseSettings(stackConfig({ ...fits, "cloudflare:apiToken": "a b" }), (key) => key !== "cloudflare:apiToken");
  expect(parse).toThrow(/^1 fault .*\n {2}cloudflare:apiToken is plain text\. /);
});

test("a missing token is a fault, unless the environment has one", () => {
  const parse = (hasToken: boolean) => () => {
    const { "cloudflare:apiToken": _, ...config } = stackConfig(fits);
    parseSettings(config, () => true, undefined, hasToken);
  };
  expect(parse(false)).toThrow("cloudflare:apiToken is missing. Make a token");
  expect(parse(true)).not.toThrow();
});
