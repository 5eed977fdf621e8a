/** docs/configuration.md and Pulumi.yaml agree with the schema. */
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { unwrapped } from "../../../infra/config/faults.ts";
import { shape } from "../../../infra/config/schema.ts";
import { reference } from "./reference.ts";

test("docs/configuration.md is generated from the schema", async () => {
  await expect(reference()).toMatchFileSnapshot("../../../docs/configuration.md");
});

test("docs/configuration.md describes each key in one sentence", () => {
  expect(
    reference()
      .match(/^\| .*$/gm)
      ?.filter((row) => !/[a-z0-9)`]\. \|$|^\| key \|/i.test(row)),
  ).toEqual([]);
});

test("Pulumi.yaml describes and defaults each key as the schema does, and types none", () => {
  const { config } = parse(readFileSync(new URL("../../../Pulumi.yaml", import.meta.url), "utf8"));
  const described = Object.entries(shape.entries).map(([key, schema]) => [
    `pushgate:${key}`,
    v.getMetadata(unwrapped(schema)).description,
  ]);
  described.push(["pushgate:secrets", "Secrets of each hook, set with --secret."]);
  const found = Object.entries<Record<string, unknown>>(config);
  expect(found.map(([key, { description }]) => [key, description])).toEqual(described);
  for (const [, key] of found) expect(Object.keys(key).sort()).toEqual(["default", "description"]);
});
