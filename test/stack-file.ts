/** Pulumi.prod.yaml as the engine passes it to the program, with the tests' secrets in place of the encrypted ones. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import type { RawConfig } from "../infra/config/settings.ts";

const file = new URL("../Pulumi.prod.yaml", import.meta.url);

/** At least 32 characters each; tests search for these texts in every place where no secret may be. */
export const secrets = {
  site: { current: "test-site-current-0123456789-abcdefghij", previous: "test-site-previous-0123456789-abcdefghi" },
  docs: { current: "test-docs-current-0123456789-abcdefghij" },
};

/** Like the engine: text stays text, any other value becomes JSON. */
export function stackConfig(overrides: Readonly<Record<string, unknown>> = {}): RawConfig {
  const { config } = parse(readFileSync(file, "utf8")) as { config: Record<string, unknown> };
  const merged = { ...config, "pushgate:secrets": secrets, ...overrides };
  return Object.fromEntries(
    Object.entries(merged)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [key, typeof value === "string" ? value : JSON.stringify(value)]),
  );
}
