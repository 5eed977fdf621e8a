/** What npm of a real release brings from a registry of our own. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { openRelay } from "../../../service/builder/build/relay.ts";
import { remove } from "../../../service/builder/files.ts";
import { packages } from "../../../service/fetcher/npm.ts";
import { startHttpsServer } from "../../fakes/https-server.ts";
import { noArchives, releaseFolder } from "../../hosts/lab/release-archives.ts";
import { folder, onFolder } from "../own-folder.ts";

beforeEach(({ skip }) => skip(noArchives !== undefined, noArchives));
onFolder();

const node = noArchives === undefined ? join(releaseFolder("node-24.21.0"), "node") : "";
const archives = new Map<string, Buffer>();
const requested: string[] = [];
const registry = await startHttpsServer(async ({ url = "" }, response) => {
  requested.push(url);
  const archive = archives.get(url);
  response.writeHead(archive ? 200 : 404).end(archive);
});
vi.stubEnv("NODE_EXTRA_CA_CERTS", registry.caFile);
afterAll(() => registry.close());

const script = { install: 'echo ran >"$INIT_CWD/node_modules/ran"' };
/** Publishes a package with a program and an install script. Returns its entry in a lock file. */
function publish(name: string, links: Readonly<Record<string, string>> = {}) {
  const top = join(folder, name, "package");
  mkdirSync(top, { recursive: true });
  const manifest = { name, version: "1.0.0", bin: { tool: "tool.js" }, scripts: script };
  writeFileSync(join(top, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(top, "tool.js"), "#!/usr/bin/env node\n");
  for (const [path, to] of Object.entries(links)) symlinkSync(to, join(top, path));
  spawnSync("tar", ["-czf", "archive", "package"], { cwd: dirname(top) });
  const archive = readFileSync(join(dirname(top), "archive"));
  archives.set(`/${name}/-/${name}-1.0.0.tgz`, archive);
  const integrity = `sha512-${createHash("sha512").update(archive).digest("base64")}`;
  const resolved = `https://registry.npmjs.org/${name}/-/${name}-1.0.0.tgz`;
  return { version: "1.0.0", resolved, integrity, bin: { tool: "tool.js" }, hasInstallScript: true };
}

/** Fetches these packages. `workspaces`: their manifests, by their folders. Returns the folder that it filled. */
async function fetch(entries: Readonly<Record<string, object>>, release = node, own = {}, workspaces = {}) {
  const [wanted, fetched] = [join(folder, "wanted"), join(folder, "fetched")];
  for (const path of [wanted, fetched]) {
    remove(path);
    mkdirSync(path);
  }
  const site = {
    name: "site",
    version: "1.0.0",
    workspaces: Object.keys(workspaces),
    dependencies: { ...Object.fromEntries(Object.keys(entries).map((one) => [one, "1.0.0"])), ...own },
  };
  writeFileSync(join(wanted, "package.json"), JSON.stringify({ ...site, scripts: script }));
  const named = Object.fromEntries(Object.entries(entries).map(([name, entry]) => [`node_modules/${name}`, entry]));
  const lock = { name: "site", version: "1.0.0", lockfileVersion: 3, packages: { "": site, ...workspaces, ...named } };
  for (const [path, manifest] of Object.entries(workspaces)) {
    mkdirSync(join(wanted, path), { recursive: true });
    writeFileSync(join(wanted, path, "package.json"), JSON.stringify(manifest));
  }
  writeFileSync(join(wanted, "package-lock.json"), JSON.stringify(lock));
  const registries = { go: "", npm: registry.origin };
  await packages(wanted, fetched, { limits: { seconds: 60 }, fetcher: { node: release, registries } } as never);
  return fetched;
}

test("a package has its files and the link to its program, none of its scripts runs, and would without the flag", async () => {
  const entries = { a: publish("a") };
  const fetched = await fetch(entries);
  const there = [readdirSync(fetched), readdirSync(join(fetched, "node_modules"))];
  expect(there).toEqual([["node_modules"], [".bin", ".package-lock.json", "a"]]);
  expect(readlinkSync(join(fetched, "node_modules/.bin/tool"))).toBe("../a/tool.js");
  expect(requested).toEqual(["/a/-/a-1.0.0.tgz"]); // and no audit
  const release = join(folder, "node");
  mkdirSync(join(release, "bin"), { recursive: true });
  symlinkSync(join(node, "lib"), join(release, "lib"));
  symlinkSync("/bin/sh", join(release, "bin/sh"));
  const without = `#!/bin/sh\nfor one; do shift; [ "$one" = --ignore-scripts ] || set -- "$@" "$one"; done\nexec ${node}/bin/node "$@"\n`;
  writeFileSync(join(release, "bin/node"), without, { mode: 0o755 });
  expect(readdirSync(join(await fetch(entries, release), "node_modules"))).toContain("ran");
});

test("npm reaches its registry by the relay that Node loads first, and no host by one that admits none", async () => {
  const preload = readFileSync(new URL("../../../infra/host/builder/relay.cjs", import.meta.url), "utf8");
  const socket = join(folder, "relay");
  writeFileSync(join(folder, "relay.cjs"), preload.replace("/wanted/relay", socket));
  vi.stubEnv("NODE_OPTIONS", `--require=${join(folder, "relay.cjs")}`);
  onTestFinished(() => void vi.stubEnv("NODE_OPTIONS", ""));
  const many = Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`p${i}`, publish(`p${i}`)]));
  const by = async (...hosts: string[]) => {
    const relay = await openRelay(socket, new Set(hosts));
    await fetch(many).finally(relay.close);
  };
  await by(new URL(registry.origin).host);
  await expect(by()).rejects.toMatchObject({ result: "failed" });
});

test("a lock file without packages brings an empty folder, and npm unpacks no link of an archive", async () => {
  expect(readdirSync(join(await fetch({}), "node_modules"))).toEqual([]);
  const top = join(await fetch({ a: publish("a", { out: "/etc/passwd" }) }), "node_modules/a");
  expect(readdirSync(top)).toEqual(["package.json", "tool.js"]);
});

test("a workspace is linked, what it needs is installed, and none of its scripts runs", async () => {
  const own = { name: "own", version: "0.1.0", dependencies: { a: "1.0.0" }, bin: { own: "../../x" }, scripts: script };
  const linked = { own: { resolved: "packages/own", link: true } };
  const fetched = await fetch({ a: publish("a"), ...linked }, node, {}, { "packages/own": own });
  const [there, link] = [readdirSync(join(fetched, "node_modules")), readlinkSync(join(fetched, "node_modules/own"))];
  expect([readdirSync(fetched), there, link]).toEqual([
    ["node_modules"],
    [".bin", ".package-lock.json", "a", "own"],
    "../packages/own",
  ]);
});

test("packages whose peers do not agree are installed as the lock file has them", async () => {
  // npm looks there for a release that would agree.
  const [name, version] = ["b", "2.0.0"];
  const known = { name, "dist-tags": { latest: version }, versions: { [version]: { name, version, dist: {} } } };
  archives.set("/b", Buffer.from(JSON.stringify(known)));
  const fetched = await fetch({ a: { ...publish("a"), peerDependencies: { b: "^2.0.0" } }, b: publish("b") });
  expect(readdirSync(join(fetched, "node_modules"))).toEqual(expect.arrayContaining(["a", "b"]));
});

test("a Node that breaks before npm begins ends the fetch, which is tried again, with its own words", async () => {
  mkdirSync(join(folder, "bin"));
  writeFileSync(join(folder, "bin/node"), "#!/bin/sh\necho no library >&2\nexit 1\n", { mode: 0o755 });
  const message = expect.stringMatching(/^npm ci failed, without a code: no library/);
  await expect(fetch({}, folder)).rejects.toMatchObject({ result: "failed", message });
});

const from = (path: string) => ({ resolved: `https://registry.npmjs.org/${path}` });
const other = "sha512-quJQXlTSUGL2LH9SUXo8VwsY4soanhgo6LNSm84E1LBcE8s3O0wpdiRzyR9z/ZZJMlMWv37qOOb9pdJlMUEKFQ==";
test.each<[what: string, result: string, said: RegExp, change: object, own?: object]>([
  ["an archive with another digest", "rejected", /EINTEGRITY: sha512-\S+ integrity checksum/, { integrity: other }],
  ["a release that the registry has not", "rejected", /E404: 404 Not Found.*code-2/, from("code/-/code-2.0.0.tgz")],
  ["a registry that does not answer", "failed", /ECONNREFUSED/, { resolved: "https://127.0.0.1:1/a.tgz" }],
  ["a package that the lock file lacks", "rejected", /EUSAGE.*sync.* Missing: b@.*file$/, {}, { b: "file:../../a" }],
  ["a package without a digest", "rejected", /^package-lock.json has no digest/, { integrity: undefined }],
  ["another platform's package", "rejected", /EBADPLATFORM.*Unsupported platform/, { os: ["aix"] }],
  ["a repository in package.json", "rejected", /ENOENT.*git/, {}, { b: "git+https://git.example.net/b.git" }],
])("%s: %s", async (_, result, said, change, own) => {
  const failed = fetch({ a: { ...publish("a"), ...change } }, node, own);
  await expect(failed).rejects.toMatchObject({ result, message: expect.stringMatching(said) });
});
