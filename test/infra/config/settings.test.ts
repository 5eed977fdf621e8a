/** A configuration without faults, and a table of faults with the exact text that a user reads. */
import { describe, expect, test } from "vitest";
import { SettingsError } from "../../../infra/config/faults.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { networks } from "../../../infra/networks.ts";
import { secrets, stackConfig } from "../../stack-file.ts";

const host = { name: "web1", ssh: "root@web1.example.org", address: "203.0.113.10", hostname: "hooks.example.org" };
const hook = { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" };
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

test("the smallest configuration gets every default", () => {
  const { settings } = parseSettings(stackConfig({ ...fits, "pushgate:limits": undefined }), () => true);
  expect(settings.hosts[0]).toEqual({ ...host, sudo: false, originPort: 8443, state: "present" });
  expect(settings.hooks[0]).toMatchObject({ published: true, sources: networks.githubHooks.cidrs });
  expect(settings.limits.bodyBytes).toBe(5 << 20);
});

test("sources of a self-hosted git host are sorted, and lose each range that a wider one covers", () => {
  const sources = ["2001:db8:1::/48", "198.51.100.8", "198.51.100.0/28"];
  const { settings } = parseSettings(stackConfig({ ...fits, ...withHook({ gitHost: "gitea", sources }) }), () => true);
  expect(settings.hooks[0]?.sources).toEqual(["198.51.100.0/28", "2001:db8:1::/48"]);
});

describe("a fault names the key, quotes what was found and says what to do", () => {
  test.each<[string, Record<string, unknown>, string]>([
    ["no zone", { "pushgate:zone": "" }, "zone is empty. Use a DNS name in lower case, such as example.org."],
    [
      "a zone that is an address",
      { "pushgate:zone": "203.0.113.1" },
      'zone is "203.0.113.1". Use a DNS name in lower case, such as example.org.',
    ],
    [
      "an unknown plan",
      { "pushgate:edge": { plan: "gold" } },
      'edge.plan is "gold". Use one of free, pro, business, enterprise, enterprise-bots.',
    ],
    [
      "no plan",
      { "pushgate:edge": {} },
      "edge.plan is missing. Use one of free, pro, business, enterprise, enterprise-bots.",
    ],
    [
      "an unknown key",
      { "pushgate:limit": { a: 1 } },
      "limit is not a key pushgate knows. Check its spelling, or remove it; see docs/configuration.md.",
    ],
    [
      "a misspelt limit",
      { "pushgate:limits": { bodybytes: 1 } },
      "limits.bodybytes is not a key pushgate knows. Check its spelling, or remove it; see docs/configuration.md.",
    ],
    [
      "a limit out of range",
      { "pushgate:limits": { bodyBytes: 1 } },
      "limits.bodyBytes is 1. Use a number of bytes from 1024 to 26214400, such as 5242880.",
    ],
    ["no hosts", { "pushgate:hosts": [] }, "hosts is empty. Use a list of at least one host."],
    ["hosts of a wrong type", { "pushgate:hosts": "web1" }, 'hosts is "web1". Use a list of at least one host.'],
    [
      "an ssh option for a target",
      withHost({ ssh: "-oProxyCommand=x" }),
      'hosts[0].ssh is "-oProxyCommand=x". Use user@host or an alias of ~/.ssh/config.',
    ],
    [
      "an IPv6 address in address",
      withHost({ address: "2001:db8::1" }),
      'hosts[0].address is "2001:db8::1". Use an IPv4 address.',
    ],
    [
      "an IPv4 address in address6",
      withHost({ address6: "203.0.113.1" }),
      'hosts[0].address6 is "203.0.113.1". Use an IPv6 address.',
    ],
    [
      "a hostname outside the zone",
      withHost({ hostname: "hooks.example.com" }),
      'hosts[0].hostname is "hooks.example.com", which is not in the zone example.org. Use a name in it, such as hooks.example.org.',
    ],
    [
      "the zone as hostname",
      withHost({ hostname: "example.org" }),
      'hosts[0].hostname is "example.org", the zone itself: Cloudflare would block all but hooks. Use another name, such as hooks.example.org.',
    ],
    [
      "a hostname in capitals",
      withHost({ hostname: "Hooks.example.org" }),
      'hosts[0].hostname is "Hooks.example.org". Use a DNS name in lower case, such as hooks.example.org.',
    ],
    [
      "SSH's port",
      withHost({ originPort: 22 }),
      "hosts[0].originPort is 22, SSH's port: only Cloudflare could then log in. Use another TCP port, such as 8443.",
    ],
    [
      "the port of other sites",
      withHost({ originPort: 443 }),
      "hosts[0].originPort is 443, the port of the host's other sites. Use a TCP port of its own, such as 8443.",
    ],
    [
      "a port out of range",
      withHost({ originPort: 70000 }),
      "hosts[0].originPort is 70000. Use a TCP port from 1 to 65535, such as 8443.",
    ],
    ["an unknown state", withHost({ state: "gone" }), 'hosts[0].state is "gone". Use one of present, absent, lost.'],
    [
      "a hook name with a path",
      withHook({ name: "../x" }),
      'hooks[0].name is "../x". Use 1 to 32 letters from a to z, digits and inner hyphens.',
    ],
    [
      "an unknown git host",
      withHook({ gitHost: "sourcehut" }),
      'hooks[0].gitHost is "sourcehut". Use one of github, gitlab, bitbucket, gitea, forgejo.',
    ],
    [
      "a git host that the receiver does not verify",
      withHook({ gitHost: "gitlab" }),
      'hooks[0].gitHost is "gitlab", whose signature the receiver does not verify yet. Use one of forgejo, gitea, github.',
    ],
    [
      "sources of a git host that publishes its ranges",
      withHook({ sources: ["198.51.100.0/28"] }),
      "hooks[0].sources is set, but github publishes its source ranges, and pushgate carries them. Remove it.",
    ],
    [
      "a self-hosted hook with the name of a git host",
      withHook({ name: "github", gitHost: "gitea", sources: ["198.51.100.1"] }),
      `hooks[0].name is "github", the name of the socket for github's published ranges. Use another name.`,
    ],
    [
      "no sources of a self-hosted git host",
      withHook({ gitHost: "gitea" }),
      "hooks[0].sources is missing, and gitea is self-hosted. Use a list of the addresses that it sends deliveries from.",
    ],
    [
      "a source that is no range",
      withHook({ gitHost: "gitea", sources: ["git.example.net"] }),
      'hooks[0].sources[0] is "git.example.net". Use an address, or a range in CIDR notation that starts with its first address.',
    ],
    [
      "host bits in a source",
      withHook({ gitHost: "gitea", sources: ["198.51.100.1/28"] }),
      'hooks[0].sources[0] is "198.51.100.1/28", in which host bits are set. Use an address, or a range in CIDR notation that starts with its first address.',
    ],
    [
      "every address as a source",
      withHook({ gitHost: "gitea", sources: ["0.0.0.0/0"] }),
      `hooks[0].sources[0] is "0.0.0.0/0", which admits every address. Use the git host's own address.`,
    ],
    [
      "the host itself as a source",
      withHook({ gitHost: "gitea", sources: ["127.0.0.1"] }),
      `hooks[0].sources[0] is "127.0.0.1", which covers the host itself. Use the git host's own address.`,
    ],
    [
      "Cloudflare as a source",
      withHook({ gitHost: "gitea", sources: ["104.16.0.0/13"] }),
      `hooks[0].sources[0] is "104.16.0.0/13", which overlaps Cloudflare's ranges. Use the git host's address, not its proxy's.`,
    ],
    [
      "credentials in a repository",
      withHook({ repository: "https://u:p@example.org/x.git" }),
      'hooks[0].repository is "…@example.org/x.git". Use an https:// or SSH address without a password or token: rendered files are public.',
    ],
    [
      "a branch that git would read as an option",
      withHook({ branch: "--upload-pack=x" }),
      'hooks[0].branch is "--upload-pack=x". Use a branch name that git accepts, such as main.',
    ],
    [
      "botFightMode on another plan",
      { "pushgate:edge": { plan: "pro", botFightMode: "off" } },
      'edge.botFightMode is "off", but a rule skips bot products for hooks on the pro plan. Remove it.',
    ],
    ["a canary as text", { "pushgate:edge": { plan: "pro", canary: "no" } }, 'edge.canary is "no". Use true or false.'],
    [
      "no secret",
      { "pushgate:secrets": {} },
      'secrets.site is missing. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
    ],
    [
      "a short secret",
      { "pushgate:secrets": { site: { current: "short" } } },
      'secrets.site.current has fewer than 32 characters. Use 32 to 512 ASCII characters without spaces. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
    ],
    [
      "an empty secret",
      { "pushgate:secrets": { site: { current: "" } } },
      'secrets.site.current has fewer than 32 characters. Use 32 to 512 ASCII characters without spaces. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
    ],
    [
      "a secret with a space",
      { "pushgate:secrets": { site: { current: `${"x".repeat(32)} y` } } },
      'secrets.site.current contains white space or a character outside ASCII, which git hosts store differently. Use 32 to 512 ASCII characters without spaces. Run: npx pulumi config set --secret --path pushgate:secrets.site.current "$(openssl rand -base64 32)"',
    ],
    [
      "a secret without a hook",
      { "pushgate:secrets": { ...fits["pushgate:secrets"], other: secrets.site } },
      "secrets.other belongs to no hook. Remove it, or correct the hook's name.",
    ],
    [
      "two equal secrets",
      { "pushgate:secrets": { site: { current: "x".repeat(32), previous: "x".repeat(32) } } },
      "secrets.site.previous equals current. Remove it: the rotation is over.",
    ],
  ])("%s", (_, overrides, says) => {
    expect(faultsOf(overrides)).toContain(says);
  });
});

test("a repeated host or hook is named together with the first one", () => {
  const faults = faultsOf({ "pushgate:hosts": [host, host], "pushgate:hooks": [hook, hook] });
  expect(faults).toContainEqual(expect.stringMatching(/^hosts\[1\]\.hostname repeats hosts\[0\]\.hostname/));
  expect(faults).toContainEqual(expect.stringMatching(/^hooks\[1\]\.name repeats hooks\[0\]\.name/));
});

test("all faults come together, those of the secrets included, and no secret is quoted", () => {
  const faults = faultsOf({
    "pushgate:zone": "nonsense",
    "pushgate:hosts": [{ ...host, address: "x", originPort: -1 }],
    "pushgate:secrets": { site: { current: "hunter2" } },
    "pushgate:typo": {},
  });
  expect(faults.length).toBeGreaterThanOrEqual(5);
  expect(faults.join("\n")).not.toContain("hunter2");
});

describe("a secret in plain text is a fault", () => {
  test("all secrets", () => {
    expect(faultsOf({}, false)).toEqual([
      'secrets is plain text. For each hook, run: npx pulumi config set --secret --path pushgate:secrets.<hook>.current "$(openssl rand -base64 32)"',
    ]);
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
});

test("a secret of a wrong type is not quoted", () => {
  const says = /^secrets\.site(\.current|\.previous)? has the wrong type\. Use /;
  for (const site of ["hunter2", { current: 1234567, previous: ["hunter2"] }]) {
    const faults = faultsOf({ "pushgate:secrets": { site } });
    expect(faults.length).toBeGreaterThan(0);
    for (const fault of faults) expect(fault).toMatch(says);
    expect(faults.join()).not.toMatch(/hunter2|1234567/);
  }
});
