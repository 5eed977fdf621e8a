/**
 * The tree as it lands on the machine, rendered from test/fixtures.ts: a change to a renderer shows in review as a diff
 * of the real file. `npm run fix` rewrites it. The edge's rules have theirs in test/infra/edge/rules.test.ts.
 *
 * Below `rebuilt` stands what everything a site's configuration may say makes of its units.
 */
import { globSync } from "node:fs";
import { matchesGlob } from "node:path";
import { describe, expect, test } from "vitest";
import { hostLayers } from "../../infra/host/index.ts";
import { exampleHost, rebuilt, secrets, served } from "../fixtures.ts";

/** Made by others at run time, so no text of ours. */
const made = {
  certificate: "(PEM: the edge's Origin CA signed it)\n",
  originPullCa: "(PEM: the stack's own CA for origin pulls)\n",
  programs: { receiver: { sha256: "0".repeat(64) }, builder: { sha256: "1".repeat(64) } },
};

const all = Object.values(hostLayers(rebuilt, exampleHost, made));
const trees = [
  { golden: "../golden", layers: Object.values(hostLayers(served, exampleHost, made)) },
  {
    golden: "../golden/rebuilt",
    layers: all.filter(({ name }) => ["builder-program", "egress", "builder", "site"].includes(name)),
  },
].map(({ golden, layers }) => ({ golden: new URL(golden, import.meta.url).pathname, layers }));

describe.for(trees)("$golden", ({ golden, layers }) => {
  const files = layers.flatMap((layer) => layer.files);

  test.for(files)("$path is what a reviewer last approved", async ({ path, text }) => {
    await expect(text).toMatchFileSnapshot(`${golden}${path}`);
  });

  test("modes and owners, facts and globs are what a reviewer last approved", async () => {
    const listed = layers.map(({ name, files, owns, facts, timeout }) => ({
      name,
      files: files.map(({ path, mode, owner }) => `${mode} ${owner} ${path}`),
      owns,
      facts: facts.map((fact) => fact.name),
      timeout,
    }));
    await expect(`${JSON.stringify(listed, null, 2)}\n`).toMatchFileSnapshot(`${golden}/layers.json`);
  });

  test("no golden file is an orphan", () => {
    const found = globSync("{etc,usr,var}/**/*", { cwd: golden, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(golden.length));
    expect(found.sort()).toEqual(files.map(({ path }) => path as string).sort());
  });
});

test("no file is two layers', each is its own layer's to prune, and no other's", () => {
  const files = all.flatMap((layer) => layer.files);
  const paths = files.map(({ path }) => path);
  expect(new Set(paths).size).toBe(paths.length);
  for (const { name, owns } of all) {
    const owned = files.filter(({ path }) => owns.some((glob) => matchesGlob(path, glob)));
    const own = all.find((layer) => layer.name === name)?.files ?? [];
    expect(owned.map(({ path }) => path).sort(), name).toEqual(own.map(({ path }) => path).sort());
  }
});

test("nothing rendered holds a secret", () => {
  const words = Object.values(secrets).flatMap((entry) => Object.values(entry));
  const everything = JSON.stringify([...trees.flatMap(({ layers }) => layers), ...all]);
  for (const word of words) expect(everything).not.toContain(word);
});
