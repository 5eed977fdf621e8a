/**
 * Paths of the configuration, where they become shell of root, lines of units and nginx's. The schema admits no
 * character that has a meaning in any of them. Past the schema, hostile paths are quoted, or a renderer throws.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import * as v from "valibot";
import { afterAll, describe, expect, test } from "vitest";
import { shape } from "../../../infra/config/schema.ts";
import { builderLayer } from "../../../infra/host/builder/builder.ts";
import { nginxWord, unitWord } from "../../../infra/host/kit.ts";
import { builderUser, generatorUser, reporterUser } from "../../../infra/host/paths.ts";
import { exampleHost, stackFile } from "../../fixtures.ts";
import { hostile, siteAt } from "./hostile-paths.ts";
import { inNamespace, needs, Root, verifyUnits } from "./namespace.ts";

const root = new Root();
afterAll(() => root.remove());

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
  const { "pushgate:hooks": hooks, ...others } = stackFile;
  const config = Object.fromEntries(
    Object.entries(others).map(([key, value]) => [key.slice("pushgate:".length), value]),
  );
  const fits = (change: object) =>
    v.safeParse(shape, { ...config, hooks: [{ ...hooks[0], site: { ...hooks[0]!.site, ...change } }] }).success;
  const meanings = /[^A-Za-z0-9._@+=,/-]/;
  for (let code = 0; code < 0x180; code++) {
    const character = String.fromCharCode(code);
    const [absolute, relative] = [`/srv/a${character}b`, `a${character}b`];
    const all = [
      fits({ webRoot: absolute }),
      fits({ content: absolute }),
      fits({ folder: relative }),
      fits({ hugo: { path: absolute } }),
    ];
    expect(all, JSON.stringify(character)).toEqual(all.map(() => !meanings.test(character)));
  }
  // An option of a program.
  expect([fits({ webRoot: "/srv/-x" }), fits({ folder: "-x" })]).toEqual([false, false]);
});

describe("in a unit", () => {
  needs("systemd-analyze");
  /** What systemd reports of services with these lines. */
  const report = (lines: readonly string[]) => {
    const files = lines.map((line, i) => root.write(`s${i}.service`, `[Service]\n${line}\n`));
    return spawnSync("systemd-analyze", ["verify", "--man=no", ...files], { encoding: "utf8" }).stderr;
  };

  test("a hostile path arrives as it is, or the renderer throws", () => {
    const parts = hostile.filter((part) => !/[\n\t$]/.test(part));
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
    for (const name of ["/a\nb", "/a\tb", "/a$b", "/a\u007f"])
      expect(() => unitWord(name)).toThrow("cannot be written into a unit");
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
    const parts = hostile.filter((part) => !/[\n\t$]/.test(part));
    const servers = parts.map((part, i) => {
      const folder = root.at(`www${part.replaceAll("/", "")}`);
      mkdirSync(folder, { recursive: true });
      writeFileSync(`${folder}/index.html`, `page ${i}`);
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
    for (const part of hostile.filter((part) => !parts.includes(part)))
      expect(() => nginxWord(`/a${part}`)).toThrow("cannot be written into nginx's configuration");
  });
});
