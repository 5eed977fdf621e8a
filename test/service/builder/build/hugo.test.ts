/** What a failed build is called, by how Hugo's unit ended and what Hugo printed. */
import { expect, test } from "vitest";
import { folderAdvice, reasonOf, versionAdvice, warningsOf } from "../../../../service/builder/build/hugo.ts";

const limits = { releaseBytes: 1, pagesPercent: 50, seconds: 30, memoryMiB: 1024, tasks: 256 };

/** `end`: result, code and status in systemd's words. */
function reason(end: string, output = "", of: Parameters<typeof reasonOf>[1] = limits): string {
  const [result = "", code = "", status = ""] = end.split(" ");
  return reasonOf({ result, code, status, output, printed: "" } as Parameters<typeof reasonOf>[0], of);
}

const processes = "Hugo reached its limit of processes and threads (256). ";
const memory = "the build reached its memory limit (1024 MiB). ";

test.each([
  ["oom-kill killed KILL", "", memory],
  ["exit-code exited 2", "fatal error: runtime: out of memory", memory],
  ["exit-code exited 2", "x\nfatal error: runtime: cannot allocate memory", memory],
  ["exit-code exited 1", "ERROR a page: fatal error: out of memory", "Hugo failed: a page: fatal error: out of memory"],
  ["timeout killed TERM", "", "the build took longer than its 30 s. "],
  ["timeout exited 0", "", "Hugo ended, and its unit did not: "],
  ["signal killed KILL", "", "Hugo was ended by the signal KILL: "],
  ["success killed TERM", "", "Hugo was ended by the signal TERM: "],
  ["core-dump dumped SEGV", "", "Hugo was ended by the signal SEGV: "],
  ["resources", "", "the host lacks the resources to start Hugo. "],
  ["exit-code exited 203", "", "Hugo cannot be started. "],
  ["exit-code exited 78", "the content folder is missing", "the content folder is missing"],
  ["exit-code exited 3", "", "Hugo failed: "],
  ["exit-code exited 255", "write /out/x: no space left on device", "the disk is full. "],
  ["exit-code exited 1", "ERROR Disk quota exceeded", "the disk is full. "],
  ["oom-kill killed KILL", "sh: 0: Cannot fork", memory],
  ["exit-code exited 2", "pthread_create failed\nfatal error: runtime: out of memory", memory],
  [
    "exit-code exited 2",
    "pthread_create failed",
    "Hugo got no thread, at its limit of memory (1024 MiB) or of processes",
  ],
  ["exit-code exited 2", "runtime: failed to create new OS thread (have 9 already; errno=11)", processes],
  ["exit-code exited 1", "fork/exec /usr/bin/x: resource temporarily unavailable", processes],
  ["exit-code exited 1", "Error: POSTCSS: failed to transform: /usr/bin/npx: 0: Cannot fork", processes],
  ["exit-code exited 1", "Error: spawn /usr/bin/x EAGAIN", processes],
  ["exit-code exited 1", "sh: fork: retry: Resource temporarily unavailable", processes],
])("the end %s after %j has the reason: %s", (end, output, words) => {
  expect(reason(end, `${output}\n`).startsWith(words)).toBe(true);
});

test.each([
  ['ERROR 2026/11/23 12:00:00 render: "/source/layouts/a.html:3:5": b', 'render: "/source/layouts/a.html:3:5": b'],
  ["Error: themes/plain/layouts/a.html:10: bad", "themes/plain/layouts/a.html:10: bad"],
])("a template is named: %s", (output, said) => {
  const path = /(themes\/plain\/)?layouts\/a\.html/.exec(output)![0];
  expect(reason("exit-code exited 1", output)).toBe(`the template ${path} failed: ${said}`);
});

const denied = (what: string, policy: string) =>
  `Error: x: access denied: "${what}" is not whitelisted in policy "security.${policy}"; the current security configuration is:`;
const notHere = "this feature is not available in your current Hugo version, see https://goo.gl/YMrWcn";
const unnamed = "the site imports a Hugo module that go.mod and go.sum do not name. Run hugo mod tidy,";
const [sass, binary] = ['failed to transform "a.scss" (text/x-scss). ', 'binary with name "postcss" not found'];
test.each([
  [denied("go", "exec.allow"), unnamed],
  [denied("npx", "exec.allow"), "the site needs npx of npm. Set hooks[].site.npm to true, and commit"],
  [denied("pandoc", "exec.allow"), "the build may not use pandoc. Add it to hooks[].site.hugo.exec, which outranks"],
  [denied("https://x/", "http.urls"), "the build may not use https://x/. Add it to hooks[].site.hugo.http, which"],
  [denied("XX", "funcs.getenv"), 'Hugo failed: x: access denied: "XX"'],
  // As 0.111, and then as 0.131 to 0.168 say it.
  [
    `TOCSS-DART: ${sass}You need dart-sass-embedded in your system $PATH.: ${notHere}`,
    "this release of Hugo is too old",
  ],
  [`TOCSS-DART: ${sass}You need to install Dart Sass, see x: ${notHere}`, "the site needs Dart Sass. Run npx"],
  [`TOCSS: ${sass}Check your Hugo installation; x: ${notHere}`, "the site needs the extended edition of Hugo. Run npx"],
  [`POSTCSS: x; install with "npm install postcss-cli". See x: ${notHere}`, "the site needs postcss-cli of npm. Set"],
  [`POSTCSS: x. See x: ${binary} using npx`, "the site needs postcss of npm. Set hooks[]"],
  ["TOCSS: a.scss:1: File to import not found or unreadable: ../b/c.", "the build does not find ../b/c, which is"],
  ['JSBUILD: a.js:1: Could not resolve "alpinejs"', "the build does not find alpinejs, which is"],
  ["POSTCSS: x: /usr/bin/node: bad option: --permission", "this Hugo needs Node 22.13 or later. Run npx pushgate"],
  ['x: exec: "npx": executable file not found in $PATH', "the site needs npx of npm. Set hooks[].site.npm"],
  ['x: exec: "rst2html": executable file not found', "the build does not find rst2html. Install it in /usr/local/bin"],
  ['download modules: binary with name "go" not found in PATH', unnamed],
  ['Get "https://x/": dial tcp: lookup x', "the build does not reach https://x/. It reaches port 443 of public"],
  ['module "t" not found in "/source/themes/t"; either', "the repository has no theme or module t. Commit it, or add"],
  ['parse failed: template: a.html:1: function "try" not defined', "this Hugo has no function try. Correct its name"],
])("%s has the reason: %s", (output, words) => {
  const found = reason("exit-code exited 1", output);
  const [said] = output.replace(/^Error: /, "").split(";");
  expect([found.startsWith(words), found.includes(said!)]).toEqual([true, true]);
});

test("the errors say why before the warnings do, and the innermost of templates that call each other", () => {
  const failed = (name: string) => `template: ${name}: execute of template failed: `;
  const output = `WARN Get "https://y/": dial udp\nERROR ${failed("a")}${failed("b")}Get "https://x/": dial tcp`;
  const found = reason("exit-code exited 1", output);
  expect(found).toMatch(/^the build does not reach https:\/\/x\/\. .*\(Hugo: Get "https:\/\/x\/": dial tcp\)$/);
});

const module = 'Module "t" is not compatible with this Hugo version';
test.each([
  [`WARN 2026/11/23 12:00:00 ${module}; run\nError: x`, "", module],
  [`WARN  ${module}: Min 0.9; run\nError: x`, "layouts/a.html", `${module}: Min 0.9`],
  ["hugo v0.145.0+extended", "themes/t/layouts/baseof.html", "themes/t/layouts/baseof.html is a layout for Hugo 0.146"],
  ["hugo v0.111.3", "a.md layouts/_partials/a.html", "layouts/_partials/a.html is a layout for Hugo 0.146 or later,"],
  ["hugo v0.146.0", "layouts/baseof.html", ""],
  ["hugo v0.111.3", "layouts/index.html layouts/404.html layouts/_default/single.html layouts/partials/page.html", ""],
])("after %j with the files %j the advice on the version begins with: %j", (output, files, words) => {
  const found = versionAdvice(output, files.split(" "));
  // A reason of the unit's own program is no matter of the version.
  const [own, ofHugo] = ["78", "1"].map((status) =>
    reasonOf({ result: "exit-code", code: "exited", status, output: "x" }, limits, found),
  );
  expect([own, ofHugo]).toEqual(["x", `${found}Hugo failed: x`]);
  expect([found.startsWith(words), found === "" || found.endsWith(", then npx pulumi up. ")]).toEqual([true, true]);
  if (words === "") expect(found).toBe("");
});

test("what an error means is said instead of a guess by a layout", () => {
  const [status, output] = ["1", denied("npx", "exec.allow")];
  const said = (version: string) => reasonOf({ result: "exit-code", code: "exited", status, output }, limits, version);
  expect(said("a.html is a layout. ")).toBe(said(""));
  expect(said("Module x. ")).toBe(`Module x. ${said("")}`);
});

test("Hugo's warnings are reported once each, without their times, the first five of them", () => {
  const lines = ["WARN 2026/11/23 12:00:00 a", "WARN  a", "ERROR e", "no WARN x", `WARN b\u001b${"c".repeat(301)}`, ""];
  const two = ["Hugo: a", `Hugo: b?${"c".repeat(298)}…`];
  expect(warningsOf(lines.join("\n"))).toEqual(two);
  const five = [...two, "Hugo: d", "Hugo: e", "Hugo: f"];
  const all = warningsOf([...lines, "WARN d\nWARN e\nWARN f\nWARN g\nWARN h"].join("\n"));
  expect(all).toEqual([...five, "Hugo: 2 more warnings"]);
  // Of 0.111, and one that has a cause.
  expect(warningsOf(`i18n|MISSING_TRANSLATION|en|a\nWARN  x: ${denied("https://x/", "http.urls")}`)).toEqual([
    "Hugo: i18n|MISSING_TRANSLATION|en|a",
    expect.stringMatching(/^Hugo: the build may not use https:\/\/x\/\. Add it to hooks\[\]\.site\.hugo\.http, /),
  ]);
});

test.each<[string, string, string]>([
  ["docs/hugo.toml themes/t/hugo.toml .github/config.yml", "", "docs, not in the top folder"],
  ["web/config/_default/hugo.yaml a/b/config.json", "docs", "web, a/b, not in docs"],
  ["config/production/menus.toml", "docs", "the top folder, not in docs"],
  ["hugo.yml docs/hugo.toml", "", ""],
  ["config.yml docs/hugo.toml", "", "docs, not in the top folder"],
  ["config.yml docs/config/_default/site.yml", "", "docs, not in the top folder"],
  ["config.toml docs/hugo.toml", "", ""],
  ["config.yml a/config.yml", "", ""],
  ["docs/my-hugo.toml docs/hugo.toml.txt", "", ""],
])("of the files %s, for the folder %j, Hugo's configuration is in: %s", (files, folder, found) => {
  const advice = found && ` Hugo's configuration is in ${found}. Correct hooks[].site.folder.`;
  expect(folderAdvice(files.split(" "), (path) => (path === "config.toml" ? "baseURL" : ""), folder)).toBe(advice);
});

test.each([
  [
    "without greeting and totals",
    "Start building …\nhugo v0.1\n  | EN\n-----+---\nWARN x\nTotal in 5 ms\nsaid so",
    "said so",
  ],
  ["without the number of errors", "ERROR a\nError: error building site: logged 12 error(s)", "a"],
  [
    "without the security configuration",
    "Error: denied: x; the current security configuration is:\n[security]",
    "denied: x",
  ],
  ["three errors, each once", "x\nERROR a\nERROR a\nERROR b\npanic: c\nfatal d\nafter", "a | b | panic: c"],
  ["an error that quotes another", "ERROR a: ERROR b", "a: ERROR b"],
  ["an error that counts others in its middle", "ERROR logged 3 error(s) itself", "logged 3 error(s) itself"],
  ["else the last three lines", "one\nno ERROR\nsee hugo v0\nno WARN", "no ERROR | see hugo v0 | no WARN"],
])("Hugo's words are %s", (_, output, said) => {
  expect(reason("exit-code exited 1", output)).toBe(`Hugo failed: ${said}`);
});

test("an end of another kind is named with the output, and a limit that the settings lack is left out", () => {
  expect(reason("watchdog killed ABRT", "last words")).toMatch(/^Hugo's unit ended by watchdog\. .*: last words$/);
  const { memoryMiB: _, ...others } = limits;
  expect(reason("oom-kill killed KILL", "", others)).toMatch(/^the build reached its memory limit\. /);
});
