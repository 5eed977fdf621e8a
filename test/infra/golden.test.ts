/**
 * The files as they land on the host, rendered from test/fixtures.ts: a change to a renderer shows in review as a diff
 * of the real file. `npm run fix` rewrites them. test/infra/edge/rules.test.ts compares Cloudflare's golden rules.
 */
import { globSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { hostLayers } from "../../infra/host/index.ts";
import { exampleHost, made, rebuilt, served } from "../fixtures.ts";

const ofSites = ["egress", "tools", "builder", "site"];
const rebuiltAlone = Object.values(hostLayers(rebuilt, exampleHost, made)).filter(({ name }) => ofSites.includes(name));

describe.for([
  ["../golden", Object.values(hostLayers(served, exampleHost, made))],
  ["../golden/rebuilt", rebuiltAlone],
] as const)("%s", ([folder, layers]) => {
  const golden = new URL(folder, import.meta.url).pathname;
  const files = layers.flatMap((layer) => layer.files);

  test.for(files)("$path matches its golden file", async ({ path, text }) => {
    await expect(text).toMatchFileSnapshot(`${golden}${path}`);
  });

  test("modes, owners, facts and globs match layers.json", async () => {
    const listed = layers.map(({ name, files, owns, facts, timeout }) => ({
      name,
      files: files.map(({ path, mode, owner, fixed }) => `${mode} ${owner} ${path}${fixed ? ", fixed" : ""}`),
      owns,
      facts: Object.fromEntries(facts.map(({ name, read, want }) => [name, { read, want }])),
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
