/** The only reader of the configuration that the engine hands to the program. Secrets leave it as Outputs only. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { isConfigSecret } from "@pulumi/pulumi/runtime/config.js";
import { vendorUrl } from "../contract.ts";
import { SettingsError } from "./faults.ts";
import { baseUrl, parseSettings, type RawConfig, token } from "./settings.ts";

declare module "@pulumi/pulumi/runtime/config.js" {
  export function isConfigSecret(key: string): boolean;
}

/** `access`: to Cloudflare's API, as the provider has it. Throws RunError with all faults. */
export function readSettings() {
  const file = join(pulumi.getRootDirectory(), `Pulumi.${pulumi.getStack()}.yaml`);
  const stackFile = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const raw: RawConfig = pulumi.runtime.allConfig();
  try {
    const { settings, secrets } = parseSettings(raw, isConfigSecret, stackFile);
    const access = { baseUrl: raw[baseUrl] ?? vendorUrl, token: raw[token]! };
    return { settings, secrets: pulumi.secret(secrets), access };
  } catch (error) {
    throw error instanceof SettingsError ? new pulumi.RunError(error.message) : error;
  }
}
