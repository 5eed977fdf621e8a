/** Pulumi.prod.yaml, the only file that a user copies and edits. Every other test has its configuration from fixtures.ts. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseSettings } from "../../../infra/config/settings.ts";
import { asPassed } from "../../fixtures.ts";

const text = readFileSync(new URL("../../../Pulumi.prod.yaml", import.meta.url), "utf8");

/** As after decryption. Each ciphertext is text enough for a secret; a deploy key must look like one. */
const decrypted = (key: string, value: unknown): unknown => {
  const secure = (Object(value) as { secure?: unknown }).secure;
  if (secure === undefined) return value;
  return key === "deployKey" ? "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----" : secure;
};

test("Pulumi.prod.yaml has no fault", () => {
  const { config } = JSON.parse(JSON.stringify(parse(text)), decrypted) as { config: Record<string, unknown> };
  expect(() => parseSettings(asPassed(config), () => true, text)).not.toThrow();
});
