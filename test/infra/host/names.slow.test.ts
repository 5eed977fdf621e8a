/**
 * Hooks of every name that the schema admits, words of nginx, systemd and JavaScript among them, through the
 * host's own parsers: a word that a parser reads as its own would fail an apply midway, or mean another hook.
 */
import { readFileSync } from "node:fs";
import { matchesGlob } from "node:path";
import * as v from "valibot";
import { beforeEach, describe, expect, test } from "vitest";
import { crossFaults } from "../../../infra/config/checks.ts";
import { settled } from "../../../infra/config/derived.ts";
import { type Config, shape } from "../../../infra/config/schema.ts";
import { parseSettings } from "../../../infra/config/settings.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { units } from "../../../infra/host/paths.ts";
import { renderProxy } from "../../../infra/host/proxy/proxy.ts";
import { receiverLayer } from "../../../infra/host/receiver/receiver.ts";
import { exampleHost, secrets, stackConfig } from "../../fixtures.ts";
import { noNginx, OriginLab } from "./lab/origin.ts";
import { missing, verifyUnits } from "./namespace.ts";

/** Each hook is of a self-hosted git host with an address of its own, so each has a source set of its own. */
const hook = (name: string, i: number) => ({
  name,
  gitHost: "forgejo",
  sources: [`11.${i >> 8}.${i & 255}.1`],
  repository: "https://git.example.net/example/docs.git",
  branch: "main",
});
const withSite = (name: string, i: number) => ({
  ...hook(name, i),
  site: { webRoot: `/var/www/${name}`, content: `/srv/content/${name}`, hostname: `s${i}.example.org` },
});
const configOf = (hooks: readonly object[]): Config =>
  v.parse(shape, { zone: "example.org", edge: { plan: "pro" }, hosts: [exampleHost], hooks });

/** Words that one of the programs, or JavaScript, reads as its own somewhere. */
const otherWords = `default include hostnames volatile if map geo server location return set proxy ranges delete
  constructor secure published index drop accept table chain counter element elements inet ip ip6 tcp jump goto flush add
  rule meta mark log limit set4 lists receiver github build hugo reconcile guard firewall a b a-b 1 00 127
  ${"1".repeat(32)}`.split(/\s+/);
const wordsOfSystemd =
  `root user system init dbus template service socket slice path timer mount target scope swap device
  install unit a-b-c 0 xn--p1ai ${"x".repeat(32)} a${"-".repeat(30)}b`.split(/\s+/);

const wordsOfNginx = (): string[] =>
  readFileSync("/usr/sbin/nginx", "latin1").match(/(?<=\0)[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?(?=\0)/g) ?? [];
const admitted = (names: readonly string[]): string[] =>
  [...new Set(names)].filter((name) => {
    const { hosts, hooks, ...config } = configOf([hook(name, 0)]);
    const at = <T extends object>(one: T) => ({ ...one, at: "" });
    return crossFaults({ ...config, hosts: hosts.map(at), hooks: hooks.map(at) }, false).length === 0;
  });

const nginx = new OriginLab();

describe("nginx accepts hooks of every name", () => {
  beforeEach(({ skip }) => skip(noNginx !== undefined, noNginx));
  const render = (names: readonly string[]) => renderProxy(settled(configOf(names.map(withSite))), exampleHost);

  test("words of its own among them", async () => {
    const names = admitted([...otherWords, ...wordsOfSystemd, ...wordsOfNginx()]);
    expect(names.length).toBeGreaterThan(350);
    // Source sets have 400 ports.
    for (let at = 0; at < names.length; at += 390) await nginx.send([], render(names.slice(at, at + 390)));
  });

  test.each(["default", "include"])("%s would be rejected as a map's key", async (name) => {
    const text = render([name, "docs"]);
    const bare = text.replaceAll(new RegExp(`^        /webhook/(${name}|docs) \\$`, "gm"), "        $1 $");
    expect(bare).not.toBe(text);
    await expect(nginx.send([], bare)).rejects.toThrow(/duplicate default map parameter|open\(\) .* failed/);
  });
});

test("systemd accepts hooks of every name", ({ skip }) => {
  const reason = missing("systemd-analyze");
  skip(reason !== undefined, reason);
  const settings = settled(configOf(admitted(wordsOfSystemd).map(withSite)));
  const files = [receiverLayer(settings), builderLayer(settings, exampleHost)].flatMap((layer) => layer.files);
  expect(verifyUnits(files)).toBe("");
});

test("no pattern of one hook matches a unit or a path of another", () => {
  const family = admitted(["a", "a-b", "b", "ab", "a-b-c", "b-a", "lists", "root"]);
  for (const name of family) {
    const { files, script = "" } = builderLayer(settled(configOf([withSite(name, 1)])), exampleHost);
    const texts = [...files.map(({ text }) => text), script.replaceAll("$1", name)].join("\n");
    const patterns = [...texts.matchAll(/[\w.@/-]*\*[\w.@/*-]*/g)]
      .map(([pattern]) => pattern)
      .filter((pattern) => pattern.split(/[^a-z0-9-]/).some((part) => part === name || part.endsWith(`-${name}`)));
    expect(patterns).toContain(`pushgate-generator-${name}@*.service`);
    const kinds = [units.build, units.buildPath, units.reconcile, units.reconcileTimer, units.generatorSocket];
    for (const other of family.filter((one) => one !== name)) {
      const instance = `pushgate-generator-${other}@1-2-3.service`;
      const its = [instance, ...kinds.map((unit) => unit(other)), `/var/spool/pushgate/${other}/.taken/x`];
      expect(its.filter((path) => patterns.some((pattern) => matchesGlob(path, pattern)))).toEqual([]);
    }
  }
});

test("a name that JavaScript's objects have, too, is a hook like any other", () => {
  for (const name of ["constructor", "secure"]) {
    const config = stackConfig({ "pushgate:hooks": [hook(name, 1)], "pushgate:secrets": { [name]: secrets.site } });
    const read = (current: string) =>
      parseSettings(config, () => true, `config:\n  pushgate:secrets:\n    ${name}:\n      current: ${current}\n`);
    expect(read("{ secure: v1:abc }").secrets[name]).toHaveLength(2);
    expect(() => read("plain")).toThrow(`secrets.${name}.current is plain text beside encrypted secrets`);
  }
});
