/** What docs/decisions/022 says of the real plugin: it has each property that the program declares, and the fake is as blind. */
import { readFileSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { stackConfig } from "../../fixtures.ts";
import { evaluate } from "../../infra/evaluate.ts";
import { kinds } from "./cloudflare-kinds.ts";

const decision = new URL("../../../docs/decisions/022-what-a-refresh-does-not-see.md", import.meta.url);
const row = /^\| (\w+) \| (\w+) \| (seen|restored|identity|ignored) \| ?(.*?) ?\|$/gm;
const rows = [...readFileSync(decision, "utf8").matchAll(row)].map(([, type, property, refresh, instead]) => ({
  ...{ type: type!, property: property!, refresh, instead },
}));

test("every property that the program declares has one row, and a row without a refresh says what looks instead", async () => {
  const declared = new Set<string>();
  for (const edge of [{ plan: "free", botFightMode: "off" }, { plan: "pro" }]) {
    vi.resetModules();
    for (const { type, inputs } of await evaluate({ config: stackConfig({ "pushgate:edge": edge }) }))
      if (type.startsWith("cloudflare:"))
        for (const property of Object.keys(inputs)) declared.add(`${type.split(":").at(-1)} ${property}`);
  }
  expect(rows.map(({ type, property }) => `${type} ${property}`).sort()).toEqual([...declared].sort());
  const unseen = rows.filter(({ refresh }) => refresh === "restored" || refresh === "ignored");
  for (const { property, instead } of unseen) expect([property, instead]).not.toEqual([property, ""]);
});

test.each(rows)("the fake plugin has $type $property as $refresh", ({ type, property, refresh }) => {
  const [, kind] = Object.entries(kinds).find(([token]) => token.endsWith(`:${type}`))!;
  const { required, optional = [], replaces, writeOnly = [] } = kind;
  expect([...required, ...optional]).toContain(property);
  expect(writeOnly.includes(property)).toBe(refresh === "restored");
  if (refresh === "identity") expect(replaces === "all" || replaces.includes(property)).toBe(true);
});
