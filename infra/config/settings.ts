/**
 * The only reader of Pulumi's configuration: stack configuration -> Settings, once, with every fault in one error.
 * Secrets leave it as Outputs only, except Cloudflare's token, and are not in Settings.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as pulumi from "@pulumi/pulumi";
import * as runtimeConfig from "@pulumi/pulumi/runtime/config.js";
import * as v from "valibot";
import { vendorUrl } from "../edge/api.ts";
import { crossFaults, exampleFaults } from "./checks.ts";
import { settled } from "./derived.ts";
import { checkShape, type Fault, faultsOf, SettingsError } from "./faults.ts";
import { type Config, type HookSecrets, type Settings, shape } from "./schema.ts";
import { secretFaults } from "./secret-checks.ts";

export type { GitHostName } from "../../service/git-hosts/index.ts";
export type { Edge, Hook, Host, Limits, Plan, Settings, Site } from "./schema.ts";

const namespace = "pushgate:";
/** Keys of the Cloudflare provider. */
const token = "cloudflare:apiToken";
const baseUrl = "cloudflare:baseUrl";

/** The SDK exports it, and leaves it out of its types. */
const { isConfigSecret } = runtimeConfig as unknown as { isConfigSecret: (key: string) => boolean };

/** The configuration as the engine passes it: `namespace:key` -> text, which is JSON for an object or a list. */
export type RawConfig = Readonly<Record<string, string>>;

/**
 * A hook's secrets by its name, newest first; its deploy key, one text of several lines, under `key:<hook>`; the token for
 * results under `status:<hook>`, and the key that signs for `site.notify` under `notify:<hook>`.
 */
export type Credentials = Readonly<Record<string, readonly string[]>>;

/**
 * Throws SettingsError with all faults. `isSecret`: whether a key is encrypted; `stackFile` is the text of
 * Pulumi.<stack>.yaml where it is known; `hasToken`: whether the environment has a token for Cloudflare.
 */
export function parseSettings(raw: RawConfig, isSecret: (key: string) => boolean, stackFile?: string, hasToken = true) {
  const written: Record<string, unknown> = { secrets: {} };
  for (const [key, text] of Object.entries(raw)) {
    if (!key.startsWith(namespace)) continue;
    const name = key.slice(namespace.length);
    // Only a list or an object comes as JSON; a fault quotes other text as written.
    written[name] = /^[[{]/.test(text) ? decoded(text) : text;
  }
  const { secrets, ...config } = written;
  const { output, faults: shapeFaults } = checkShape(shape, config);
  const faults = [
    ...shapeFaults,
    ...faultsBetween(config, (raw[baseUrl] ?? vendorUrl) === vendorUrl),
    ...faultsOf(token, {
      [`is plain text. Make a new token, and run: npx pulumi config set --secret ${token}`]:
        raw[token] !== undefined && !isSecret(token),
      [`has characters that no token has, such as a space. Copy the token alone, and run: npx pulumi config set --secret ${token}`]:
        raw[token] !== undefined && isSecret(token) && !/^[\w-]+$/.test(raw[token]),
      [`is missing. Make a token with the permissions that README.md lists, and run: npx pulumi config set --secret ${token}`]:
        raw[token] === undefined && !hasToken,
    }),
    ...secretFaults(secrets, config.hooks, isSecret(`${namespace}secrets`), stackFile),
  ];
  if (output === undefined || faults.length > 0) throw new SettingsError(faults);
  const byHook: Record<string, string[]> = {};
  const entries = Object.entries(secrets as Record<string, HookSecrets>);
  for (const [hook, { current, previous, deployKey, status, notify }] of entries) {
    byHook[hook] = previous === undefined ? [current] : [current, previous];
    if (deployKey !== undefined) byHook[`key:${hook}`] = [deployKey];
    if (status !== undefined) byHook[`status:${hook}`] = [status];
    if (notify !== undefined) byHook[`notify:${hook}`] = [notify];
  }
  const withStatus = entries.flatMap(([hook, { status }]) => (status === undefined ? [] : [hook]));
  return { settings: settled(output, withStatus), secrets: byHook as Credentials };
}

/**
 * The faults between the parts whose shapes fit, so that a wrong shape hides none. Keys and texts name the entries by
 * their places in the list as written. Where the zone does not fit, it is unknown: "". `isReal`: whether the API is
 * Cloudflare's own.
 */
function faultsBetween(config: Record<string, unknown>, isReal: boolean): Fault[] {
  const { zone, edge, hosts, hooks, limits } = shape.entries;
  const fitting = <T extends v.GenericSchema>(item: T, list: unknown) =>
    (Array.isArray(list) ? list : []).flatMap((entry: unknown, place) => {
      const { success, output } = v.safeParse(item, entry);
      return success ? [{ entry: output, place }] : [];
    });
  const of = { hosts: fitting(hosts.pipe[0].item, config.hosts), hooks: fitting(hooks.pipe[0].item, config.hooks) };
  const asWritten = (text: string) =>
    text.replace(/\b(hosts|hooks)\[(\d+)\]/g, (_, list: "hosts" | "hooks", i) => `${list}[${of[list][i]?.place ?? i}]`);
  const parts: Config = {
    zone: v.is(zone, config.zone) ? config.zone : "",
    edge: v.safeParse(edge, config.edge).success ? v.parse(edge, config.edge) : v.parse(edge, { plan: "free" }),
    hosts: of.hosts.map(({ entry }) => entry),
    hooks: of.hooks.map(({ entry }) => entry),
    limits: v.parse(limits, undefined),
  };
  const faults = [...crossFaults(parts), ...(isReal ? exampleFaults(parts) : [])];
  return faults.map(({ key, says }) => ({ key: asWritten(key), says: asWritten(says) }));
}

/** Text that only begins like JSON stays as it is, and its shape has a fault. */
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
export function readSettings(): { settings: Settings; secrets: pulumi.Output<Credentials> } {
  const file = join(pulumi.getRootDirectory(), `Pulumi.${pulumi.getStack()}.yaml`);
  const stackFile = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const hasToken = ["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY"].some((name) => process.env[name]);
  const { settings, secrets } = parseSettings(pulumi.runtime.allConfig(), isConfigSecret, stackFile, hasToken);
  return { settings, secrets: pulumi.secret(secrets) };
}
