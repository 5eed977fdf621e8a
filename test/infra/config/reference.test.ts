/**
 * docs/configuration.md, generated from the schema: a table for each object, a row for each key. Pulumi.yaml agrees with it.
 */
import { readFileSync } from "node:fs";
import * as v from "valibot";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { formOf, type Schema, unwrapped } from "../../../infra/config/faults.ts";
import { hookSecrets, shape } from "../../../infra/config/schema.ts";

const intro = `# Configuration

Generated from infra/config/schema.ts; \`npm run fix\` rewrites it. Pulumi.prod.yaml is an example. Edit
\`Pulumi.<stack>.yaml\`, or set one value: \`npx pulumi config set --path 'pushgate:hosts[0].originPort' 8443\`.
Cloudflare's API token is a key of its provider: \`npx pulumi config set --secret cloudflare:apiToken\`.
`;

const names = { string: "text", picklist: "text", number: "whole number", boolean: "boolean", custom: "object" };

const typeOf = (schema: Schema): string =>
  schema.item === undefined
    ? (names[schema.type as keyof typeof names] ?? schema.type)
    : `list of ${typeOf(schema.item)}`;

const code = (value: unknown): string => `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;

function defaultOf(schema: Schema): string {
  const value: unknown = "default" in schema ? schema.default : undefined;
  if (Array.isArray(value)) return value.length === 0 ? "empty" : value.map(code).join(" ");
  if (value !== undefined) return code(value);
  return schema.type === "exact_optional" ? "none" : "required";
}

function valuesOf(schema: Schema): string {
  const item = schema.item && unwrapped(schema.item);
  if (item?.entries || schema.entries) return "see below";
  return item === undefined
    ? formOf(schema).replace(/, such as \d+$/, "")
    : `${formOf(schema)}; each is ${formOf(item)}`;
}

function row([key, schema]: [string, Schema]): string {
  const inner = unwrapped(schema);
  const { description } = v.getMetadata(inner);
  expect(description).toMatch(/[a-z0-9)`]\.$/i);
  const cells = [code(key), typeOf(inner), defaultOf(schema), valuesOf(inner), String(description)];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}

/** The table of an object, then those of the objects in it. */
function tables(name: string, schema: Schema): string[] {
  const entries = Object.entries(schema.entries ?? {});
  const nested = entries.flatMap(([key, entry]) => {
    const inner = unwrapped(entry);
    const path = name === "pushgate" ? `${name}:${key}` : `${name}.${key}`;
    if (inner.item !== undefined) return tables(`${path}[]`, unwrapped(inner.item));
    return inner.entries === undefined ? [] : tables(path, inner);
  });
  if (entries.length === 0) return [];
  const head = "| key | type | default | values | meaning |\n|---|---|---|---|---|";
  return [`## ${code(name)}\n\n${head}\n${entries.map(row).join("\n")}\n`, ...nested];
}

const reference = (): string =>
  [intro, ...tables("pushgate", shape), ...tables("pushgate:secrets.<hook>", hookSecrets)].join("\n");

test("docs/configuration.md is generated from the schema, and describes each key in a sentence", async () => {
  await expect(reference()).toMatchFileSnapshot("../../../docs/configuration.md");
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
