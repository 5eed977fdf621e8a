/**
 * The files as they land on the host, rendered from test/fixtures.ts: a change to a renderer shows in review as a diff
 * of the real file. `npm run fix` rewrites them. test/infra/edge/rules.test.ts compares Cloudflare's golden rules.
 *
 * `rebuilt` holds the builder's files for two sites, one of them with every key that changes a unit.
 */
import { globSync } from "node:fs";
import { matchesGlob } from "node:path";
import { describe, expect, test } from "vitest";
import { hostLayers } from "../../infra/host/index.ts";
import { exampleHost, rebuilt, secrets, served } from "../fixtures.ts";

/** Values that exist only at run time, so no renderer has their text. */
const made = {
  certificate: "(PEM: signed by Cloudflare's Origin CA)\n",
  clientCaPem: "(PEM: the stack's own CA for origin pulls)\n",
  programs: {
    receiver: { sha256: "0".repeat(64) },
    builder: { sha256: "1".repeat(64) },
    reporter: { sha256: "2".repeat(64) },
  },
};

const all = Object.values(hostLayers(rebuilt, exampleHost, made));
const trees = [
  { golden: "../golden", layers: Object.values(hostLayers(served, exampleHost, made)) },
  {
    golden: "../golden/rebuilt",
    layers: all.filter(({ name }) =>
      ["builder-program", "reporter-program", "egress", "builder", "site"].includes(name),
    ),
  },
].map(({ golden, layers }) => ({ golden: new URL(golden, import.meta.url).pathname, layers }));

describe.for(trees)("$golden", ({ golden, layers }) => {
  const files = layers.flatMap((layer) => layer.files);

  test.for(files)("$path matches its golden file", async ({ path, text }) => {
    await expect(text).toMatchFileSnapshot(`${golden}${path}`);
  });

  test("modes, owners, facts and globs match layers.json", async () => {
    const listed = layers.map(({ name, files, owns, facts, timeout }) => ({
      name,
      files: files.map(({ path, mode, owner }) => `${mode} ${owner} ${path}`),
      owns,
      facts: facts.map((fact) => fact.name),
      timeout,
    }));
    await expect(`${JSON.stringify(listed, null, 2)}\n`).toMatchFileSnapshot(`${golden}/layers.json`);
  });

  test("every golden file has a rendered one", () => {
    const found = globSync("{etc,usr,var}/**/*", { cwd: golden, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(golden.length));
    expect(found.sort()).toEqual(files.map(({ path }) => path as string).sort());
  });
});

test("every file belongs to one layer, and only that layer's globs match it", () => {
  const files = all.flatMap((layer) => layer.files);
  const paths = files.map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  for (const { name, owns } of all) {
    const owned = files.filter(({ path }) => owns.some((glob) => matchesGlob(path, glob)));
    const own = all.find((layer) => layer.name === name)?.files ?? [];
    expect(owned.map(({ path }) => path).sort(), name).toEqual(own.map(({ path }) => path).sort());
  }
});

test("no rendered file holds a secret", () => {
  const words = Object.values(secrets).flatMap((entry) => Object.values(entry));
  const everything = JSON.stringify([...trees.flatMap(({ layers }) => layers), ...all]);
  for (const word of words) expect(everything).not.toContain(word);
});
