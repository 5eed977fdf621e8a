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
import { crossFaults, settled, toFault } from "./checks.ts";
import { type gitHosts, type plans, shape } from "./schema.ts";
import { secretFaults, writtenHooks } from "./secret-checks.ts";

export type Plan = (typeof plans)[number];
export type GitHost = (typeof gitHosts)[number];

export type Edge = {
  readonly plan: Plan;
  /** Free plan only, the operator's choice: switch Bot Fight Mode off for the whole zone, as no rule can skip it. */
  readonly botFightMode?: "off";
  /** Raise it to have the certificate the edge presents to the origins made anew. */
  readonly generation: number;
  /** Whether `up` and `preview` ask for the canary; unsaid, where the API is the vendor's own. */
  readonly canary?: boolean;
};

export type Host = {
  readonly name: string;
  /** What `ssh` is given: user@host, or an alias of ~/.ssh/config. */
  readonly ssh: string;
  /** Run as root through `sudo -n`. */
  readonly sudo: boolean;
  /** The origin's public address, DNS data only: behind NAT the machine does not have it. */
  readonly address: string;
  readonly address6?: string;
  /** For hooks only. */
  readonly hostname: string;
  /** TCP port the edge contacts; nobody else may. */
  readonly originPort: number;
  /** absent: remove everything, DNS first. lost: the machine is gone, touch only the edge. */
  readonly state: "present" | "absent" | "lost";
};

/** What a push to the hook's branch becomes. */
export type Site = {
  /** The folder the web server serves; a link to the current release once a machine is adopted. */
  readonly webRoot: string;
  /** Not in version control, read and never written. */
  readonly content: string;
  /** Where pushgate is to serve it, too: a name of the zone. */
  readonly hostname?: string;
  /** Paths in webRoot that no build produces and that stay. */
  readonly keep: readonly string[];
  /** Paths in the repository whose change builds; one that ends in a slash is a folder. */
  readonly paths: readonly string[];
  /** Extensions of files that outlive the release that built them, as pages still open refer to them. */
  readonly assets: readonly string[];
  readonly submodules: boolean;
  /** Lines of known_hosts, for a repository over ssh. */
  readonly knownHosts: readonly string[];
  /** Private ranges a fetch may reach, such as an in-house git host's. */
  readonly egress: readonly string[];
  /** Group of the machine whose members may ask for a build. */
  readonly writers?: string;
  readonly hugo: {
    readonly path: string;
    readonly minimum: string;
    /** hugo's security.exec.allow and security.http.urls; empty closes them. */
    readonly exec: readonly string[];
    readonly http: readonly string[];
  };
  /** Minutes between two looks at the repository that no push asked for. */
  readonly reconcileMinutes: number;
  readonly limits: {
    readonly memoryMiB: number;
    /** Of one processor. */
    readonly cpuPercent: number;
    /** Processes and threads. */
    readonly tasks: number;
    /** A build may take. */
    readonly seconds: number;
    readonly releaseMiB: number;
    /** Of the last release's pages, below which a build is not published. */
    readonly pagesPercent: number;
  };
};

export type Hook = {
  /** The path's last segment: /webhook/<name>. */
  readonly name: string;
  readonly gitHost: GitHost;
  /** Whether the git host publishes its ranges. */
  readonly published: boolean;
  /** CIDRs that may deliver: sorted, without overlaps, never empty. */
  readonly sources: readonly string[];
  readonly repository: string;
  readonly branch: string;
  readonly site?: Site;
};

export type Limits = {
  /** Bytes of a delivery's body. */
  readonly bodyBytes: number;
  /** Refused requests a minute that one source may cause on one hook before the receiver answers 429. */
  readonly refusalsPerMinute: number;
  /** Requests one source may have open at the receiver at once. */
  readonly concurrentPerSource: number;
  /** Requests a second one source may send through the proxy; `proxyBurst` more may queue without delay. */
  readonly proxyRate: number;
  readonly proxyBurst: number;
};

export type Settings = {
  readonly zone: string;
  readonly edge: Edge;
  readonly hosts: readonly Host[];
  readonly hooks: readonly Hook[];
  readonly limits: Limits;
};

const namespace = "pushgate";
/** The edge provider's own keys; whoever reads the token can rewrite the zone. */
const token = "cloudflare:apiToken";
const baseUrl = "cloudflare:baseUrl";
export const vendorUrl = "https://api.cloudflare.com/client/v4";

/** Exported by the SDK, and left out of its types only. */
const { isConfigSecret } = runtimeConfig as unknown as { isConfigSecret: (key: string) => boolean };

/** One fault: which key, what is wrong with it, what to write instead. */
export type Fault = { readonly key: string; readonly says: string };

export class SettingsError extends pulumi.RunError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    const lines = faults.map(({ key, says }) => `  ${key === token ? key : `${namespace}:${key}`} ${says}`);
    super(
      `${faults.length} fault${faults.length === 1 ? "" : "s"} in the stack configuration, nothing was changed:\n${lines.join("\n")}`,
    );
    this.faults = faults;
  }
}

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
