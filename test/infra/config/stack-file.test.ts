/**
 * Pulumi.prod.yaml as it is shipped. A user edits or removes it, and then these tests are skipped; every other test has
 * its configuration from fixtures.ts. In CI a skip is a failure: after a change of the example, write its digest here.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { parseSettings } from "../../../infra/config/settings.ts";
import { asPassed, secrets } from "../../fixtures.ts";

const shipped = "466caa7a4c7e0c1c0d26201dfe51d5aec4bf693d09dbc621d83c8488ce971fd1";
const file = new URL("../../../Pulumi.prod.yaml", import.meta.url);
const text = existsSync(file) ? readFileSync(file, "utf8") : "";
const isShipped = createHash("sha256").update(text).digest("hex") === shipped;
const { config, ...others } = isShipped ? (parse(text) as { config: Record<string, unknown> }) : {};

beforeEach(({ skip }) => skip(!isShipped, "Pulumi.prod.yaml is the user's own"));

test("Pulumi.prod.yaml holds no secret and no salt, and has the faults of an example and no other", () => {
  expect(text).not.toMatch(/^\s*secure:|^encryptionsalt/m);
  expect(others).toEqual({});
  const raw = asPassed({ ...config, "cloudflare:apiToken": "t", "pushgate:secrets": secrets });
  const keys = ["zone", "hosts[0].address", "hosts[0].address6", "hooks[1].sources[0]"];
  const faults = keys.map((key) => ({ key, says: expect.any(String) }));
  expect(() => parseSettings(raw, () => true, text)).toThrow(expect.objectContaining({ faults }));
});
