/**
 * Reads all that receiver and builder start from, and is the only reader of process.env: a rendered, public JSON file of
 * settings each, the secrets in systemd's credentials, and the sockets that systemd passes. It reports all faults at
 * once, each with its fix and none with a secret. Neither program starts without its secrets.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { type BuilderSettings, builderShape, overSsh, whole } from "./builder/settings.ts";
import { type GitHostName, verifiedGitHosts } from "./git-hosts/index.ts";

export type ReceiverHook = {
  /** The last segment of the path /webhook/<name>. */
  readonly name: string;
  readonly gitHost: GitHostName;
  /** Pushes to other branches are ignored. */
  readonly branch: string;
};

export type ReceiverSettings = {
  /** Absolute folder: the receiver writes accepted deliveries to <spool>/<hook>/. */
  readonly spool: string;
  readonly hooks: readonly ReceiverHook[];
  readonly limits: {
    /** Bytes of a delivery's body. */
    readonly bodyBytes: number;
    /** Rejections per minute of one source on one hook; the receiver answers further ones with 429. */
    readonly refusalsPerMinute: number;
    /** Requests that one source may have open at once. */
    readonly concurrentPerSource: number;
  };
  /** The address outside systemd, which the receiver uses only if systemd passed no socket. */
  readonly listen?: { readonly host: string; readonly port: number };
};

/** The secrets of each hook, newest first, at least one. */
export type Secrets = ReadonlyMap<string, readonly string[]>;

/** All that a receiver starts from. `sockets`: descriptors of listening sockets, empty outside systemd. */
export type Receiver = {
  readonly settings: ReceiverSettings;
  readonly secrets: Secrets;
  readonly sockets: readonly number[];
};

export class SettingsFault extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(`${faults.length} fault${faults.length === 1 ? "" : "s"}, not started:\n  ${faults.join("\n  ")}`);
    this.faults = faults;
  }
}

/** The first descriptor that systemd passes (sd_listen_fds(3)). */
const firstSocket = 3;

/** Characters: 32 of base64 are 192 bits. The stack configuration requires as many. */
const secretLength = 32;

const hook = v.object({
  name: v.pipe(v.string("write a name"), v.regex(/^[a-z0-9-]{1,32}$/, "use 1 to 32 of a-z, 0-9 and hyphens")),
  gitHost: v.picklist(
    verifiedGitHosts,
    `write ${verifiedGitHosts.join(", ").replace(/, (?=[^,]*$)/, " or ")}: the receiver verifies the signature of no other`,
  ),
  branch: v.pipe(v.string("write a branch"), v.nonEmpty("is empty: write a branch")),
});

// Unknown keys are accepted: an older bundle must start with the file of a newer pushgate.
const shape = v.object({
  spool: v.pipe(v.string("write an absolute folder"), v.startsWith("/", "write an absolute folder")),
  hooks: v.pipe(
    v.array(hook, "write a list of hooks"),
    v.minLength(1, "is empty: write at least one hook"),
    v.check(
      (hooks) => new Set(hooks.map(({ name }) => name)).size === hooks.length,
      "names a hook twice: give each hook its own name",
    ),
  ),
  limits: v.object({
    bodyBytes: whole(1, 25 << 20),
    refusalsPerMinute: whole(1, 10_000),
    concurrentPerSource: whole(1, 1_000),
  }),
  listen: v.exactOptional(v.object({ host: v.string("write an address"), port: whole(0, 65_535) })),
});

type Environment = Readonly<Record<string, string | undefined>>;

/** Throws SettingsFault. */
export function readReceiver(env: Environment = process.env, pid: number = process.pid): Receiver {
  const faults: string[] = [];
  const settings = readShape(shape, env.PUSHGATE_SETTINGS, faults);
  const secrets = readSecrets(env.CREDENTIALS_DIRECTORY, settings?.hooks ?? [], faults);
  // A child process inherits the variables, but systemd passed the descriptors only to the process that they name.
  const count = env.LISTEN_PID === String(pid) ? Number(env.LISTEN_FDS) : 0;
  if (settings && !(count > 0) && !settings.listen)
    faults.push(
      "no socket was handed over (LISTEN_PID, LISTEN_FDS) and the settings hold no `listen`: start the .socket unit, " +
        'or write `listen: { "host": …, "port": … }`',
    );
  if (!settings || faults.length > 0) throw new SettingsFault(faults);
  return { settings, secrets, sockets: Array.from({ length: count || 0 }, (_, i) => firstSocket + i) };
}

/** Everything a builder starts from. */
export type Builder = {
  readonly settings: BuilderSettings;
  /** Absolute file of the private key that reads an ssh repository. */
  readonly deployKey?: string;
  /** The folders in which git is looked for. */
  readonly path: string;
  /** PEM file of the authorities that an https repository's certificate is checked against; else the host's. */
  readonly authorities?: string;
};

/** Throws SettingsFault. */
export function readBuilder(env: Environment = process.env): Builder {
  const faults: string[] = [];
  const settings = readShape(builderShape, env.PUSHGATE_SETTINGS, faults);
  const deployKey = settings && overSsh(settings.repository) ? readKey(env.CREDENTIALS_DIRECTORY, faults) : undefined;
  if (!settings || faults.length > 0) throw new SettingsFault(faults);
  return {
    settings,
    ...(deployKey !== undefined && { deployKey }),
    path: env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
    ...(env.GIT_SSL_CAINFO && { authorities: env.GIT_SSL_CAINFO }),
  };
}

const privateKey = /^-----BEGIN [A-Z ]*PRIVATE KEY-----\n[\s\S]*\n-----END [A-Z ]*PRIVATE KEY-----\n$/;

/** Returns the key's file, and checks it: of a damaged key ssh reports only that the remote rejected it. */
function readKey(folder: string | undefined, faults: string[]): string | undefined {
  const provided = "the unit's LoadCredentialEncrypted=deploy-key provides it. Run `pulumi up`.";
  if (!folder) {
    faults.push(`CREDENTIALS_DIRECTORY is not set, and the repository is reached over ssh: ${provided}`);
    return undefined;
  }
  const file = join(folder, "deploy-key");
  try {
    if (!privateKey.test(readFileSync(file, "utf8")))
      faults.push(
        `${file} is not a private key with its BEGIN and END lines, each ended by a line feed. Set ` +
          "pushgate:secrets.<hook>.deployKey again.",
      );
  } catch (error) {
    faults.push(`${file} is not readable (${codeOf(error)}): ${provided}`);
  }
  return file;
}

function readShape<S extends v.GenericSchema>(
  shape: S,
  file: string | undefined,
  faults: string[],
): v.InferOutput<S> | undefined {
  if (!file) {
    faults.push("PUSHGATE_SETTINGS is not set: it names the settings' JSON file; the unit's Environment= line sets it");
    return undefined;
  }
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    faults.push(`${file} is not readable (${codeOf(error)}): PUSHGATE_SETTINGS names it, \`pulumi up\` writes it`);
    return undefined;
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    faults.push(`${file} is not JSON: \`pulumi up\` writes it anew`);
    return undefined;
  }
  const checked = v.safeParse(shape, json);
  if (checked.success) return checked.output;
  for (const issue of checked.issues) faults.push(`${file}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}`);
  return undefined;
}

function readSecrets(folder: string | undefined, hooks: readonly ReceiverHook[], faults: string[]): Secrets {
  const secrets = new Map<string, readonly string[]>();
  if (!folder) {
    faults.push("CREDENTIALS_DIRECTORY is not set: the unit's LoadCredentialEncrypted= lines provide the secrets");
    return secrets;
  }
  for (const { name } of hooks) {
    const file = join(folder, name);
    try {
      const lines = readFileSync(file, "utf8").replace(/\n$/, "").split("\n");
      for (const [i, line] of lines.entries()) {
        const where = `${file}, line ${i + 1}`;
        // A carriage return or a space from an editor would be part of the key, and each delivery would be a 401.
        if (line !== line.trim()) faults.push(`${where}: starts or ends with white space: remove it`);
        if (line.trim().length < secretLength)
          faults.push(
            `${where}: the secret is shorter than ${secretLength} characters: make one with openssl rand -base64 32`,
          );
      }
      secrets.set(name, lines);
    } catch (error) {
      faults.push(`${file} is not readable (${codeOf(error)}): the unit's LoadCredentialEncrypted=${name} provides it`);
    }
  }
  return secrets;
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "unknown";
