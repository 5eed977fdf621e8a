/**
 * The only reader of Pulumi's configuration: stack configuration -> Settings, once, with every fault in one error.
 * Secrets leave it as Outputs only, except Cloudflare's token, and are not in Settings.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import * as runtimeConfig from "@pulumi/pulumi/runtime/config.js";
import { crossFaults } from "./checks.ts";
import { settled } from "./derived.ts";
import { checkShape, faultsOf, SettingsError } from "./faults.ts";
import { type HookSecrets, type Settings, shape } from "./schema.ts";
import { secretFaults } from "./secret-checks.ts";

export type { Edge, GitHost, Hook, Host, Limits, Plan, Settings, Site } from "./schema.ts";

const namespace = "pushgate:";
/** Keys of the Cloudflare provider. */
const token = "cloudflare:apiToken";
const baseUrl = "cloudflare:baseUrl";
export const vendorUrl = "https://api.cloudflare.com/client/v4";

/** The SDK exports it, and leaves it out of its types. */
const { isConfigSecret } = runtimeConfig as unknown as { isConfigSecret: (key: string) => boolean };

/** The configuration as the engine passes it: `namespace:key` -> text, which is JSON for an object or a list. */
export type RawConfig = Readonly<Record<string, string>>;

/** Secrets by hook, newest first; its deploy key under `key:<hook>`. */
type Secrets = Readonly<Record<string, readonly string[]>>;

/**
 * Throws SettingsError with all faults. `isSecret`: whether a key is encrypted; `stackFile` is the text of
 * Pulumi.<stack>.yaml where it is known.
 */
export function parseSettings(raw: RawConfig, isSecret: (key: string) => boolean, stackFile?: string) {
  const written: Record<string, unknown> = { secrets: {} };
  for (const [key, text] of Object.entries(raw)) {
    if (!key.startsWith(namespace)) continue;
    const name = key.slice(namespace.length);
    written[name] = name === "zone" ? text : decoded(text);
  }
  const { secrets, ...config } = written;
  const { output, faults: shapeFaults } = checkShape(shape, config);
  const faults = [
    ...(output === undefined ? shapeFaults : crossFaults(output)),
    ...faultsOf(token, {
      [`is plain text. Make a new token, and run: npx pulumi config set --secret ${token}`]:
        raw[token] !== undefined && !isSecret(token),
    }),
    ...secretFaults(secrets, config.hooks, isSecret(`${namespace}secrets`), stackFile),
  ];
  if (output === undefined || faults.length > 0) throw new SettingsError(faults);
  const byHook: Record<string, string[]> = {};
  for (const [hook, { current, previous, deployKey }] of Object.entries(secrets as Record<string, HookSecrets>)) {
    byHook[hook] = previous === undefined ? [current] : [current, previous];
    if (deployKey !== undefined) byHook[`key:${hook}`] = [deployKey];
  }
  return { settings: settled(output), secrets: byHook as Secrets };
}

/** Objects and lists arrive as JSON; other text stays as it is, and its shape has a fault. */
function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** How the program itself queries Cloudflare; undefined where the provider has its token from the environment. */
export function readCloudflareAccess(): { baseUrl: string; token: string } | undefined {
  const raw: RawConfig = pulumi.runtime.allConfig();
  return raw[token] === undefined ? undefined : { baseUrl: raw[baseUrl] ?? vendorUrl, token: raw[token] };
}

/** Throws SettingsError. */
export function readSettings(): { settings: Settings; secrets: pulumi.Output<Secrets> } {
  const file = join(pulumi.getRootDirectory(), `Pulumi.${pulumi.getStack()}.yaml`);
  const stackFile = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const { settings, secrets } = parseSettings(pulumi.runtime.allConfig(), isConfigSecret, stackFile);
  return { settings, secrets: pulumi.secret(secrets) };
}
