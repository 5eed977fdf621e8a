/** Source sets: hooks grouped by source ranges, each set on a port that does not change. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import type { Hook } from "../../../infra/config/settings.ts";
import { example } from "../../example.ts";

const own = (name: string, source = name): Hook => ({ ...example.hooks[1]!, name, sources: [source] });

test("hooks of one git host share a source set, a self-hosted hook has its own", () => {
  const [site, docs] = example.hooks as [Hook, Hook];
  const sets = sourceSets({ hooks: [site, docs, { ...site, name: "blog" }] });
  expect(sets.map(({ name, hooks }) => [name, hooks.map((hook) => hook.name)])).toEqual([
    ["github", ["site", "blog"]],
    ["docs", ["docs"]],
  ]);
});

test("a source set keeps its port when other sets are added, removed or reordered", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9-]{0,10}$/);
  void fc.assert(
    fc.property(fc.uniqueArray(name, { minLength: 1, maxLength: 40 }), (names) => {
      const portOf = (some: readonly string[]) =>
        new Map(sourceSets({ hooks: some.map((one) => own(one)) }).map((set) => [set.name, set.port]));
      const all = portOf(names);
      expect(new Set(all.values()).size).toBe(names.length);
      expect(portOf([...names].reverse())).toEqual(all);
    }),
  );
  // Two names whose hashes differ: the port of the second does not depend on the first.
  const alone = sourceSets({ hooks: [own("docs")] })[0]!.port;
  expect(sourceSets({ hooks: [own("blog"), own("docs")] })[1]!.port).toBe(alone);
  expect(sourceSets({ hooks: [example.hooks[0]!, own("docs")] })[1]!.port).toBe(alone);
});
