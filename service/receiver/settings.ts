/** What the receiver starts from: its settings, the secrets of its hooks, and the sockets that systemd passes. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import * as v from "valibot";
import { gitHostNames } from "../git-hosts/index.ts";
import { receiverLimits } from "../limits.ts";
import { type Environment, environment, type Report, readCredential, readShape, withFaults } from "../settings.ts";
import { absolute, hookName, text } from "../shapes.ts";

const secretLength = 32; // characters, as the stack configuration requires

const hook = v.object({
  name: hookName,
  gitHost: v.picklist(gitHostNames),
  branch: text,
  /** Of a hook with a site: the builder's status.json, for the metrics. */
  statusFile: v.exactOptional(absolute),
  /** `hook`: of their builder, in whose spool pushes to these branches are. */
  previews: v.exactOptional(v.object({ hook: hookName, branches: v.pipe(v.array(text), v.readonly()) })),
});

/** FileDescriptorName= of the socket for metrics. Each other socket that systemd passes is for deliveries. */
export const metricsName = "metrics";

const shape = v.object({
  spool: absolute,
  hooks: v.pipe(v.array(hook), v.minLength(1), v.readonly()),
  limits: v.required(v.object(receiverLimits.entries)),
});

export type ReceiverSettings = Readonly<v.InferOutput<typeof shape>>;
export type ReceiverHook = ReceiverSettings["hooks"][number];

/** Of each hook, newest first, at least one. */
export type Secrets = ReadonlyMap<string, readonly string[]>;

/** Throws SettingsFault. Descriptors of listening sockets: `sockets` for deliveries, at least one, and `metrics`. */
export const readReceiver = (env: Environment = environment, pid: number = process.pid) =>
  withFaults((report) => {
    const settings: ReceiverSettings | undefined = readShape(shape, env, report);
    const hooks = settings?.hooks.map(({ name }) => name);
    const secrets = readSecrets(env.CREDENTIALS_DIRECTORY, hooks, report);
    // A child process inherits the variables, but systemd passed the descriptors only to the process that they name.
    const count = env.LISTEN_PID === String(pid) ? Number(env.LISTEN_FDS) : 0;
    const names = env.LISTEN_FDNAMES?.split(":") ?? [];
    // The first descriptor that systemd passes is 3 (sd_listen_fds(3)).
    const passed = Array.from({ length: count || 0 }, (_, i) => 3 + i);
    const metrics = passed.filter((_, i) => names[i] === metricsName);
    const sockets = passed.filter((fd) => !metrics.includes(fd));
    if (settings && sockets.length === 0)
      report("no socket was handed over (LISTEN_PID, LISTEN_FDS): start the .socket unit");
    return settings && secrets && { settings, secrets, sockets, metrics };
  });

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
  const lines = readCredential(file, name, report)?.replace(/\n$/, "").split("\n") ?? [];
  const fix = `Run npx pushgate secret rotate ${name}, then npx pulumi up.`;
  for (const [i, line] of lines.entries()) {
    const where = `${file}, line ${i + 1}`;
    // A carriage return or a space from an editor would be part of the key, and each delivery would be a 401.
    if (line !== line.trim()) report(`${where} starts or ends with white space. ${fix}`);
    if (line.trim().length < secretLength) report(`${where} has fewer than ${secretLength} characters. ${fix}`);
  }
  return lines;
}
