/**
 * Reads all that receiver and builder start from, and is the only reader of process.env: settings from a public JSON file,
 * secrets from systemd's credentials, and systemd's sockets. It reports all faults at once, and none quotes a secret.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { builderShape, hookName, overSsh, whole } from "./builder/settings.ts";
import { verifiedGitHosts } from "./git-hosts/index.ts";

/** Characters: 32 of base64 are 192 bits. The stack configuration requires as many. */
const secretLength = 32;

const hook = v.object({
  /** The last segment of the path /webhook/<name>. */
  name: hookName,
  gitHost: v.picklist(
    verifiedGitHosts,
    `write ${verifiedGitHosts.join(", ").replace(/, (?=[^,]*$)/, " or ")}: the receiver verifies the signature of no other`,
  ),
  /** Pushes to other branches are ignored. */
  branch: v.pipe(v.string("write a branch"), v.nonEmpty("is empty: write a branch")),
});

// Unknown keys are accepted: an older bundle must start with the file of a newer pushgate.
const receiverShape = v.object({
  /** The receiver writes accepted deliveries to <spool>/<hook>/. */
  spool: v.pipe(v.string("write an absolute folder"), v.startsWith("/", "write an absolute folder")),
  hooks: v.pipe(
    v.array(hook, "write a list of hooks"),
    v.minLength(1, "is empty: write at least one hook"),
    v.check(
      (hooks) => new Set(hooks.map(({ name }) => name)).size === hooks.length,
      "names a hook twice: give each hook its own name",
    ),
    v.readonly(),
  ),
  limits: v.object({
    /** Of a delivery. */
    bodyBytes: whole(1, 25 << 20),
    /** Rejections of one source on one hook; the receiver answers further ones with 429. */
    refusalsPerMinute: whole(1, 10_000),
    /** Requests that one source may have open at once. */
    concurrentPerSource: whole(1, 1_000),
  }),
  /** The address outside systemd, which the receiver uses only if systemd passed no socket. */
  listen: v.exactOptional(v.object({ host: v.string("write an address"), port: whole(0, 65_535) })),
});

export type ReceiverSettings = Readonly<v.InferOutput<typeof receiverShape>>;
export type ReceiverHook = ReceiverSettings["hooks"][number];

/** The secrets of each hook, newest first, at least one. */
export type Secrets = ReadonlyMap<string, readonly string[]>;

export class SettingsFault extends Error {
  readonly faults: readonly string[];
  constructor(faults: readonly string[]) {
    super(`${faults.length} fault${faults.length === 1 ? "" : "s"}, not started:\n  ${faults.join("\n  ")}`);
    this.faults = faults;
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Adds a fault. Returns undefined in place of what the fault is about. */
type Report = (fault: string) => undefined;

export type Receiver = ReturnType<typeof readReceiver>;

/** Throws SettingsFault. `sockets`: descriptors of listening sockets, empty outside systemd. */
export function readReceiver(env: Environment = process.env, pid: number = process.pid) {
  const faults: string[] = [];
  const report: Report = (fault) => void faults.push(fault);
  const settings: ReceiverSettings | undefined = readShape(receiverShape, env.PUSHGATE_SETTINGS, report);
  const secrets = readSecrets(env.CREDENTIALS_DIRECTORY, settings?.hooks ?? [], report);
  // A child process inherits the variables, but systemd passed the descriptors only to the process that they name.
  const count = env.LISTEN_PID === String(pid) ? Number(env.LISTEN_FDS) : 0;
  if (settings && !(count > 0) && !settings.listen)
    report(
      "no socket was handed over (LISTEN_PID, LISTEN_FDS) and the settings hold no `listen`: start the .socket unit, " +
        'or write `listen: { "host": …, "port": … }`',
    );
  if (!settings || !secrets || faults.length > 0) throw new SettingsFault(faults);
  // The first descriptor that systemd passes is 3 (sd_listen_fds(3)).
  return { settings, secrets, sockets: Array.from({ length: count || 0 }, (_, i) => 3 + i) };
}

export type Builder = ReturnType<typeof readBuilder>;

/** Throws SettingsFault. */
export function readBuilder(env: Environment = process.env) {
  const faults: string[] = [];
  const report: Report = (fault) => void faults.push(fault);
  const settings = readShape(builderShape, env.PUSHGATE_SETTINGS, report);
  const deployKey = settings && overSsh(settings.repository) ? readKey(env.CREDENTIALS_DIRECTORY, report) : undefined;
  if (!settings || faults.length > 0) throw new SettingsFault(faults);
  return {
    settings,
    /** The file of the private key that reads an ssh repository. */
    ...(deployKey !== undefined && { deployKey }),
    /** The folders in which git is looked for. */
    path: env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
    /** PEM file of the authorities that an https repository's certificate is checked against; else the host's. */
    ...(env.GIT_SSL_CAINFO && { authorities: env.GIT_SSL_CAINFO }),
  };
}

/** `fix`: what provides the file. */
function readText(file: string, fix: string, report: Report): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    return report(`${file} is not readable (${(error as NodeJS.ErrnoException).code ?? "unknown"}): ${fix}`);
  }
}

function readShape<S extends v.GenericSchema>(shape: S, file: string | undefined, report: Report) {
  if (!file)
    return report(
      "PUSHGATE_SETTINGS is not set: it names the settings' JSON file; the unit's Environment= line sets it",
    );
  const text = readText(file, "PUSHGATE_SETTINGS names it, `pulumi up` writes it", report);
  if (text === undefined) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return report(`${file} is not JSON: \`pulumi up\` writes it anew`);
  }
  const { issues, success, output } = v.safeParse(shape, json);
  for (const issue of issues ?? []) report(`${file}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}`);
  return success ? output : undefined;
}

function readSecrets(folder: string | undefined, hooks: readonly ReceiverHook[], report: Report): Secrets | undefined {
  if (!folder)
    return report("CREDENTIALS_DIRECTORY is not set: the unit's LoadCredentialEncrypted= lines provide the secrets");
  return new Map(hooks.map(({ name }) => [name, readSecret(folder, name, report)]));
}

function readSecret(folder: string, name: string, report: Report): readonly string[] {
  const file = join(folder, name);
  const text = readText(file, `the unit's LoadCredentialEncrypted=${name} provides it`, report);
  const lines = text?.replace(/\n$/, "").split("\n") ?? [];
  for (const [i, line] of lines.entries()) {
    const where = `${file}, line ${i + 1}`;
    // A carriage return or a space from an editor would be part of the key, and each delivery would be a 401.
    if (line !== line.trim()) report(`${where}: starts or ends with white space: remove it`);
    if (line.trim().length < secretLength)
      report(`${where}: the secret is shorter than ${secretLength} characters: make one with openssl rand -base64 32`);
  }
  return lines;
}

const privateKey = /^-----BEGIN [A-Z ]*PRIVATE KEY-----\n[\s\S]*\n-----END [A-Z ]*PRIVATE KEY-----\n$/;

/** Returns the key's file, and checks it: of a damaged key ssh reports only that the remote rejected it. */
function readKey(folder: string | undefined, report: Report): string | undefined {
  const provided = "the unit's LoadCredentialEncrypted=deploy-key provides it. Run `pulumi up`.";
  if (!folder) return report(`CREDENTIALS_DIRECTORY is not set, and the repository is reached over ssh: ${provided}`);
  const file = join(folder, "deploy-key");
  const text = readText(file, provided, report);
  if (text !== undefined && !privateKey.test(text))
    report(
      `${file} is not a private key with its BEGIN and END lines, each ended by a line feed. Set ` +
        "pushgate:secrets.<hook>.deployKey again.",
    );
  return file;
}
