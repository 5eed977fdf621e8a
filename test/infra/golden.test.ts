/**
 * The files as they land on the host, rendered from test/fixtures.ts: a change to a renderer shows in review as a diff
 * of the real file. `npm run fix` rewrites them. test/infra/edge/rules.test.ts compares Cloudflare's golden rules.
 */
import { globSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Probed } from "../../infra/apply/manifest.ts";
import { hostLayers } from "../../infra/host/index.ts";
import { questionsOf } from "../../infra/host/preflight.ts";
import { exampleHost, made, rebuilt, served } from "../fixtures.ts";

const ofSites = ["folders", "schedules", "egress", "tools", "builder", "site"];

describe.for([
  ["../golden", served, () => true],
  ["../golden/rebuilt", rebuilt, ({ name }: { readonly name: string }) => ofSites.includes(name)],
] as const)("%s", ([folder, settings, isListed]) => {
  const questions = questionsOf(exampleHost, settings).filter(isListed);
  const layers = Object.values(hostLayers(settings, exampleHost, made)).filter(isListed);
  const golden = new URL(folder, import.meta.url).pathname;
  const files = layers.flatMap((layer) => layer.files);

  test.for(files)("$path matches its golden file", async ({ path, text }) => {
    await expect(text).toMatchFileSnapshot(`${golden}${path}`);
  });

  test("what preview reads, modes, owners and globs match layers.json", async () => {
    const read = (facts: Probed["facts"]) => Object.fromEntries(facts.map(({ name, ...fact }) => [name, fact]));
    const listed = [
      ...questions.map(({ name, facts }) => ({ name, facts: read(facts) })),
      ...layers.map(({ name, files, owns, facts, timeout }) => ({
        name,
        files: files.map(({ path, mode, owner, fixed }) => `${mode} ${owner} ${path}${fixed ? ", fixed" : ""}`),
        ...{ owns, facts: read(facts), timeout },
      })),
    ];
    await expect(`${JSON.stringify(listed, null, 2)}\n`).toMatchFileSnapshot(`${golden}/layers.json`);
  });

  test("every golden file has a rendered one", () => {
    const found = globSync("{etc,usr,var}/**/*", { cwd: golden, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => `${entry.parentPath}/${entry.name}`.slice(golden.length));
    expect(found.sort()).toEqual(files.map(({ path }) => path as string).sort());
  });
});
