/** What holds for every layer of a host: its files are its own, its facts are complete, its shell calls what it defines. */
import { matchesGlob } from "node:path";
import { describe, expect, test } from "vitest";
import type { HostFile } from "../../../infra/apply/layer.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { template } from "../../../infra/host/kit.ts";
import { clientCaPath, paths } from "../../../infra/host/paths.ts";
import { example, exampleHost, made, rebuilt, served } from "../../fixtures.ts";

/** Variables of scripts that may be empty: a host may have no site, `made` no hash of a program, and no
 * reporter is restarted. */
const mayBeEmpty = ["site_logs", "sha256", "writers", "running", "reported", "scheduled"];

describe.each([
  ["without a site", example],
  ["with a served site", served],
  ["with two sites and every option", rebuilt],
] as const)("the layers of a host %s", (_, settings) => {
  const layers = Object.values(hostLayers(settings, exampleHost, made));
  /** The layers that a host with these settings has. */
  const declared = layers.filter(({ present = true }) => present);

  test("have names, paths, globs, modes and owners that no shell reads otherwise", () => {
    for (const { name, files, owns } of layers) {
      expect(name).toMatch(/^[a-z][a-z0-9-]{0,31}$/);
      for (const { path, mode, owner } of files) {
        expect(path).toMatch(/^(\/\.?[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*)+$/);
        expect(`${mode} ${owner}`).toMatch(/^0[0-7]{3} [a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$/);
      }
      // An apply removes what they match.
      for (const glob of owns)
        expect(glob).toMatch(/^\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*(\/(?!\.\.(\/|$))[a-zA-Z0-9._@+:*?[\]!-]+)+$/);
    }
  });

  test("own each of their files, so that a file that is no longer declared is removed", () => {
    for (const { name, files, owns } of layers)
      for (const { path } of files)
        expect(
          owns.some((glob) => matchesGlob(path, glob)),
          `${name}: ${path}`,
        ).toBe(true);
  });

  test("own the drop-ins of their units, so that one made by hand is found and removed", () => {
    for (const { name, files, owns } of layers)
      for (const { path } of files.filter((one) =>
        /^\/etc\/systemd\/system\/[^/]+\.(service|socket|timer|path|slice)$/.test(one.path),
      ))
        expect(
          owns.some((glob) => matchesGlob(`${path}.d/manual.conf`, glob)),
          `${name}: ${path}.d`,
        ).toBe(true);
  });

  test("have units that say what they are, and programs that name their interpreter", () => {
    for (const { files } of layers)
      for (const { path, text, mode } of files) {
        if (/\.(service|socket|timer|path)$/.test(path)) expect(text, path).toMatch(/^Description=pushgate: \S.{6,}$/m);
        if (mode === "0755") expect(text.split("\n")[0], path).toMatch(/^#!\/(bin\/sh|usr\/bin\/perl)$/);
      }
  });

  test("have no unit with an empty setting but three that limit it, and no script with an empty variable", () => {
    for (const { name, files, script } of declared) {
      for (const { path, text } of files.filter((one) => one.path.startsWith(`${paths.units}/`)))
        for (const [line, setting] of text.matchAll(/^(\w+)=\s*$/gm))
          expect(["AmbientCapabilities", "CapabilityBoundingSet", "DeviceAllow"], `${path}: ${line}`).toContain(
            setting,
          );
      for (const [, variable] of script!.matchAll(/^(\w+)=''$/gm)) expect(mayBeEmpty, name).toContain(variable);
    }
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
        'openssl x509 -in "$1" -noout': path.startsWith(paths.tls) && path.endsWith(".pem"),
      }).find(([, applies]) => applies)?.[0];
    for (const { files } of layers)
      for (const file of files) {
        // The check of nginx's file reads the new CA with it.
        const command = file.path === clientCaPath ? undefined : checkOf(file);
        if (command === undefined) expect(file.check, file.path).toBeUndefined();
        else expect(file.check, file.path).toContain(command);
      }
  });

  test("have facts with a name, a command and a result, each name once", () => {
    for (const { name, facts } of declared) {
      // The proxy's facts show with which CAs nginx runs.
      expect(facts.length > 0, name).toBe(name !== "client-ca");
      for (const fact of facts) {
        for (const text of Object.values(fact)) expect(text, `${name}: ${fact.name}`).toMatch(/\S/);
        for (const text of [fact.name, fact.read]) expect(text, `${name}: ${fact.name}`).toMatch(/^\S/);
      }
      expect(new Set(facts.map((fact) => fact.name)).size, name).toBe(facts.length);
    }
  });

  test("call functions that their script defines", () => {
    const defined = (script = "") => [...script.matchAll(/^(\w+)\(\) [{(]/gm)].map(([, name]) => name);
    const programs = ["cat", "echo", "getent", "ls", "readlink", "stat", "systemctl"];
    for (const { name, script, activate, reactivate = ":", retire, facts } of layers)
      for (const text of [activate, reactivate, retire, ...facts.map(({ read }) => read)]) {
        const [, word] = /^(?:\w+=\S*\s+)*([a-z_]+)\b/.exec(text) ?? [];
        if (word !== undefined && !programs.includes(word)) expect(defined(script), `${name}: ${text}`).toContain(word);
      }
  });

  test("call the steps that their script defines", () => {
    for (const { name, script = "", activate, reactivate = ":", retire } of declared)
      for (const [step, called] of Object.entries({ activate, reactivate, retire })) {
        if (script.includes(`\n${step}() {`)) expect(called, name).toBe(step);
      }
  });

  test("own drop-ins of units alone", () => {
    for (const { owns } of layers)
      for (const glob of owns.filter((one) => one.endsWith(".d/*.conf")))
        expect(glob).toMatch(
          /(\.(service|socket|timer|path|slice)|\/pushgate-[\w*-]*\*|pushgate-\.\*|pushgate-\*@\*)\.d\/\*\.conf$/,
        );
  });

  test("have files with a text and a mode that only root can write", () => {
    for (const { name, files } of layers)
      for (const { path, text, mode, owner } of files) {
        expect([`${name}: ${path}`, owner.split(":")[0]]).toEqual([`${name}: ${path}`, "root"]);
        expect(mode, path).toMatch(text.startsWith("#!") ? /^0755$/ : /^0[0-7]{3}$/);
        expect(Number.parseInt(mode, 8) & 0o022, path).toBe(0);
        expect(text, path).toMatch(/\S/);
      }
  });
});

test("a host's builder program has its bundle's hash, and leaves where no hook has a site; the reporter's, where none is reported", () => {
  const programs = { receiver: { sha256: "a".repeat(64) }, builder: { sha256: "b".repeat(64) } };
  const layers = hostLayers(rebuilt, exampleHost, { ...made, programs });
  expect(layers["builder-program"].script).toContain(`sha256='${programs.builder.sha256}'`);
  const { receiver } = programs;
  expect(hostLayers(example, exampleHost, { ...made, programs: { receiver } })["builder-program"].present).toBe(false);
  const present = (settings: typeof rebuilt) => hostLayers(settings, exampleHost, made)["reporter-program"].present;
  expect([present(rebuilt), present(served)]).toEqual([undefined, false]);
});

test("a template rejects a place without a value, and a value without a place", () => {
  const base = new URL("../../../infra/host/builder/builder.ts", import.meta.url).href;
  expect(() => template(base, "pushgate-build@.path", {})).toThrow(/^pushgate-build@\.path: @\w+@ has no value$/);
  const values = { target: "site", more: 1, still: 2 };
  expect(() => template(base, "pushgate-reconcile@.timer", values)).toThrow(/has no place for .*more, still$/);
});
