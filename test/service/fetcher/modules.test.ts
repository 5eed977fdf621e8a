/** What the fetcher takes from a proxy of modules, and what it rejects: each row without its protection, too. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { modules, orderOf } from "../../../service/fetcher/modules.ts";
import { moduleWithout } from "../module-without.ts";
import { folder, onFolder } from "../own-folder.ts";
import { type Entry, moduleOf, startProxy, zipOf } from "./module-proxy.ts";

let proxy: Awaited<ReturnType<typeof startProxy>>;
const at = (path: string) => join(folder, path);
onFolder();
beforeEach(async () => {
  proxy = await startProxy();
});
afterEach(() => proxy.close());

const MiB = 1 << 20;
/** Of a site that may have 1 MiB and four files. */
function fetched(mod: string, sum: string, { seconds = 30 } = {}, by = modules) {
  for (const name of ["wanted", "fetched"]) {
    rmSync(at(name), { recursive: true, force: true });
    mkdirSync(at(name));
  }
  writeFileSync(at("wanted/go.mod"), mod);
  writeFileSync(at("wanted/go.sum"), sum);
  const fetcher = { socket: "", result: "", registries: { go: proxy.url, npm: "", sums: `${proxy.url}/sums` } };
  let left = 5;
  return by(at("wanted"), at("fetched"), { limits: { releaseBytes: MiB, seconds }, fetcher }, () => --left > 0);
}

async function without(removed: readonly Part[]): Promise<typeof modules> {
  const changes = removed.map((name) => parts[name]);
  return (await moduleWithout<{ modules: typeof modules }>("fetcher/modules.ts", folder, changes)).modules;
}

test("the latest version that any go.mod names is unpacked, and an archive that go.sum lacks is not requested", async () => {
  const around = "example.org/Theme/v2 v2.0.0\nexample.org/b v1.0.0";
  const newest = moduleOf("example.org/b", "v1.10.0", { "layouts/b.html": "b 1.10" }, around);
  const rest = "é".repeat((MiB - 3 * 4096) / 2); // of the site's 1 MiB
  const others = "example.org/b v1.10.0 // indirect\n)\nexclude (\n\texample.org/b v1.11.0";
  const theme = moduleOf("example.org/Theme/v2", "v2.0.0", { "é.txt": rest }, others);
  const former = moduleOf("example.org/b", "v1.1.0", {}, "example.org/c v1.0.0");
  // Go gives the files of an archive no mode.
  const packed = theme.entries.map((file) => ({ ...file, mode: 0 })).toReversed();
  proxy.add(newest, { ...theme, entries: packed }, former);
  const block = `(\n\t// of (a) theme\n\t"example.org/b" v1.1.0 // indirect\n\n\texample.org/Theme/v2 v2.0.0\n)`;
  const other = `go 1.21 // a comment\nretract [v0.1.0, v0.2.0]\ntool (\n\texample.org/b v1.99.0\n\tc/exclude v1\n)`;
  const mod = `module site\n\n${other}\nrequire example.org/tool v1.1.0\nrequire${block}\n`;
  const sum = [theme.zipSum, theme.modSum, former.modSum, newest.modSum, newest.zipSum].join("");
  await fetched(mod, sum);
  const vendor = (path: string) => readFileSync(at(`fetched/_vendor/${path}`), "utf8");
  expect(vendor("modules.txt")).toBe("# example.org/Theme/v2 v2.0.0\n# example.org/b v1.10.0\n");
  expect([vendor("example.org/b/layouts/b.html"), vendor("example.org/Theme/v2/é.txt")]).toEqual(["b 1.10", rest]);
  expect(existsSync(at("fetched/archive"))).toBe(false);
  expect(proxy.asked.filter((url) => url.includes("tool") || url.includes("v1.1.0.zip"))).toEqual([]);
  expect(proxy.asked).toContain("/example.org/!theme/v2/@v/v2.0.0.zip");
  // A proxy may keep its files elsewhere.
  proxy.has.set("/moved", proxy.has.get(`${newest.at}.zip`)!).set(`${newest.at}.zip`, 302);
  await fetched(mod, sum);
  expect(proxy.asked.at(-1)).toBe("/moved");
});

const paths = ["hugo.toml", "config/_default/module.toml"];
test.each(paths)("an archive that %s imports, and go.sum lacks, has the checksum database's digest", async (path) => {
  const imported = moduleOf("example.org/b", "v1.0.0+incompatible", { "b.txt": "b" });
  const imports = { [path]: 'path = "example.org/b"\npath = "example.org/unsummed"' };
  const both = "example.org/b v1.0.0+incompatible\nexample.org/unsummed v1.0.0";
  const theme = moduleOf("example.org/a", "v1.0.0", imports, both);
  proxy.add(imported, theme);
  const [mod, sum] = ["require example.org/a v1.0.0\n", theme.zipSum + theme.modSum + imported.modSum];
  const lookup = "/sums/lookup/example.org/b@v1.0.0+incompatible";
  proxy.has.set(lookup, `7\n${imported.zipSum}${imported.modSum}\ngo.sum database tree\n`);
  await fetched(mod, sum);
  expect(readFileSync(at("fetched/_vendor/example.org/b/b.txt"), "utf8")).toBe("b");
  const listed = readFileSync(at("fetched/_vendor/modules.txt"), "utf8");
  expect(listed).toMatch(/^# example.org\/a .*\n# example.org\/b .*\n$/);
  const changed = (line: string) => line.replace("/a v1.0.0", "/b v1.0.0+incompatible");
  proxy.has.set(lookup, `7\n${changed(theme.zipSum)}${imported.modSum}`);
  const reason = "the archive of example.org/b v1.0.0+incompatible has another digest";
  await expect(fetched(mod, sum)).rejects.toThrow(reason);
  proxy.has.set(lookup, `7\n${imported.zipSum}${changed(theme.modSum)}`);
  const ofMod = /^go\.mod of example\.org\/b v1\.0\.0\+incompatible, by \S+, has another digest/;
  await expect(fetched(mod, sum)).rejects.toThrow(ofMod);
});

test("versions have the order of Semantic Versioning, with Go's own forms", () => {
  const pseudo = ["v0.0.0-20241231000000-ffffff", "v0.0.0-20250101000000-abcdef"];
  const before = ["rc", "rc.9", "rc.9.1", "rc.10", "rc.a", "rc-1"].map((words) => `v1.0.0-${words}`);
  const versions = [...pseudo, "v0.0.1", ...before, "v1.0.0", "v1.99.0", "v1.100.0-0.2025", "v1.100.0"];
  expect(versions.toReversed().sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1))).toEqual(versions);
  expect(orderOf("v5.3.6+incompatible")).toBe(orderOf("v5.3.6"));
});

const one = moduleOf("example.org/a", "v1.0.0", { "a.txt": "good" });
const mod = "module site\nrequire example.org/a v1.0.0\n";
const sum = one.modSum + one.zipSum;
const entry = (name: string, more: Partial<Entry> = {}, top = "example.org/a@v1.0.0/"): Entry => ({
  ...{ name: top + name, text: "evil" },
  ...more,
});
const large = "x".repeat(2 * MiB);

/** The protections, as the bundle words them, and what is there without. */
const parts = {
  yauzl: ["function validateFileName(fileName) {", "function validateFileName(fileName) { return null;"],
  dots: ["!name.split", "true || !name.split"],
  prefix: ["fileName.startsWith(prefix)", "true"],
  kind: ["type === 0 || type === 32768", "true"],
  twice: ["digests.has(entry.fileName)", "false"],
  says: ["this.actualByteCount > this.expectedByteCount", "false"],
  room: ["if (room < 0)", "if (false)"],
  files: ["if (!fits(name))", "if (false)"],
  sum: ["if (found !== sum2)", "if (false)"],
} as const;
type Part = keyof typeof parts;

/** `file`: what is in the module's folder without these parts. */
type Row = [what: string, entries: Entry[], reason: string, remove: Part[], file: string];
test.each<Row>([
  ["another content", [entry("a.txt")], "another digest than go.sum has", [], "a.txt"],
  ["..", [entry("../../../out")], "invalid relative path", ["yauzl", "dots"], "../../../out"],
  [".. unseen by yauzl", [entry("../../../out")], "is no file below", ["yauzl", "dots"], "../../../out"],
  ["an absolute path", [entry("x", {}, "/example.org/a@v1.0.0/")], "absolute", ["yauzl", "prefix", "dots"], "x"],
  ["a backslash", [entry("..\\x")], "invalid characters in fileName", ["yauzl"], "..\\x"],
  ["a file by two names", [entry("x"), entry("/x")], "is no file below", ["dots"], "x"],
  ["another module", [entry("x", {}, "example.org/b@v1.0.0/")], "is no file below", ["prefix"], "x"],
  ["a link", [entry("l", { mode: 0o120777 })], "is no file", ["kind"], "l"],
  ["a device", [entry("d", { mode: 0o020666 })], "is no file", ["kind"], "d"],
  ["a file twice", [entry("x"), entry("x")], "it has x twice", ["twice"], "x"],
  ["more bytes than it says", [entry("x", { text: large, size: 9 })], "too many bytes", ["says"], "x"],
  ["more bytes than a release", [entry("x", { text: large })], "^the modules take more than 1.0 MiB", ["room"], "x"],
  ["many files", [..."abcde"].map((name) => entry(name)), "have more than 100,000 files", ["files"], "e"],
])("an archive with %s is rejected", async (what, entries, reason, remove, file) => {
  proxy.add({ ...one, entries });
  const by = what === ".. unseen by yauzl" ? await without(["yauzl"]) : modules;
  const message = expect.stringMatching(reason);
  await expect(fetched(mod, sum, {}, by)).rejects.toThrow(expect.objectContaining({ result: "rejected", message }));
  expect(existsSync(at("fetched/out"))).toBe(false);
  await fetched(mod, sum, {}, await without([...remove, "sum"]));
  expect(existsSync(join(at("fetched/_vendor/example.org/a"), file))).toBe(true);
});

test("an archive that is larger than a release, and one without end, leave no more than that on the disk", async () => {
  proxy.add(one);
  const write = (send: (text: string) => void) => void setInterval(() => send("x".repeat(MiB)), 1).unref();
  proxy.has.set(`${one.at}.zip`, write);
  await expect(fetched(mod, sum)).rejects.toThrow("take more than 1.0 MiB");
  expect(statSync(at("fetched/archive")).size).toBeLessThanOrEqual(MiB);
});

test("a proxy that sends a byte a second ends the fetch in nine tenths of its time, which is tried again", async () => {
  vi.useFakeTimers({ toFake: ["Date", "setTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  proxy.add(one);
  proxy.has.set(`${one.at}.zip`, async (send) => {
    for (let second = 0; second < 9; second += 1) {
      send("x");
      await new Promise(setImmediate);
      vi.advanceTimersByTime(1_000);
    }
  });
  const message = expect.stringMatching(/v1\.0\.0\.zip cannot be read: no answer within 9 s\.$/);
  await expect(fetched(mod, sum, { seconds: 10 })).rejects.toMatchObject({ result: "failed", message });
});

const many = Array.from({ length: 1_001 }, (_, i) => `require example.org/x${i} v1.0.0\n`).join("");
/** Modules whose digests go.sum has. */
const [above, beside] = [moduleOf("example.org/../../x", "v1.0.0", {}), moduleOf("example.org/x", "v1.0.0/../x", {})];
const noModule = "go.sum has the digest of no module of go.mod.";
const nested = zipOf([entry("x"), entry("x/y")]);
/** `answers`: of the proxy, in place of one's files. */
type Answers = Readonly<Record<string, number | string | Buffer>>;
type End = [what: string, mod: string, answers: Answers, result: string, reason: string];
test.each<End>([
  ["another go.mod", mod, { mod: `${one.mod}\n` }, "rejected", "go.mod of example.org/a v1.0.0 has another digest"],
  ["no module of that version", mod, { zip: 404 }, "rejected", ".zip has the status 404."],
  ["a module that was withdrawn", mod, { zip: 410 }, "rejected", ".zip has the status 410."],
  ["a file below a file", mod, { zip: nested }, "rejected", "archive of example.org/a@v1.0.0 is none of a module: E"],
  ["a broken proxy", mod, { mod: 500 }, "failed", ".mod has the status 500."],
  ["a proxy that sends in circles", mod, { mod: 302, "/moved": 302 }, "failed", "/moved has the status 302."],
  ["a replacement", `${mod}replace example.org/a => ../a`, {}, "rejected", 'go.mod has "replace example.org/a", which'],
  ["an exclusion", `${mod}exclude (\n\texample.org/a v1.1.0\n)`, {}, "rejected", 'go.mod has "exclude example.org/a"'],
  ["a go.sum of others", "require example.org/b v1.0.0", {}, "rejected", noModule],
  ["a path with ..", "require example.org/../../x v1.0.0", {}, "rejected", noModule],
  ["a version with ..", "require example.org/x v1.0.0/../x", {}, "rejected", noModule],
  ["a thousand modules and one", many, {}, "rejected", "go.mod leads to more than 1000 modules."],
])("%s ends the fetch", async (_, mod, answers, result, reason) => {
  proxy.add(one, above, beside);
  for (const [name, answer] of Object.entries(answers))
    proxy.has.set(name.startsWith("/") ? name : `${one.at}.${name}`, answer);
  const message = expect.stringContaining(reason);
  const sums = [sum, above.modSum, above.zipSum, beside.modSum, beside.zipSum].join("");
  await expect(fetched(mod, sums)).rejects.toThrow(expect.objectContaining({ result, message }));
});
