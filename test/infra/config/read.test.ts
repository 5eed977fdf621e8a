/** The configuration as the engine hands it over: the stack's file, its secrets, and the environment. */
import * as pulumi from "@pulumi/pulumi";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { readSettings } from "../../../infra/config/read.ts";
import { stackConfig } from "../../fixtures.ts";
import { Root } from "../host/namespace.ts";

let root: Root;
const isSecret = ["pushgate:secrets", "cloudflare:apiToken"];
const given = (config: Record<string, string | undefined>) =>
  pulumi.runtime.setAllConfig(config as Record<string, string>, isSecret);
beforeEach(() => {
  root = new Root();
  vi.spyOn(pulumi, "getRootDirectory").mockReturnValue(root.folder);
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

test("the program queries the API that the provider does, with its token", () => {
  given(stackConfig({ "cloudflare:apiToken": "t", "cloudflare:baseUrl": "http://127.0.0.1:1" }));
  expect(readSettings().access).toEqual({ baseUrl: "http://127.0.0.1:1", token: "t" });
  given(stackConfig({ "cloudflare:baseUrl": undefined, "pushgate:zone": "a.dev" }));
  expect(readSettings).toThrow(expect.objectContaining({ message: expect.not.stringContaining("cloudflare:") }));
});

test("a stack without a file is read, and its secrets are secret", async () => {
  given(stackConfig());
  const { settings, secrets } = readSettings();
  expect(settings.zone).toBe("example.org");
  expect(await pulumi.isSecret(secrets)).toBe(true);
});

test("a token in the environment is no token", () => {
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "t");
  given(stackConfig({ "cloudflare:apiToken": undefined }));
  expect(readSettings).toThrow("cloudflare:apiToken is missing: ");
});

test("a secret that is plain text is found in the stack's own file", () => {
  given(stackConfig());
  const plain = "config:\n  pushgate:secrets:\n    site:\n      current: { secure: v1:abc }\n      previous: plain\n";
  root.write("Pulumi.other.yaml", plain);
  expect(readSettings).not.toThrow();
  root.write(`Pulumi.${pulumi.getStack()}.yaml`, plain);
  expect(readSettings).toThrow("secrets.site.previous is plain text beside encrypted secrets");
});
