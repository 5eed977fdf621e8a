/** Pulumi.prod.yaml as the engine would hand it to the program, with secrets of our own in place of the encrypted ones. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import type { RawConfig } from "../infra/config/settings.ts";

const file = new URL("../Pulumi.prod.yaml", import.meta.url);

/** 32 characters and more, unlike anything real: tests search for them in every place a secret must not be. */
export const secrets = {
  site: { current: "test-site-current-0123456789-abcdefghij", previous: "test-site-previous-0123456789-abcdefghi" },
  docs: { current: "test-docs-current-0123456789-abcdefghij" },
};

/** Typed values become JSON, text stays text: what the engine does. */
export function stackConfig(overrides: Readonly<Record<string, unknown>> = {}): RawConfig {
  const { config } = parse(readFileSync(file, "utf8")) as { config: Record<string, unknown> };
  const merged = { ...config, "pushgate:secrets": secrets, ...overrides };
  return Object.fromEntries(
    Object.entries(merged)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
  );
}
