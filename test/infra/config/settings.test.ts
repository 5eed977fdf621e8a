/** One configuration that fits, and a table of those that don't: what is wrong, and what the person is told. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
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

test("the least one can write is filled in", () => {
  const { settings } = parseSettings(stackConfig({ ...fits, "pushgate:limits": undefined }), () => true);
  expect(settings.hosts[0]).toEqual({ ...host, sudo: false, originPort: 8443, state: "present" });
  expect(settings.hooks[0]).toMatchObject({ published: true, sources: networks.githubHooks.cidrs });
  expect(settings.limits.bodyBytes).toBe(5 << 20);
});

test("sources of a self-hosted git host are sorted, and what a wider range covers is dropped", () => {
  const sources = ["2001:db8:1::/48", "198.51.100.8", "198.51.100.0/28"];
  const { settings } = parseSettings(stackConfig({ ...fits, ...withHook({ gitHost: "gitea", sources }) }), () => true);
  expect(settings.hooks[0]?.sources).toEqual(["198.51.100.0/28", "2001:db8:1::/48"]);
});

describe("a value that does not fit is named, with its cure", () => {
  test.each<[string, Record<string, unknown>, RegExp]>([
    ["no zone", { "pushgate:zone": "" }, /^zone is empty/],
    ["a zone that is an address", { "pushgate:zone": "203.0.113.1" }, /^zone is not a DNS name/],
    ["an unknown plan", { "pushgate:edge": { plan: "gold" } }, /^edge\.plan write one of free, pro/],
    ["no plan", { "pushgate:edge": {} }, /^edge\.plan is missing/],
    ["an unknown key", { "pushgate:limit": { a: 1 } }, /^limit is not a key pushgate knows: check its spelling/],
    ["a misspelt limit", { "pushgate:limits": { bodybytes: 1 } }, /^limits\.bodybytes is not a key/],
    [
      "a limit out of range",
      { "pushgate:limits": { bodyBytes: 1 } },
      /^limits\.bodyBytes write a whole number of bytes/,
    ],
    ["no hosts", { "pushgate:hosts": [] }, /^hosts is empty/],
    ["hosts of a wrong type", { "pushgate:hosts": "web1" }, /^hosts write a list/],
    [
      "an ssh option for a target",
      withHost({ ssh: "-oProxyCommand=x" }),
      /^hosts\[0\]\.ssh (starts with a hyphen|holds)/,
    ],
    ["an IPv6 address in address", withHost({ address: "2001:db8::1" }), /^hosts\[0\]\.address is not an IPv4/],
    ["an IPv4 address in address6", withHost({ address6: "203.0.113.1" }), /^hosts\[0\]\.address6 is not an IPv6/],
    [
      "a hostname outside the zone",
      withHost({ hostname: "hooks.example.com" }),
      /^hosts\[0\]\.hostname is not in the zone/,
    ],
    ["the zone as hostname", withHost({ hostname: "example.org" }), /^hosts\[0\]\.hostname is the zone itself/],
    [
      "a hostname in capitals",
      withHost({ hostname: "Hooks.example.org" }),
      /^hosts\[0\]\.hostname is not a DNS name in lower/,
    ],
    ["SSH's port", withHost({ originPort: 22 }), /^hosts\[0\]\.originPort is SSH's port/],
    ["the web's port", withHost({ originPort: 443 }), /^hosts\[0\]\.originPort is the web's own/],
    ["a port that is none", withHost({ originPort: 70000 }), /^hosts\[0\]\.originPort write a whole number/],
    ["an unknown state", withHost({ state: "gone" }), /^hosts\[0\]\.state write one of present/],
    ["a hook name that climbs", withHook({ name: "../x" }), /^hooks\[0\]\.name use 1 to 32/],
    ["a git host nobody knows", withHook({ gitHost: "sourcehut" }), /^hooks\[0\]\.gitHost write one of/],
    ["a git host not verified yet", withHook({ gitHost: "gitlab" }), /^hooks\[0\]\.gitHost is gitlab, whose signature/],
    [
      "sources of a published git host",
      withHook({ sources: ["198.51.100.0/28"] }),
      /^hooks\[0\]\.sources must be left out/,
    ],
    [
      "a self-hosted hook that takes a git host's name",
      withHook({ name: "github", gitHost: "gitea", sources: ["198.51.100.1"] }),
      /^hooks\[0\]\.name is github's, whose socket/,
    ],
    ["no sources of a self-hosted one", withHook({ gitHost: "gitea" }), /^hooks\[0\]\.sources is missing/],
    [
      "sources that are none",
      withHook({ gitHost: "gitea", sources: ["git.example.net"] }),
      /^hooks\[0\]\.sources\[0\] is neither/,
    ],
    ["host bits in a source", withHook({ gitHost: "gitea", sources: ["198.51.100.1/28"] }), /host bits set/],
    ["everybody as a source", withHook({ gitHost: "gitea", sources: ["0.0.0.0/0"] }), /admits every address/],
    [
      "the machine itself as a source",
      withHook({ gitHost: "gitea", sources: ["127.0.0.1"] }),
      /covers the machine itself/,
    ],
    ["the edge as a source", withHook({ gitHost: "gitea", sources: ["104.16.0.0/13"] }), /overlaps the edge's own/],
    [
      "credentials in a repository",
      withHook({ repository: "https://u:p@example.org/x.git" }),
      /repository write an https/,
    ],
    ["a branch that is an option", withHook({ branch: "--upload-pack=x" }), /branch is not a branch name/],
    [
      "botFightMode on another plan",
      { "pushgate:edge": { plan: "pro", botFightMode: "off" } },
      /choice of the free plan/,
    ],
    ["a canary by name", { "pushgate:edge": { plan: "pro", canary: "no" } }, /edge\.canary write true or false/],
    ["no secret", { "pushgate:secrets": {} }, /^secrets\.site is missing: pulumi config set --secret/],
    [
      "a short secret",
      { "pushgate:secrets": { site: { current: "short" } } },
      /^secrets\.site\.current is shorter than 32/,
    ],
    [
      "an empty secret",
      { "pushgate:secrets": { site: { current: "" } } },
      /^secrets\.site\.current is shorter than 32/,
    ],
    ["a secret with a space", { "pushgate:secrets": { site: { current: `${"x".repeat(32)} y` } } }, /white space/],
    [
      "a secret of no hook",
      { "pushgate:secrets": { ...fits["pushgate:secrets"], other: secrets.site } },
      /^secrets\.other belongs to no hook/,
    ],
    [
      "two equal secrets",
      { "pushgate:secrets": { site: { current: "x".repeat(32), previous: "x".repeat(32) } } },
      /rotation is over/,
    ],
  ])("%s", (_, overrides, says) => {
    expect(faultsOf(overrides).join("\n")).toMatch(says);
  });
});

test("hosts and hooks that repeat each other are named with the first", () => {
  const faults = faultsOf({ "pushgate:hosts": [host, host], "pushgate:hooks": [hook, hook] });
  expect(faults).toContainEqual(expect.stringMatching(/^hosts\[1\]\.hostname repeats hosts\[0\]\.hostname/));
  expect(faults).toContainEqual(expect.stringMatching(/^hooks\[1\]\.name repeats hooks\[0\]\.name/));
});

test("all faults come at once, secrets included, and no value is quoted", () => {
  const faults = faultsOf({
    "pushgate:zone": "nonsense",
    "pushgate:hosts": [{ ...host, address: "x", originPort: -1 }],
    "pushgate:secrets": { site: { current: "hunter2" } },
    "pushgate:typo": {},
  });
  expect(faults.length).toBeGreaterThanOrEqual(5);
  expect(faults.join("\n")).not.toContain("hunter2");
});

describe("plain-text secrets are refused", () => {
  test("all of them", () => {
    expect(faultsOf({}, false)).toEqual([expect.stringMatching(/^secrets is plain text: make a new secret/)]);
  });
  test("the edge's token", () => {
    const parsed = (isSecret: boolean) => () =>
      parseSettings(stackConfig({ "cloudflare:apiToken": "t" }), (key) => isSecret || key !== "cloudflare:apiToken");
    expect(parsed(false)).toThrow(/^ {2}cloudflare:apiToken is plain text: make a new token/m);
    expect(parsed(true)).not.toThrow();
  });
  test("one beside an encrypted one, which only the stack file shows", () => {
    const file = "config:\n  pushgate:secrets:\n    site:\n      current: { secure: v1:abc }\n      previous: plain\n";
    expect(faultsOf({}, true, file)).toEqual([expect.stringMatching(/^secrets\.site\.previous is plain text beside/)]);
    expect(faultsOf({}, true, file.replace("previous: plain", "previous: { secure: v1:abc }"))).toEqual([]);
  });
});

test("Pulumi.yaml types, describes and defaults each key the program reads, and no other", () => {
  const { config } = parse(readFileSync(new URL("../../../Pulumi.yaml", import.meta.url), "utf8"));
  const known = ["zone", "edge", "hosts", "hooks", "limits", "secrets"].map((key) => `pushgate:${key}`);
  expect(Object.keys(config)).toEqual(known);
  for (const key of Object.values<Record<string, unknown>>(config)) {
    expect(Object.keys(key)).toEqual(expect.arrayContaining(["type", "description", "default"]));
  }
});
