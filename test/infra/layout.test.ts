/** Which folder may import what. ARCHITECTURE.md states the rules. */
import { globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;

const texts = new Map(
  globSync("{infra,service}/**/*.*", { cwd: root })
    .sort()
    .map((file) => [file, readFileSync(`${root}${file}`, "utf8")] as const),
);
const imports = new Map(
  [...texts.keys()]
    .filter((file) => file.endsWith(".ts"))
    .map((file) => {
      const found = texts.get(file)!.matchAll(/\b(?:from|import) *\(?"(\.[^"]+)"/g);
      return [file, [...found].map(([, path]) => posix.join(posix.dirname(file), path!))] as const;
    }),
);

test("no file imports itself over others, types included", () => {
  const circles: string[] = [];
  const done = new Set<string>();
  const enter = (file: string, way: readonly string[]): void => {
    if (way.includes(file)) circles.push([...way.slice(way.indexOf(file)), file].join(" -> "));
    if (done.has(file) || way.includes(file)) return;
    for (const next of imports.get(file) ?? []) enter(next, [...way, file]);
    done.add(file);
  };
  for (const file of imports.keys()) enter(file, []);
  expect(circles).toEqual([]);
});

test("no program of a host calls what Debian 12's Node 18 lacks, which esbuild does not replace", () => {
  const newer = /\b(groupBy|toSorted|toReversed|toSpliced|withResolvers|fromAsync)\(/;
  const callers = [...texts].filter(([file, text]) => file.startsWith("service/") && newer.test(text));
  expect(callers.map(([file]) => file)).toEqual([]);
});

/** From the lowest up. A room's files import those of their own floor and below; a file at a root is named. */
const floors = [
  /^service\/[\w-]+\.ts$/,
  /^service\/git-hosts\//,
  /^service\/(builder|metrics|receiver)\/(?!main)/,
  /^service\/(fetcher|reporter)\/(?!main)/,
  /^service\/\w+\/main\.ts$/,
  /^infra\/(contract|networks|user-error)\.ts$/,
  /^infra\/config\//,
  /^infra\/apply\//,
  /^infra\/host\//,
  /^infra\/trace\//,
  /^infra\/edge\//,
  /^infra\/(index\.ts|cli\/)/,
];
const floorOf = (file: string): number => floors.findIndex((floor) => floor.test(file));

test("no file imports one of a higher floor", () => {
  expect([...imports.keys()].filter((file) => floorOf(file) < 0)).toEqual([]);
  const upward = [...imports].flatMap(([file, all]) =>
    all.filter((other) => floorOf(other) > floorOf(file)).map((other) => `${file} -> ${other}`),
  );
  expect(upward).toEqual([]);
});

test("at most two casts go over unknown or never, each with its reason in the line above", () => {
  const casts = [...imports.keys()].flatMap((file) => {
    const lines = texts.get(file)!.split("\n");
    return lines.flatMap((line, i) =>
      /\bas (unknown as|never|any)\b/.test(line) && !/^\s*(\*|\/\/)/.test(line)
        ? [{ file, above: lines[i - 1]!.trim() }]
        : [],
    );
  });
  expect(casts.length).toBeLessThanOrEqual(2);
  for (const { file, above } of casts) expect(above, file).toMatch(/^\/\/ /);
});

test("infra and service import nothing from test, and each folder only what its rule allows", () => {
  const grep = (pattern: RegExp, ...folders: readonly string[]) =>
    [...imports.keys()].filter(
      (file) => folders.some((folder) => file.startsWith(`${folder}/`)) && pattern.test(texts.get(file)!),
    );
  expect(grep(/from "(\.\.\/)+test\//, "infra", "service")).toEqual([]);
  expect(grep(/@pulumi\/command/, "infra")).toEqual(["infra/apply/ship.ts"]);
  // A cause names the unit to start.
  expect(grep(/from "\.\.\/(host|edge|cli)\//, "infra/apply", "infra/trace")).toEqual(["infra/trace/causes.ts"]);
  expect(grep(/from "(\.\.\/)+host\//, "infra/edge")).toEqual([]);
  expect(grep(/from "(\.\.\/)+edge\//, "infra/host")).toEqual([]);
  // The SDK takes half a second and 80 MB, so only what the program alone uses loads it.
  expect(grep(/"@pulumi\//, "infra/host", "infra/config")).toEqual(["infra/config/read.ts", "infra/host/declare.ts"]);
  expect(grep(/allConfig|pulumi\.Config/, "infra")).toEqual(["infra/config/read.ts"]);
  // A failed function of a provider is an error on the stack, whatever the program does with it: that of one file may be.
  // The other file's is the engine's own.
  expect(grep(/\bcloudflare\.(\w+\.)?get\w*\(|\blocal\.run|\binvoke\w*\(/, "infra")).toEqual([
    "infra/edge/ranges.ts",
    "infra/host/declare.ts",
  ]);
  expect(grep(/process\.env/, "infra", "service")).toEqual([
    "infra/apply/run-on-host.ts",
    "infra/cli/main.ts",
    "infra/cli/stack.ts",
    "infra/cli/stack/repository/read.ts",
    "infra/cli/webhook/webhooks.ts",
    "service/settings.ts",
  ]);
});

test("the configuration, one file of infra/host and one folder of service/builder and of infra/cli name Hugo, and no others", () => {
  const importing = /import[^;]*"[^"]*\/hugo\.ts"|site\.hugo/g;
  const naming = [...texts].flatMap(([file, text]) => (/hugo/i.test(text.replace(importing, "")) ? [file] : []));
  expect(naming.filter((file) => !/^(service\/builder\/build|infra\/cli\/stack\/repository)\//.test(file))).toEqual([
    "infra/cli/stack/tools.ts",
    "infra/config/site-checks.ts",
    "infra/config/site-schema.ts",
    "infra/config/tools.ts",
    "infra/host/builder/hugo.ts",
  ]);
});

test("the receiver is read in fifteen minutes: at most 8 files and 600 lines, its settings among them", () => {
  const files = [...texts].filter(([file]) => file.startsWith("service/receiver/"));
  const lines = files.flatMap(([, text]) => text.trimEnd().split("\n"));
  expect(files.length).toBeLessThanOrEqual(8);
  expect(lines.length).toBeLessThanOrEqual(600);
});
