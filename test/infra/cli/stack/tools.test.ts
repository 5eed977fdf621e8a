/** `npx pushgate tools` with release pages of its own, and fake hosts that run the real shell. */
import { createHash } from "node:crypto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { paths } from "../../../../infra/host/paths.ts";
import { release } from "../../../fixtures.ts";
import { ends, Hosts, hookOf } from "../hosts.ts";

const hosts = new Hosts();
afterEach(() => void vi.unstubAllGlobals());

const [page, hex] = ["https://github.com/gohugoio/hugo/releases/download/v0.152.2", "c".repeat(64)];
const sumOf = (text: string) => createHash("sha256").update(text).digest("hex");
/** What the release pages answer, by address; another is answered 404. */
const pages: Record<string, string> = {
  [`${page}/hugo_0.152.2_checksums.txt`]: `${hex}  hugo_extended_0.152.2_linux-amd64.tar.gz\n${"d".repeat(64)}  hugo_extended_0.152.2_linux-arm64.tar.gz\n${hex}  hugo_0.152.2_linux-amd64.tar.gz\n`,
  "https://github.com/sass/dart-sass/releases/download/1.89.2/dart-sass-1.89.2-linux-x64.tar.gz": "for amd64",
  "https://github.com/sass/dart-sass/releases/download/1.89.2/dart-sass-1.89.2-linux-arm64.tar.gz": "for arm64",
  "https://nodejs.org/dist/v22.20.0/SHASUMS256.txt": `${hex}  node-v22.20.0-linux-x64.tar.gz\n`,
  // Redirects to this address.
  "https://github.com/gohugoio/hugo/releases/latest": "https://github.com/gohugoio/hugo/releases/tag/v0.152.2",
  "https://github.com/sass/dart-sass/releases/latest": "https://github.com/sass/dart-sass/releases/tag/1.89.2",
  "https://nodejs.org/dist/index.json": '[{"version":"v23.1.0"},{"version":"v22.20.0"},{"version":"v22.19.0"}]',
  "https://mirror.example.org/tools/dart-sass-1.89.2-linux-x64.tar.gz": "for amd64",
};
const large = `${page.replace(/0\.152\.2$/, "0.152.4")}/hugo_0.152.4_checksums.txt`;
const away = `${page.replace(/0\.152\.2$/, "0.152.5")}/hugo_0.152.5_checksums.txt`;
const sass = { version: "1.89.2", amd64: sumOf("for amd64"), arm64: sumOf("for arm64") };
const configure = (site: object) =>
  hosts.configure(["web1"], [hookOf({ name: "docs" }), hookOf({ site: { webRoot: "/var/www/site", ...site } })]);
const unlisted =
  "https://nodejs.org/dist/v22.20.0/SHASUMS256.txt has no SHA-256 of node-v22.20.0-linux-arm64.tar.gz. Name another";
const written = () => hosts.read("calls.log");

beforeEach(() => {
  hosts.add("web1");
  hosts.program("web1/bin/dpkg", "echo amd64");
  configure({});
  vi.stubGlobal("fetch", async (url: string) => {
    if (url === away) throw new Error("fetch failed", { cause: new Error("no route") });
    const text = url === large ? "" : pages[url];
    const body = url === large ? [Buffer.alloc(1), Buffer.alloc(1 << 28)] : [Buffer.from(text ?? "")];
    const at = text?.startsWith("https:") ? text : url;
    return { ok: text !== undefined, status: text === undefined ? 404 : 200, url: at, body };
  });
});

test("tools writes releases with the digests of the project's list, or of its archives where it has none", async () => {
  const run = await hosts.run("tools", "site", "hugo=0.152.2", "sass=1.89.2", "--stack", "prod");
  expect(run).toEqual(ends(0, "site is built with\n  hugo 0.152.2\n  sass 1.89.2\nNext: npx pulumi up\n"));
  const at = "--plaintext pushgate:hooks[1].site.tools";
  expect(written()).toBe(
    `config set-all --path --stack prod ${at}.hugo.version=0.152.2 ${at}.hugo.amd64=${hex} ${at}.hugo.arm64=${"d".repeat(64)} ` +
      `${at}.sass.version=1.89.2 ${at}.sass.amd64=${sass.amd64} ${at}.sass.arm64=${sass.arm64} <>\n`,
  );
});

test.each([
  ["hugo=0.152", '"hugo=0.152" is no release. Use hugo, sass, node with three numbers, such as hugo=0.152.2.'],
  ["go=1.25.0", '"go=1.25.0" is no release.'],
  ["hugo=0.152.3", `${page.replace(/2$/, "3")}/hugo_0.152.3_checksums.txt is answered 404. Name a release that`],
  ["node=22.20.0", unlisted],
  ["hugo=0.152.4", `${large} has more than 256 MiB.`],
  ["hugo=0.152.5", `${away} was not downloaded: no route`],
])("tools writes nothing for %s", async (word, says) => {
  expect(await hosts.run("tools", "site", "sass=1.89.2", word)).toEqual(ends(1, /^$/, says));
  expect(written()).toBe("");
});

test("tools proposes what the repository says, writes what is missing, and --check finds nothing more", async () => {
  const command = "HUGO_PARAMS_YEAR=2026 hugo --gc --buildFuture";
  hosts.git({
    "hugo.toml": 'baseURL = "https://x.org"\nenableGitInfo = true',
    ".hugo-version": `0.150.0${"\n".repeat(100_000)}`,
    "netlify.toml": `[build]\ncommand = "${command}"\n[build.environment]\nHUGO_VERSION = "0.152.2"`,
  });
  configure({ hostname: "www.example.org", hugo: { arguments: ["--gc"] } });
  const proposed = [
    "https://github.com/example/site.git, branch main:",
    "  + tools.hugo: 0.152.2 (netlify.toml has it)",
    "    enableGitInfo: nothing to set",
    "  + hugo.baseUrl: https://www.example.org/ (the site has https://x.org)",
    "  = hugo.arguments: --gc (netlify.toml has it)",
    "  + hugo.arguments: --buildFuture (netlify.toml has it)",
    "  + hugo.variables.HUGO_PARAMS_YEAR: 2026 (netlify.toml has it)\n",
  ].join("\n");
  expect(await hosts.run("tools", "site", "--check")).toEqual({ code: 7, stdout: proposed, stderr: "" });
  expect(await hosts.run("tools", "site")).toEqual(ends(1, proposed, "there is no terminal for an answer. Add --yes."));
  expect(written()).toBe("");
  const built = ends(0, "site is built with\n  hugo 0.152.2\nNext: npx pulumi up\n");
  expect(await hosts.run("tools", "site", "--yes")).toEqual(built);
  const at = "pushgate:hooks[1].site";
  expect(written().trim().split("\n")).toEqual([
    `config set-all --path --plaintext ${at}.tools.hugo.version=0.152.2 --plaintext ${at}.tools.hugo.amd64=${hex} ` +
      `--plaintext ${at}.tools.hugo.arm64=${"d".repeat(64)} --plaintext ${at}.hugo.baseUrl=https://www.example.org/ ` +
      `--plaintext ${at}.hugo.arguments[1]=--buildFuture <>`,
    `config set --path --type string -- ${at}.hugo.variables.HUGO_PARAMS_YEAR 2026 <>`,
  ]);
  const variables = { HUGO_PARAMS_YEAR: "2026" };
  const hugo = { arguments: ["--gc", "--buildFuture"], variables, baseUrl: "https://x.org/" };
  configure({ hostname: "www.example.org", hugo, tools: { hugo: release("0.152.2") } });
  expect(await hosts.run("tools", "site", "--check")).toEqual(ends(0, /^[^+]*$/));
  hosts.git();
  const unread = "cannot be read on this computer: fatal: Could not resolve";
  expect(await hosts.run("tools", "site")).toEqual(ends(1, /^$/, unread));
});

test("tools writes the newest releases where none is exact, or the least that is needed, and npm with Node alone", async () => {
  const files = {
    ...{ "hugo.toml": "", "layouts/all.html": "dartsass" },
    "package-lock.json": "{}",
    "package.json": '{"dependencies":{"postcss-cli":"1"}}',
  };
  hosts.git({ ...files, "layouts.txt": "", "netlify.toml": "[build]\ncommand = \"hugo -e 'a b'\"" });
  const lines =
    /\+ tools\.hugo: the newest release .*\n {2}\+ tools\.sass: .*\n {2}\+ tools\.node: .*\n {2}\+ npm: true .*\n {4}hugo\.environment: a b is not accepted/;
  const stderr = `pushgate: ${unlisted} release.\n`;
  expect(await hosts.run("tools", "site", "--yes")).toEqual({ ...ends(1, lines), stderr });
  expect(written()).toMatch(
    /^config set-all .*tools\.hugo\.version=0\.152\.2 .*tools\.hugo\.arm64=d+ .*tools\.sass\.version=1\.89\.2 /,
  );
  configure({ npm: true, tools: { hugo: release("0.152.2"), sass: release("1.89.2"), node: release("22.20.0") } });
  hosts.git({ ...files, ".nvmrc": "22" });
  expect((await hosts.run("tools", "site", "--check")).code).toBe(0);
  configure({});
  const needs = (version: string) => `[module.hugoVersion]\nmin = '${version}'`;
  hosts.git({ "hugo.toml": needs("0.152.2") });
  expect((await hosts.run("tools", "site", "--yes")).stdout).toContain(
    "+ tools.hugo: 0.152.2 (Hugo's configuration needs",
  );
  expect(written()).toContain("tools.hugo.version=0.152.2");
  hosts.git({ "hugo.toml": needs("0.152.2"), ".hugo-version": "latest" });
  expect((await hosts.run("tools", "site", "--yes")).stdout).toContain("site is built with\n  hugo 0.152.2\n");
  hosts.git({ "hugo.toml": needs("0.160.0"), ".hugo-version": "latest" });
  const none = ends(1, "the distribution's programs", "names no fitting release");
  expect(await hosts.run("tools", "site", "--yes")).toEqual(none);
});

test("tools --send puts the archive of a missing release onto the host, and nothing with another digest", async () => {
  configure({ mirror: "https://mirror.example.org/tools", tools: { sass, node: release("22.20.0") } });
  hosts.write(`web1/${paths.tools}/node-22.20.0/bin/node`, "");
  const send = () => hosts.run("tools", "site", "--send");
  expect(await send()).toEqual(ends(0, "web1: got sass-1.89.2. Next: npx pulumi up\n"));
  expect(hosts.read(`web1/${paths.tools}/.sent-${sass.amd64}`)).toBe("for amd64");
  configure({ tools: { sass: release("1.89.2") } });
  expect(await send()).toEqual(ends(1, "", "web1: sass-1.89.2 arrived damaged, or is another archive than"));
  configure({ tools: { hugo: release("0.1.0") } });
  expect(await send()).toEqual(ends(1, "", "hugo_extended_0.1.0_linux-amd64.tar.gz is answered 404."));
});
