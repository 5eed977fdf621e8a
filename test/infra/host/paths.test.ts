/**
 * Paths of the configuration, where they become shell of root, lines of units and nginx's. The schema admits no
 * character that has a meaning in any of them. Past the schema, hostile paths are quoted, or a renderer throws.
 */
import { spawnSync } from "node:child_process";
import { dirname } from "node:path";
import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { quote } from "../../../infra/apply/shell.ts";
import type { Settings } from "../../../infra/config/settings.ts";
import { absolutePath, relativePath } from "../../../infra/config/values.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { hostLayers } from "../../../infra/host/index.ts";
import { nginxWord, unitWord } from "../../../infra/host/kit.ts";
import { builderUser, generatorUser, reporterUser } from "../../../infra/host/paths.ts";
import { questionsOf } from "../../../infra/host/preflight.ts";
import { siteLayer } from "../../../infra/host/site/site.ts";
import { exampleHost, made, rebuilt, serving } from "../../fixtures.ts";
import { inNamespace, needs, Root, verifyUnits } from "./namespace.ts";

const root = new Root();

/** What a shell, systemd or nginx reads as more than a character. */
const parts = [
  ...["`echo pwned >&2`", ";echo pwned;", "&&echo pwned", "|cat", ">/tmp/pwned", "%n", ":", "'", '"', "\\", "*", "#"],
  ...[" ", "-x", "é"],
];
const inexpressible = ["\necho", "\t", "$HOME", "$(echo)", "\u007f"];
/** Settings whose first site has paths that begin with this one, past the schema. */
const siteAt = (path: string): Settings =>
  serving(rebuilt, {
    webRoot: path,
    content: `${path}.content`,
    folder: path.slice(1),
    folders: { downloads: `${path}.downloads` },
  });

test("each account of a site is its own, and its name says which site and fits systemd's 31 characters", () => {
  const names = ["a", "site", "-", "0", "a".repeat(17), "a".repeat(32), `${"a".repeat(31)}b`, "sixteen-letters1"];
  const accounts = names.flatMap((name) => [builderUser(name), generatorUser(name), reporterUser(name)]);
  expect(new Set(accounts).size).toBe(accounts.length);
  for (const account of accounts) {
    expect(account).toMatch(/^pushgate-(build|generator|report)-[a-z0-9-]+(_[0-9a-f]{8})?$/);
    expect(account.length).toBeLessThanOrEqual(31);
  }
  expect(builderUser("sixteen-letters1")).toBe("pushgate-build-sixteen-letters1");
});

test("the schema admits no path with a character that a shell, systemd or nginx reads as its own", () => {
  const characters = Array.from({ length: 0x180 }, (_, code) => String.fromCharCode(code));
  for (const [shape, start] of [[absolutePath("", ""), "/srv/"] as const, [relativePath(""), ""] as const]) {
    const admitted = characters.filter((one) => v.is(shape, `${start}a${one}b`));
    expect(admitted).toEqual(characters.filter((one) => /[A-Za-z0-9._@+=,/-]/.test(one)));
    expect(v.is(shape, `${start}-x`)).toBe(false);
  }
});

test("in a shell of root each path is in single quotes, whatever it holds; without them it runs", () => {
  const nothing = { activate: "", reactivate: "", retire: "", files: [] };
  for (const path of [...parts, parts.join("")].map((part) => `/tmp/sites/x${part}y`)) {
    const questions = questionsOf(exampleHost, siteAt(path)).map((one) => ({ ...one, ...nothing }));
    const text = [...Object.values(hostLayers(siteAt(path), exampleHost, made)), ...questions]
      .flatMap(({ script = "", activate, reactivate = "", retire, facts, files }) => [
        ...[script, activate, reactivate, retire],
        ...[...facts.map(({ read }) => read), ...files.map(({ check = "" }) => check)],
      ])
      .join("\n");
    const quoted = [path, `${path}.content`, `${path}.downloads`].map(quote);
    for (const one of quoted) expect(text).toContain(one);
    const rest = quoted.reduce((left, one) => left.replaceAll(one, ""), text);
    expect(rest).not.toMatch(/\/tmp\/sites\/|pwned/);
  }
  const path = `/nowhere${parts[0]}`;
  const { read } = siteLayer(siteAt(path)).facts[0]!;
  const printed = (text: string) => spawnSync("sh", ["-c", `link_of() { :; }\n${text}`], { encoding: "utf8" }).stderr;
  expect([printed(read), printed(read.replaceAll(quote(path), path))]).toEqual(["", "pwned\n"]);
});

describe("in a unit", () => {
  needs("systemd-analyze");
  /** What systemd reports of services with these lines. */
  const report = (lines: readonly string[]) => {
    const files = lines.map((line, i) => root.write(`s${i}.service`, `[Service]\n${line}\n`));
    return spawnSync("systemd-analyze", ["verify", "--man=no", ...files], { encoding: "utf8" }).stderr;
  };

  test("a hostile path arrives as it is, or the renderer throws", () => {
    const names = [...parts, parts.join("")].map((part) => `/nowhere/a${part.replaceAll("/", "")}b`);
    const reported = report(names.map((name) => `ExecStart=${unitWord(name)} x`));
    // systemd prints the program that it does not find.
    const found = names.filter((name) =>
      [`Command ${name} is not executable: No`, `contains special characters: ${name}`].some((one) =>
        reported.includes(one),
      ),
    );
    expect(found).toEqual(names);
    // It also prints a path that is not absolute.
    const mounted = report(
      names.map((name) => `ExecStart=/bin/true\nBindReadOnlyPaths=${unitWord(name.slice(1))}:/content`),
    );
    expect(names.filter((name) => !mounted.includes(`path is not absolute, ignoring: ${name.slice(1)}\n`))).toEqual([]);
    expect(report(["ExecStart=/nowhere/a%nb"])).toContain("Command /nowhere/as0.serviceb is not executable");
    for (const part of inexpressible) expect(() => unitWord(part)).toThrow("cannot be written into a unit");
  });

  test("systemd accepts the units of a site with every admitted character in its paths", () => {
    const { files } = builderLayer(siteAt("/home/AZaz09._@+=,-"), exampleHost);
    expect(verifyUnits(files)).toBe("");
    expect(files.map(({ text }) => text).join("")).toContain("/home/AZaz09._@+=,-.content:/content\n");
  });
});

describe("in nginx", () => {
  needs("nginx", "ip", "unshare");

  test("a hostile path arrives as it is, or the renderer throws", () => {
    const servers = parts.map((part, i) => {
      const folder = dirname(root.write(`www${part.replaceAll("/", "")}/index.html`, `page ${i}`));
      return `server { listen 127.0.0.1:${8100 + i}; root ${nginxWord(folder)}; }`;
    });
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((t) => `${t}_temp_path ${root.at(t)};`);
    const config = root.write(
      "nginx.conf",
      `user root; pid ${root.at("pid")}; error_log ${root.at("log")}; events { }
http { access_log off; ${temporary.join(" ")} ${servers.join("\n")} }`,
    );
    const get = `for (let i = 0; i < ${parts.length}; i++) console.log(await (await fetch("http://127.0.0.1:" + (8100 + i))).text())`;
    const { stdout } = inNamespace(`nginx -c ${config} && ${process.execPath} --input-type=module -e '${get}'`);
    expect(stdout.split("\n")).toEqual(parts.map((_, i) => `page ${i}`));
    for (const part of inexpressible)
      expect(() => nginxWord(part)).toThrow("cannot be written into nginx's configuration");
  });
});
