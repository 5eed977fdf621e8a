/** When the builder has something fetched, and what it takes of it. A fake of the fetcher's unit writes what a row says. */
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { connect, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { beginOfBuild } from "../../../../service/builder/build/content.ts";
import { kinds, provideDependencies } from "../../../../service/builder/build/dependencies.ts";
import { remove } from "../../../../service/builder/files.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { onPlaces, places } from "../scene.ts";
import { startFakeUnit } from "./fake-fetcher.ts";

onPlaces();
const at = (...path: readonly string[]) => join(places.work, ...path);
let fetches: string[];
let server: Server;
/** What the unit does, and how it ends. */
let unit: () => unknown;
let said: string;
let end: string;
const site = {
  "hugo.toml": '[[module.imports]]\npath = "example.org/theme"\n',
  "go.mod": "module site\n\nrequire example.org/plain v1.0.0\n\nrequire (\n\texample.org/theme v1.0.0\n)\n",
  "go.sum": "example.org/theme v1.0.0 h1:1=\n",
};
beforeEach(async () => {
  mkdirSync(places.clone);
  fetches = [];
  [said, end] = ["", "success exited 0"];
  unit = () => writeFileSync(at("fetched/modules/_vendor/modules.txt"), `brought ${fetches.length}`);
  server = await startFakeUnit({ socket: at("socket"), result: at("result") }, async (connection, id) => {
    connection.write(`${beginOfBuild}${id}\n`);
    const [kind] = readdirSync(at("wanted"));
    fetches.push(readFileSync(at("wanted", kind!, kind === "modules" ? "go.sum" : "package-lock.json"), "utf8"));
    for (const place of ["modules/_vendor", "packages/node_modules"])
      mkdirSync(at("fetched", place), { recursive: true });
    await unit();
    connection.write(said);
    return end;
  });
});
afterEach(() => server.close());

const registries = { go: "https://127.0.0.1:1/go", npm: "https://127.0.0.1:1" };

/** A build of these files in the site's folder. */
function provided(files: Readonly<Record<string, string>> = site, node = ""): Promise<void> {
  const folder = "docs";
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(places.clone, folder, path, ".."), { recursive: true });
    writeFileSync(join(places.clone, folder, path), text);
  }
  const limits = { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 30 };
  const fetcher = { socket: at("socket"), result: at("result"), registries, node: node || undefined };
  const settings = { folder, fetcher, generator: { socket: at("none"), result: "" }, limits };
  const paths = Object.keys(files).map((path) => `${folder}/${path}`);
  // Beside them a configuration that is not there by its name as text, which is not UTF-8.
  const others = ["go.mod", "README.md", `${folder}/config/_default/\ufffd.toml`];
  return provideDependencies(settings as unknown as BuilderSettings, places, [...paths, ...others]);
}
const kept = () => readFileSync(join(places.dependencies, "modules/_vendor/modules.txt"), "utf8");

test("modules are fetched when go.mod or go.sum changes and no other file, and leave with the site's need of them", async () => {
  await provided();
  await provided({ ...site, "hugo.toml": `${site["hugo.toml"]}# more\n` });
  const vendor = readdirSync(join(places.clone, "docs/_vendor"));
  expect([fetches, kept(), vendor]).toEqual([[site["go.sum"]], "brought 1", []]);
  expect([places.wanted, places.fetched].map((path) => existsSync(path))).toEqual([false, false]);
  await provided({ ...site, "go.sum": `${site["go.sum"]}\n` });
  expect([fetches.length, kept()]).toEqual([2, "brought 2"]);
  expect(readdirSync(places.work).filter((name) => name.startsWith("former-"))).toEqual([]);
  for (const files of [{ "hugo.toml": "" }, { ...site, "hugo.toml": "theme = 'x'\n" }] as const) {
    await provided(files);
    const left = [join(places.dependencies, "modules"), join(places.clone, "docs/_vendor")];
    expect(left.map((path) => existsSync(path))).toEqual([false, false]);
  }
  await provided({ ...site, "_vendor/modules.txt": "# of the repository\n" });
  expect(readFileSync(join(places.clone, "docs/_vendor/modules.txt"), "utf8")).toMatch(/^# of/);
  expect(fetches).toHaveLength(2);
});

const lock = `{ "resolved": "https://a.example/a.tgz", "x": "https://b.example/", "resolved" : "https://c.example:1/c.tgz" }`;
test("a fetch reaches the hosts of its registries, and of a lock file; a reason names one that is not reached", async () => {
  const [modules, packages] = Object.values(kinds).map(({ asks }) => asks(registries, lock));
  expect(modules).toEqual([registries.go, "https://sum.golang.org", "https://storage.googleapis.com"]);
  expect(packages).toEqual([registries.npm, "https://a.example"]);
  [end, said] = ["exit-code exited 69", "no answer.\n"];
  for (const why of ["127.0.0.1:1 is not reached: connect ECONNREFUSED", "x.example:443 is no host that"]) {
    unit = () => once(connect(at("wanted/relay")).end(why.replace(/ .*/, "\n")), "close");
    await expect(provided()).rejects.toThrow(`no answer. ${why}`);
  }
});

const advice = "Run hugo mod tidy, and commit go.mod and go.sum; or run hugo mod vendor, and commit _vendor.";
test.each<[what: string, end: string, said: string, result: string, reason: string]>([
  ["the repository is at fault", "exit-code exited 65", "x\ny \u001b[1m.\n", "rejected", `y ?[1m. ${advice}`],
  ["a registry does not answer", "exit-code exited 69", "no answer.\n", "failed", "no answer."],
  ["memory is short", "oom-kill killed KILL", "", "failed", "the fetch of dependencies reached its memory limit."],
  ["time is short", "timeout killed TERM", "", "failed", "the fetch of dependencies took longer than its 30 s."],
  ["the program fails", "exit-code exited 1", "x", "failed", "the fetcher's unit ended by exit-code 1."],
])("where %s, a run ends with the reason, and the next one fetches again", async (_, how, output, result, reason) => {
  [end, said] = [how, output];
  const setback = expect.objectContaining({ result, message: expect.stringContaining(reason) });
  await expect(provided()).rejects.toThrow(setback);
  end = "success exited 0";
  await provided();
  expect(kept()).toBe("brought 2");
});

test.each([
  ["_vendor/etc", "_vendor: etc is neither a"],
  ["_vendor", "ENOTDIR"],
])("a link in what came, at %s, is rejected, and nothing of it is kept", async (path, reason) => {
  unit = () => {
    remove(at("fetched/modules", path));
    symlinkSync("/etc", at("fetched/modules", path));
  };
  await expect(provided()).rejects.toThrow(reason);
  expect(existsSync(places.dependencies)).toBe(false);
});

test.each<[what: string, files: object, reason: string]>([
  ["no go.sum", { "go.sum": undefined }, `go.sum is missing, which has the digests of the site's modules. ${advice}`],
  ["a workspace", { "config/_default/module.yaml": "workspace: my.work\n" }, "from the workspace my.work. Run hugo"],
  ["a large go.sum", { "go.sum": "x".repeat(17 << 20) }, "go.sum is larger than 16 MiB. Make it smaller."],
  ["a file in the modules' place", { _vendor: "" }, "_vendor in the repository is no folder. Remove it."],
])("%s is rejected", async (_, files, reason) => {
  const all = Object.entries({ ...site, ...files }).filter(([, text]) => text !== undefined);
  await expect(provided(Object.fromEntries(all))).rejects.toThrow(reason);
});

test.each([
  ["a theme that go.mod requires in a line of its own", '# workspace = "old.work"\ntheme = "example.org/plain"\n', 1],
  ["a module that a folder replaces", '[module]\nreplacements = "example.org/theme -> ../.."\n', 0],
  ["a go.mod of another program", "", 0],
])("of %s, %j, is fetched: %i", async (_, toml, fetched) => {
  await provided({ ...site, "hugo.toml": toml });
  expect(fetches).toHaveLength(fetched);
});

const packages = { "package.json": "{}", "package-lock.json": "{}" };
const tools = () => join(places.dependencies, "packages/node_modules");
/** Brings a program, and a link to this place. */
const bringsLink = (path: string, to: string) => () => {
  for (const name of ["a/b", ".bin"]) mkdirSync(at("fetched/packages/node_modules", name), { recursive: true });
  writeFileSync(at("fetched/packages/node_modules/a/tool.js"), "");
  symlinkSync(to, at("fetched/packages/node_modules", path));
};

test("packages are fetched for another lock file or release of Node alone, and leave where npm is off", async () => {
  unit = bringsLink(".bin/tool", "../a/tool.js");
  await provided(packages, "/node-1");
  await provided({ ...packages, "index.md": "" }, "/node-1");
  expect([fetches, readdirSync(join(tools(), ".bin"))]).toEqual([["{}"], ["tool"]]);
  await provided(packages, "/node-2");
  await provided({ ...packages, "package-lock.json": "{ }" }, "/node-2");
  expect(fetches).toHaveLength(3);
  await provided({ ...packages, "node_modules/a.js": "" }, "/node-2");
  expect([fetches.length, existsSync(tools())]).toEqual([3, false]);
  await provided({ ...site, ...packages }, "/node-2");
  expect(fetches).toHaveLength(5);
  await provided(packages);
  expect(existsSync(tools())).toBe(false);
  [end, said] = ["exit-code exited 65", "a@9 is missing.\n"];
  await expect(provided(packages, "/node-1")).rejects.toThrow(/^a@9 is missing\.$/);
});

test.each([
  ...["../../a/b/tool", "../a", "../x/../b", "/etc/passwd", "../.."].map((to) => ["a/x", to, to === "../a"] as const),
  ["a/b/x", "../../a", true],
  ["a/b/x", "../..", false],
  ["x", "../a", false],
] as const)("a link in what came, %s to %s, is taken: %s", async (path, to, isIn) => {
  unit = bringsLink(path, to);
  const taken = provided(packages, "/node-1");
  if (isIn) await taken;
  else await expect(taken).rejects.toThrow(`node_modules: ${path} is neither a file nor a folder.`);
  expect(existsSync(tools())).toBe(isIn);
});

test("npm has the package.json of each folder that the lock file links, and a link to no other leads out", async () => {
  const linked = {
    ...packages,
    "package-lock.json": '{"resolved" : "packages/a", "link" : true}',
    "packages/b/package.json": "",
  };
  const wanted: string[] = [];
  unit = () => {
    wanted.push(...readdirSync(at("wanted/packages"), { encoding: "utf8", recursive: true }));
    bringsLink("a/own", "../../packages/a")();
  };
  for (const own of ["1", "2", "2"]) await provided({ ...linked, "packages/a/package.json": own }, "/node-1");
  expect(fetches).toHaveLength(2);
  expect(wanted).toContain("packages/a/package.json");
  expect(wanted).not.toContain("packages/b");
  unit = bringsLink("a/own", "../../packages/b");
  await expect(provided(linked, "/node-2")).rejects.toThrow("a/own is neither");
});

test.each([
  ["package.json", "no package-lock.json beside it. Run npm install"],
  ["yarn.lock", "no package-lock.json beside it, but yarn.lock. Run npm install"],
  ["bun.lock", "no package-lock.json beside it, but bun.lock. Run npm install"],
])("with npm, a site with %s alone is rejected", async (name, reason) => {
  await expect(provided({ [name]: "" }, "/node-1")).rejects.toThrow(reason);
});
