/** When packages of npm are fetched, kept and removed, and what may come; in place of the fetcher's unit is a socket. */
import { existsSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { beginOfBuild } from "../../../../service/builder/build/content.ts";
import { provideDependencies } from "../../../../service/builder/build/dependencies.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { onPlaces, places } from "../scene.ts";

onPlaces();

let server: Server;
let fetches: number;
/** What it brings: files, and links by where they lead. */
let brought: Readonly<Record<string, { readonly to?: string }>>;
let end: string;
const at = (name: string) => join(places.work, "..", name);
beforeEach(async () => {
  [fetches, brought, end] = [0, { "a/tool.js": {}, ".bin/tool": { to: "../a/tool.js" } }, "success exited 0"];
  server = createServer((connection) => {
    fetches += 1;
    const id = `${fetches}`.padStart(32, "0");
    const top = join(places.fetched, "packages/node_modules");
    for (const [path, { to }] of Object.entries(brought)) {
      mkdirSync(dirname(join(top, path)), { recursive: true });
      if (to === undefined) writeFileSync(join(top, path), "");
      else symlinkSync(to, join(top, path));
    }
    connection.write(`${beginOfBuild}${id}\nwhy\n`);
    writeFileSync(at("result"), `${id} ${end}\n`);
    connection.end();
  });
  await new Promise<void>((resolve) => server.listen(at("fetcher"), resolve));
});
afterEach(() => void server.close());

/** Of the repository's files: their texts. */
const site = { "package.json": "{}", "package-lock.json": "{}" };
async function provide(files: Readonly<Record<string, string>> = site, node = "/node-1") {
  mkdirSync(places.clone, { recursive: true });
  for (const [path, text] of Object.entries(files)) writeFileSync(join(places.clone, path), text);
  const limits = { releaseBytes: 1 << 30, seconds: 60 };
  const socket = at("generator");
  const settings = {
    fetcher: { socket: at("fetcher"), result: at("result"), node: node || undefined },
    generator: { socket },
    limits,
  };
  await provideDependencies(settings as BuilderSettings, places, Object.keys(files));
}
const kept = () => join(places.dependencies, "packages/node_modules");

test("packages are fetched anew for another lock file or release of Node alone, and removed where none are needed", async () => {
  await provide();
  expect([fetches, readdirSync(kept()), lstatSync(join(kept(), ".bin/tool")).isSymbolicLink()]).toEqual([
    ...[1, [".bin", "a"], true],
  ]);
  expect(readdirSync(join(places.clone, "node_modules"))).toEqual([]);
  await provide();
  await provide({ ...site, "index.md": "x" });
  expect(fetches).toBe(1);
  await provide({ ...site, "package-lock.json": "{ }" });
  await provide(site, "/node-2");
  expect(fetches).toBe(3);
  await provide(site, "");
  expect([existsSync(kept()), existsSync(join(places.clone, "node_modules"))]).toEqual([false, false]);
});

test.each<[to: string, path: string, isIn: boolean]>([
  ["../a/tool.js", ".bin/x", true],
  ["tool.js", "a/x", true],
  ["../../tool.js", "a/b/x", true],
  ["../..", "a/b/x", false],
  ["..", "a/x", false],
  ["../a", "x", false],
  ["../../a", ".bin/x", false],
  ["b/../../a", "a/x", false],
  ["/etc/passwd", "a/x", false],
])("a link to %s at %s: %s", async (to, path, isIn) => {
  brought = { ...brought, [path]: { to } };
  if (isIn) await provide();
  else
    await expect(provide()).rejects.toMatchObject({
      result: "rejected",
      message: `node_modules: ${path} is neither a file nor a folder.`,
    });
  expect(existsSync(kept())).toBe(isIn);
});

test.each([
  ["package.json", "site.npm is true, and Hugo's configuration has no package-lock.json beside it. Run npm install"],
  ["yarn.lock", "site.npm is true, and Hugo's configuration has no package-lock.json beside it, but yarn.lock. Run"],
])("a site that has %s alone is rejected", async (name, said) => {
  await expect(provide({ [name]: "" })).rejects.toMatchObject({
    result: "rejected",
    message: expect.stringContaining(said),
  });
  expect(fetches).toBe(0);
});

test.each([
  ["65", "rejected"],
  ["69", "failed"],
])("a fetch that ends with %s is %s, and what was kept stays", async (code, result) => {
  await provide();
  end = `exit-code exited ${code}`;
  await expect(provide({ ...site, "package-lock.json": "x" })).rejects.toMatchObject({ result, message: "why" });
  expect(existsSync(kept())).toBe(true);
});
