/**
 * Stack configuration -> Settings, once, with every fault and its cure in one error. The only reader of Pulumi's
 * configuration; secrets leave it as Outputs, the edge's token apart, and are in no Settings, so whatever is rendered
 * from Settings is public.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import * as runtimeConfig from "@pulumi/pulumi/runtime/config.js";
import * as v from "valibot";
import { crossFaults } from "./checks.ts";
import { settled } from "./derived.ts";
import { type Fault, SettingsError, toFault } from "./faults.ts";
import { type Settings, shape } from "./schema.ts";
import { secretFaults, writtenHooks } from "./secret-checks.ts";

export type { Edge, GitHost, Hook, Host, Limits, Plan, Settings, Site } from "./schema.ts";

const namespace = "pushgate";
/** The edge provider's own keys; whoever reads the token can rewrite the zone. */
const token = "cloudflare:apiToken";
const baseUrl = "cloudflare:baseUrl";
export const vendorUrl = "https://api.cloudflare.com/client/v4";

/** Exported by the SDK, and left out of its types only. */
const { isConfigSecret } = runtimeConfig as unknown as { isConfigSecret: (key: string) => boolean };

/** What the engine hands over: `namespace:key` -> text, a JSON document where the key's type is object or array. */
export type RawConfig = Readonly<Record<string, string>>;

/**
 * Throws SettingsError with all faults. `isSecret` tells whether a key is encrypted; `stackFile` is the text of
 * Pulumi.<stack>.yaml where it is known, as only the file can show a plain-text value beside an encrypted one.
 */
export function parseSettings(raw: RawConfig, isSecret: (key: string) => boolean, stackFile?: string): Parsed {
  const faults: Fault[] = [];
  const config: Record<string, unknown> = { zone: "", edge: {}, hosts: [], hooks: [], limits: {} };
  let secrets: unknown = {};
  for (const [fullKey, text] of Object.entries(raw)) {
    if (!fullKey.startsWith(`${namespace}:`)) continue;
    const key = fullKey.slice(namespace.length + 1);
    const value = key === "zone" ? text : decoded(text);
    if (key === "secrets") secrets = value;
    else config[key] = value;
  }
  const checked = v.safeParse(shape, config);
  faults.push(...(checked.success ? crossFaults(checked.output) : checked.issues.map(toFault)));
  if (raw[token] !== undefined && !isSecret(token))
    faults.push({
      key: token,
      says: `is plain text: make a new token and store it with pulumi config set --secret ${token}`,
    });
  faults.push(...secretFaults(secrets, writtenHooks(config.hooks), isSecret(`${namespace}:secrets`), stackFile));
  if (!checked.success || faults.length > 0) throw new SettingsError(faults);
  type Entry = { current: string; previous?: string; deployKey?: string };
  const named = Object.entries(secrets as Record<string, Entry>).flatMap(([hook, { current, previous, deployKey }]) => [
    [hook, previous === undefined ? [current] : [current, previous]] as const,
    ...(deployKey === undefined ? [] : [[`key:${hook}`, [deployKey]] as const]),
  ]);
  return { settings: settled(checked.output), secrets: Object.fromEntries(named) };
}

/** Secrets by hook, newest first; its deploy key under `key:<hook>`. */
type Secrets = Readonly<Record<string, readonly string[]>>;
type Parsed = { readonly settings: Settings; readonly secrets: Secrets };

/** Objects and lists arrive as JSON; anything else stays the text it is, and its shape says what is wrong with it. */
function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * How the program itself asks the edge; undefined where the provider has its token from the environment. For one call's
 * header and nothing else: it is the only secret that is handed on as text.
 */
export function readEdgeAccess(): { baseUrl: string; token: string } | undefined {
  const raw: RawConfig = pulumi.runtime.allConfig();
  return raw[token] === undefined ? undefined : { baseUrl: raw[baseUrl] ?? vendorUrl, token: raw[token] };
}

/** What the program runs on; throws SettingsError. */
export function readSettings(): { settings: Settings; secrets: pulumi.Output<Secrets> } {
  const file = join(pulumi.getRootDirectory(), `Pulumi.${pulumi.getStack()}.yaml`);
  const { settings, secrets } = parseSettings(
    pulumi.runtime.allConfig(),
    isConfigSecret,
    existsSync(file) ? readFileSync(file, "utf8") : undefined,
  );
  return { settings, secrets: pulumi.secret(secrets) };
}
