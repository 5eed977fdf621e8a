/** What holds for every layer of a host: its files are its own, its shell calls what it defines. */
import { spawnSync } from "node:child_process";
import { matchesGlob } from "node:path";
import { describe, expect, test } from "vitest";
import type { HostFile } from "../../../infra/apply/layer.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { originCertificate } from "../../../infra/host/origin-certificate/origin-certificate.ts";
import { clientCaPath, paths } from "../../../infra/host/paths.ts";
import { exampleHost, made, rebuilt, served } from "../../fixtures.ts";
import { typedIn } from "../../hosts/documents.ts";
import { missing, verifyUnits } from "./namespace.ts";

/** Variables of scripts: a host may have no site, `made` no hash of a program, and no reporter is restarted. */
const mayBeEmpty = ["site_logs", "sha256", "running", "reported", "scheduled", "named"];

test("systemd-analyze verify finds no fault in the units of docs/operating.md", ({ skip }) => {
  const reason = missing("systemd-analyze");
  skip(reason !== undefined, reason);
  const files = typedIn("docs/operating.md").flatMap(({ text }) => {
    const [, name] = /^# \/etc\/systemd\/system\/([\w.-]+)/.exec(text) ?? [];
    return name === undefined ? [] : [{ path: `/etc/systemd/system/${name}` as const, text }];
  });
  expect(files).toHaveLength(2);
  expect(verifyUnits(files)).toBe("");
});

test("no fact of 199 sites with long names is cut: the host finds the lines that differ", () => {
  const hooks = Array.from({ length: 199 }, (_, i) => ({ ...rebuilt.hooks[1]!, name: `${i}-`.padEnd(32, "x") }));
  const layers = Object.values(hostLayers({ ...rebuilt, hooks }, exampleHost, made));
  for (const { facts } of layers) for (const { name, want } of facts) expect(want.length, name).toBeLessThan(1501);
  const { script, facts } = layers.find(({ name }) => name === "receiver")!;
  const { read } = facts.find(({ name }) => name === "the spool's folders")!;
  const [, wanted = ""] = /unlike '(.*)'$/s.exec(read)!;
  const compared = (found: string) => {
    const env = { ...process.env, found };
    const shell = `${script}\nmodes() { printf %s "$found"; }\n${read}`;
    return spawnSync("sh", ["-c", shell], { env, encoding: "utf8" }).stdout.trim().split("\n");
  };
  expect(compared(wanted)).toEqual(["as declared"]);
  const [, line = ""] = /\n(.*\/150-.*)\n/.exec(wanted)!;
  const other = line.replace("2770", "2777");
  expect(compared(wanted.replace(line, other))).toEqual([`undeclared: ${other}`, `missing: ${line}`]);
});

describe.each([
  ["with a served site", served],
  ["with two sites and every option", rebuilt],
] as const)("the layers of a host %s", (_, settings) => {
  const layers = Object.values(hostLayers(settings, exampleHost, made));
  const declared = layers.filter(({ present = true }) => present);

  test("systemd-analyze verify finds no fault in their units, and finds an unknown setting", ({ skip }) => {
    const reason = missing("systemd-analyze");
    skip(reason !== undefined, reason);
    const files = declared.flatMap((layer) => layer.files);
    expect(verifyUnits(files)).toBe("");
    const wrong = files.map((file) => ({ ...file, text: file.text.replace("FreeBind=", "FreeeBind=") }));
    expect(verifyUnits(wrong.filter(({ path }) => path.endsWith("receiver-github.socket")))).toContain("FreeeBind");
  });

  test("have names, paths, globs, modes and owners that no shell reads otherwise, and that only root can write", () => {
    for (const { name, files, owns } of layers) {
      expect(name).toMatch(/^[a-z][a-z0-9-]{0,31}$/);
      for (const { path, mode, owner, text } of files) {
        expect(path).toMatch(/^(\/\.?[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*)+$/);
        expect(owner, path).toMatch(/^root:[a-z_][a-z0-9_-]*$/);
        expect(mode, path).toMatch(text.startsWith("#!") ? /^0755$/ : /^0[0-7][0145]{2}$/);
      }
      // An apply removes what they match.
      for (const glob of owns)
        expect(glob).toMatch(/^\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*(\/(?!\.\.(\/|$))[a-zA-Z0-9._@+:*?[\]!-]+)+$/);
    }
  });

  test("own each of their files and no other layer's, and the drop-ins of their units alone", () => {
    for (const { name, files, owns } of layers) {
      const own = files.map(({ path }) => path);
      const units = own.filter((path) => /system\/[^/]+\.(service|socket|timer|path|slice)$/.test(path));
      for (const path of [...own, ...units.map((path) => `${path}.d/manual.conf`)])
        expect([name, path, owns.some((glob) => matchesGlob(path, glob))]).toEqual([name, path, true]);
      const others = layers.filter((one) => one.name !== name).flatMap((one) => one.files.map(({ path }) => path));
      expect(others.filter((path) => owns.some((glob) => matchesGlob(path, glob)))).toEqual([]);
      for (const glob of owns.filter((one) => one.endsWith(".d/*.conf")))
        expect(glob).toMatch(
          /(\.(service|socket|timer|path|slice)|\/pushgate-[\w*-]*\*|pushgate-\.\*|pushgate-\*@\*)\.d\/\*\.conf$/,
        );
    }
  });

  test("have no empty variable", () => {
    for (const { name, script } of declared)
      for (const [, variable] of script!.matchAll(/^(\w+)=''$/gm)) expect(mayBeEmpty, name).toContain(variable);
  });

  test("have each file that a parser can reject checked by that parser before it is installed", () => {
    const checkOf = ({ path, text }: HostFile) =>
      Object.entries({
        'sh -n "$1"': path.startsWith("/etc/pushgate/")
          ? path.endsWith("guard.conf") || path.endsWith("egress.conf")
          : text.startsWith("#!/bin/sh\n"),
        'perl -c "$1"': text.startsWith("#!/usr/bin/perl\n"),
        'nft --check --file "$1"': path.endsWith(".nft"),
        "/usr/sbin/nginx -t -q": path === paths.nginx,
        'check "$1"': path === originCertificate,
        'openssl x509 -in "$1" -noout': path.startsWith(paths.tls) && path.endsWith(".pem"),
      }).find(([, applies]) => applies)?.[0];
    for (const file of layers.flatMap(({ files }) => files)) {
      // The check of nginx's file reads the new CA with it.
      const command = file.path === clientCaPath ? undefined : checkOf(file);
      if (command === undefined) expect(file.check, file.path).toBeUndefined();
      else expect(file.check, file.path).toContain(command);
    }
  });

  test("call functions that their script defines, and its steps if it defines them", () => {
    const programs = ["cat", "echo", "getent", "ls", "readlink", "stat", "systemctl"];
    for (const { name, script = "", activate, reactivate = ":", retire, facts } of layers) {
      const defined = [...script.matchAll(/^(\w+)\(\) [{(]/gm)].map(([, word]) => word);
      for (const text of [activate, reactivate, retire, ...facts.map(({ read }) => read)]) {
        const [, word] = /^(?:\w+=\S*\s+)*([a-z_]+)\b/.exec(text) ?? [];
        if (word !== undefined && !programs.includes(word)) expect(defined, `${name}: ${text}`).toContain(word);
      }
    }
    for (const { name, script = "", activate, reactivate = ":", retire } of declared)
      for (const [step, called] of Object.entries({ activate, reactivate, retire }))
        if (script.includes(`\n${step}() {`)) expect(called, name).toBe(step);
  });
});
