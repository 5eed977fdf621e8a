/** The only reader of the configuration that the engine hands to the program. Secrets leave it as Outputs only. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import { isConfigSecret } from "@pulumi/pulumi/runtime/config.js";
import { vendorUrl } from "../contract.ts";
import { SettingsError } from "./faults.ts";
import { baseUrl, type Credentials, parseSettings, type RawConfig, type Settings, token } from "./settings.ts";

declare module "@pulumi/pulumi/runtime/config.js" {
  export function isConfigSecret(key: string): boolean;
}

/** How the program itself queries Cloudflare; undefined where the provider has its token from the environment. */
export function readCloudflareAccess(): { baseUrl: string; token: string } | undefined {
  const raw: RawConfig = pulumi.runtime.allConfig();
  return raw[token] === undefined ? undefined : { baseUrl: raw[baseUrl] ?? vendorUrl, token: raw[token] };
}

/** Throws RunError with all faults. */
export function readSettings(): { settings: Settings; secrets: pulumi.Output<Credentials> } {
  const file = join(pulumi.getRootDirectory(), `Pulumi.${pulumi.getStack()}.yaml`);
  const stackFile = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const hasToken = ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY"].some((name) => process.env[name]);
  try {
    const { settings, secrets } = parseSettings(pulumi.runtime.allConfig(), isConfigSecret, stackFile, hasToken);
    return { settings, secrets: pulumi.secret(secrets) };
  } catch (error) {
    throw error instanceof SettingsError ? new pulumi.RunError(error.message) : error;
  }
}
