/**
 * Reads all that receiver, builder and reporter start from, and is the only reader of process.env: settings from a public
 * JSON file, secrets from systemd's credentials, and systemd's sockets. It reports all faults at once, and none quotes a
 * secret.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import type { UnitEnd } from "./builder/run/unit-end.ts";
import { absolute, builderShape, hookName, text, whole } from "./builder/settings.ts";
import { gitHostNames } from "./git-hosts/index.ts";
import { receiverLimits } from "./limits.ts";
import { type ReporterSettings, reporterShape } from "./reporter/settings.ts";

/** Characters: 32 of base64 are 192 bits. The stack configuration requires as many. */
const secretLength = 32;

const hook = v.object({
  /** The last segment of the path /webhook/<name>. */
  name: hookName,
  gitHost: v.picklist(gitHostNames),
  /** Pushes to other branches are ignored. */
  branch: text,
  /** Of a hook with a site: the builder's status.json, for the metrics. */
  statusFile: v.exactOptional(absolute),
});

/** FileDescriptorName= of the socket for metrics. Each other socket that systemd passes is for deliveries. */
export const metricsName = "metrics";

// Unknown keys are accepted: an older bundle must start with the file of a newer pushgate.
const receiverShape = v.object({
  /** The receiver writes accepted deliveries to <spool>/<hook>/. */
  spool: absolute,
  hooks: v.pipe(
    v.array(hook),
    v.minLength(1),
    v.check((hooks) => new Set(hooks.map(({ name }) => name)).size === hooks.length, "names a hook twice"),
    v.readonly(),
  ),
  limits: v.required(v.object(receiverLimits.entries)),
  /** The address outside systemd, which the receiver uses only if systemd passed no socket. */
  listen: v.exactOptional(v.object({ host: v.string(), port: whole(0, 65_535) })),
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

/** Throws SettingsFault. `sockets`, `metrics`: descriptors of listening sockets, empty outside systemd. */
export function readReceiver(env: Environment = process.env, pid: number = process.pid) {
  const faults: string[] = [];
  const report: Report = (fault) => void faults.push(fault);
  const settings: ReceiverSettings | undefined = readShape(receiverShape, env.PUSHGATE_SETTINGS, report);
  const hooks = settings?.hooks.map(({ name }) => name);
  const secrets = readSecrets(env.CREDENTIALS_DIRECTORY, hooks, report);
  // A child process inherits the variables, but systemd passed the descriptors only to the process that they name.
  const count = env.LISTEN_PID === String(pid) ? Number(env.LISTEN_FDS) : 0;
  const names = env.LISTEN_FDNAMES?.split(":") ?? [];
  // The first descriptor that systemd passes is 3 (sd_listen_fds(3)).
  const passed = Array.from({ length: count || 0 }, (_, i) => ({
    descriptor: 3 + i,
    forMetrics: names[i] === metricsName,
  }));
  const descriptors = (forMetrics: boolean) =>
    passed.filter((socket) => socket.forMetrics === forMetrics).map(({ descriptor }) => descriptor);
  const [sockets, metrics] = [descriptors(false), descriptors(true)];
  if (settings && sockets.length === 0 && !settings.listen)
    report(
      "no socket was handed over (LISTEN_PID, LISTEN_FDS) and the settings hold no `listen`: start the .socket unit, " +
        'or write `listen: { "host": …, "port": … }`',
    );
  if (!settings || !secrets || faults.length > 0) throw new SettingsFault(faults);
  return { settings, secrets, sockets, metrics };
}

export type Builder = ReturnType<typeof readBuilder>;

/** Throws SettingsFault. */
export function readBuilder(env: Environment = process.env) {
  const faults: string[] = [];
  const report: Report = (fault) => void faults.push(fault);
  const settings = readShape(builderShape, env.PUSHGATE_SETTINGS, report);
  if (!settings || faults.length > 0) throw new SettingsFault(faults);
  return {
    settings,
    /** The folders in which git is looked for. */
    path: env.PATH ?? "/usr/local/bin:/usr/bin:/bin",
    /** PEM file of the authorities that an https repository's certificate is checked against; else the host's. */
    ...(env.GIT_SSL_CAINFO && { authorities: env.GIT_SSL_CAINFO }),
  };
}

export type Reporter = {
  readonly settings: ReporterSettings;
  /** The git host's token, and the key that signs what goes to `site.notify`. */
  readonly secrets: { readonly status?: string; readonly notify?: string };
};

/** Throws SettingsFault. */
export function readReporter(env: Environment = process.env): Reporter {
  const faults: string[] = [];
  const report: Report = (fault) => void faults.push(fault);
  const settings = readShape(reporterShape, env.PUSHGATE_SETTINGS, report);
  const folder = env.CREDENTIALS_DIRECTORY ?? "";
  const read = (name: "status" | "notify") => {
    if (settings?.[name] === undefined) return {};
    const text = readText(join(folder, name), `the unit's LoadCredentialEncrypted=${name} provides it`, report)?.trim();
    if (text === undefined) return {};
    // It becomes part of a header.
    if (!/^[!-~]+$/.test(text)) report(`the credential ${name} is not one word of ASCII`);
    return { [name]: text };
  };
  const secrets = { ...read("status"), ...read("notify") };
  if (!settings || faults.length > 0) throw new SettingsFault(faults);
  return { settings, secrets };
}

/** How systemd ended the unit: in the environment of its ExecStopPost=. */
export function readUnitEnd(env: Environment = process.env): UnitEnd {
  return { result: env.SERVICE_RESULT ?? "", code: env.EXIT_CODE ?? "", status: env.EXIT_STATUS ?? "" };
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
      "PUSHGATE_SETTINGS is not set. Start the program by its unit, whose Environment= line names the file.",
    );
  const text = readText(file, "PUSHGATE_SETTINGS names it, `npx pulumi up` writes it", report);
  if (text === undefined) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return report(`${file} is not JSON. Run npx pulumi up, which writes it anew.`);
  }
  const { issues, success, output } = v.safeParse(shape, json);
  for (const issue of issues ?? [])
    report(`${file}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}. Run npx pulumi up, which writes it anew.`);
  return success ? output : undefined;
}

/** Without settings, which name the hooks, what is in the folder is checked, so that its faults are reported, too. */
function readSecrets(folder: string | undefined, hooks: string[] | undefined, report: Report): Secrets | undefined {
  if (!folder)
    return report(
      "CREDENTIALS_DIRECTORY is not set. Start the program by its unit, whose LoadCredentialEncrypted= lines set it.",
    );
  return new Map((hooks ?? readdirSync(folder)).map((name) => [name, readSecret(folder, name, report)]));
}

function readSecret(folder: string, name: string, report: Report): readonly string[] {
  const file = join(folder, name);
  const text = readText(file, `the unit's LoadCredentialEncrypted=${name} provides it`, report);
  const lines = text?.replace(/\n$/, "").split("\n") ?? [];
  for (const [i, line] of lines.entries()) {
    const where = `${file}, line ${i + 1}`;
    // A carriage return or a space from an editor would be part of the key, and each delivery would be a 401.
    if (line !== line.trim())
      report(`${where} starts or ends with white space. Run npx pushgate secret rotate ${name}, then npx pulumi up.`);
    if (line.trim().length < secretLength)
      report(
        `${where} has fewer than ${secretLength} characters. Run npx pushgate secret rotate ${name}, then npx pulumi up.`,
      );
  }
  return lines;
}
