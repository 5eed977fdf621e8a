/** From the stack's configuration to settings and credentials, with every fault in one error. Pure. */
import * as v from "valibot";
import { credentialKinds, credentialOf } from "../../service/credentials.ts";
import { tried } from "../../service/tried.ts";
import { vendorUrl } from "../contract.ts";
import { crossFaults } from "./checks.ts";
import { previewsName, settled } from "./derived.ts";
import { checkShape, faultsOf, SettingsError } from "./faults.ts";
import { type HookSecrets, type Parts, type Placed, shape } from "./schema.ts";
import { secretFaults } from "./secret-checks.ts";

export type { GitHostName } from "../../service/git-hosts/index.ts";
export type { Edge, Hook, Host, Plan, Settings, Site } from "./schema.ts";

const namespace = "pushgate:";
export const token = "cloudflare:apiToken";
export const baseUrl = "cloudflare:baseUrl";

/** As the engine passes it: `namespace:key` -> text, which is JSON for an object or a list. */
export type RawConfig = Readonly<Record<string, string>>;

/** By the names of service/credentials.ts: a hook's secrets, newest first; its deploy key is one text of several lines. */
export type Credentials = Readonly<Record<string, readonly string[]>>;

export function parseSettings(raw: RawConfig, isSecret: (key: string) => boolean, stackFile?: string) {
  const own = Object.entries(raw).filter(([key]) => key.startsWith(namespace));
  const written = own.map(([key, text]) => [key.slice(namespace.length), decoded(text)]);
  const { secrets = {}, ...config }: Record<string, unknown> = Object.fromEntries(written);
  const { output, faults: shapeFaults } = checkShape(shape, config);
  const faults = [
    ...shapeFaults,
    ...crossFaults(partsOf(config), (raw[baseUrl] ?? vendorUrl) === vendorUrl),
    ...faultsOf(token, {
      [`is plain text. Make a new token, and run: npx pulumi config set --secret ${token}`]:
        raw[token] !== undefined && !isSecret(token),
      [`has characters that no token has, such as a space. Copy the token alone, and run: npx pulumi config set --secret ${token}`]:
        raw[token] !== undefined && isSecret(token) && !/^[\w-]+$/.test(raw[token]),
      [`is missing: pushgate reads it from the stack's configuration, not from CLOUDFLARE_API_TOKEN. Make a token with the permissions that README.md lists, and run: npx pulumi config set --secret ${token}`]:
        raw[token] === undefined,
    }),
    ...secretFaults(secrets, config.hooks, isSecret(`${namespace}secrets`), stackFile, raw[token]),
  ];
  if (output === undefined || faults.length > 0) throw new SettingsError(faults);
  const entries = Object.entries(secrets as Record<string, HookSecrets>);
  const previewed = output.hooks.flatMap(({ name, site }) => (site?.previews ? [name] : []));
  const credentials = entries.flatMap(([hook, { current, previous, ...others }]) => [
    [credentialOf(hook), previous === undefined ? [current] : [current, previous]],
    ...credentialKinds.flatMap((kind) => {
      const given = others[kind] ?? {};
      // With the recipient's name, so that no other order of the recipients sends a secret elsewhere.
      const words = typeof given === "string" ? [given] : Object.entries(given).map((pair) => pair.join(":"));
      const isShared = previewed.includes(hook) && (kind === "deployKey" || kind === "status");
      const names = isShared ? [hook, previewsName(hook)] : [hook];
      return words.length === 0 ? [] : names.map((name) => [credentialOf(name, kind), words]);
    }),
  ]);
  const withStatus = entries.flatMap(([hook, { status }]) => (status === undefined ? [] : [hook]));
  return { settings: settled(output, withStatus), secrets: Object.fromEntries(credentials) as Credentials };
}

/** The parts whose shapes fit, so that a wrong shape hides no fault between them. */
function partsOf(config: Record<string, unknown>): Parts {
  const { zone, edge, hosts, hooks } = shape.entries;
  const placed = <T extends v.GenericSchema<unknown, object>>(item: T, key: "hosts" | "hooks") =>
    (Array.isArray(config[key]) ? config[key] : []).flatMap((entry, i): Placed<v.InferOutput<T>>[] => {
      const { success, output } = v.safeParse(item, entry);
      return success ? [{ ...output, at: `${key}[${i}]` }] : [];
    });
  return {
    zone: v.is(zone, config.zone) ? config.zone : "",
    edge: v.is(edge, config.edge) ? v.parse(edge, config.edge) : v.parse(edge, { plan: "free" }),
    hosts: placed(hosts.pipe[0].item, "hosts"),
    hooks: placed(hooks.pipe[0].item, "hooks"),
  };
}

/** Only a list or an object comes as JSON; a fault quotes other text as written. */
const decoded = (text: string): unknown => (/^[[{]/.test(text) && tried(() => JSON.parse(text))) || text;
