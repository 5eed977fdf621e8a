/**
 * The one file that runs anything anywhere: it asks machines, and declares the commands that bring layers to them.
 * All goes through the operator's own OpenSSH. No command has triggers, a delete script or protection: a changed input
 * runs it again in place, and a layer leaves a machine by an apply that says so.
 */
import { randomUUID } from "node:crypto";
import * as command from "@pulumi/command";
import * as pulumi from "@pulumi/pulumi";
import type { Host } from "../config/settings.ts";
import type { HostLayer } from "./layer.ts";
import { applyScript, type Probed, probeScript } from "./manifest.ts";
import { places } from "./places.ts";
import { reconcile } from "./reconcile.ts";
import { type HostReport, parseReport, type SeenLayer } from "./report.ts";
import { quote } from "./shell.ts";
import { sshTo, unreachable } from "./ssh.ts";

/** Seconds the machine has to answer a probe; one of thirty facts takes a fifth of a second. */
const probeTimeout = 60;

export const probeCommand = ({ sudo }: Pick<Host, "sudo">): string =>
  sudo
    ? `exec sudo -n env SSH_CONNECTION="$SSH_CONNECTION" timeout ${probeTimeout} sh -s`
    : `exec timeout ${probeTimeout} sh -s`;

const unit = "pushgate-apply";

/**
 * Root's shell in a transient unit, fed by standard input. The unit's name is the lock: one apply at a time on a
 * machine. A unit that has just ended takes a moment to be forgotten, hence the five seconds. Past `timeout` it gets
 * SIGTERM, and a minute to put the former files back.
 */
export function applyCommand({ sudo, name }: Pick<Host, "sudo" | "name">, timeout: number): string {
  const busy = `${name}: another pushgate up is running on this machine; wait for it, or see: systemctl status ${unit}`;
  const script = `n=0
while [ "$(systemctl show -p ActiveState --value ${unit}.service)" != inactive ]; do
  n=$((n + 1))
  [ $n -le 5 ] || { echo "pushgate: ${busy}" >&2; exit 75; }
  sleep 1
done
exec systemd-run --quiet --wait --pipe --collect --unit=${unit} --property=RuntimeMaxSec=${timeout} --property=TimeoutStopSec=60 /bin/sh -s`;
  return `exec ${sudo ? "sudo -n " : ""}sh -c ${quote(script)}`;
}

/** Takes a bundle from standard input to where its layer's `activate` finds it; whole and of this hash, or not at all. */
export function receiveCommand({ sudo }: Pick<Host, "sudo">, sha256: string, stamp: string): string {
  const target = `${places.incoming}/${sha256}.cjs`;
  const script = `set -e
# for ${stamp}
umask 077
mkdir -p ${places.incoming}
trap "rm -f ${target}.new" EXIT
cat >${target}.new
echo "${sha256}  ${target}.new" | sha256sum --check --status || { echo "pushgate: the bundle arrived damaged; pulumi up again" >&2; exit 1; }
mv -fT ${target}.new ${target}`;
  return `exec ${sudo ? "sudo -n " : ""}sh -c ${quote(script)}`;
}

/**
 * Asks one machine about these layers. Throws where it can't be reached or its answer can't be read: an audit that could
 * not look is not clean. Call it for all hosts and await them together.
 */
export async function probe(host: Host, layers: readonly Probed[]): Promise<HostReport> {
  const { stdout } = await command.local
    .run({
      interpreter: sshTo(host),
      command: probeCommand(host),
      stdin: probeScript(layers),
      logging: "none",
      addPreviousOutputInEnv: false,
    })
    .catch((error: unknown) => {
      throw new pulumi.RunError(unreachable(host, error instanceof Error ? error.message : String(error)));
    });
  try {
    return parseReport(
      stdout,
      layers.map(({ name }) => name),
    );
  } catch (error) {
    throw new pulumi.RunError(`${host.name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export type Placing = {
  readonly parent?: pulumi.Resource;
  /** Applies on one machine exclude each other: each depends on the one before it. */
  readonly dependsOn?: pulumi.Input<pulumi.Input<pulumi.Resource>[]>;
};

const kept = (placing: Placing): pulumi.CustomResourceOptions => ({ ...placing, retainOnDelete: true });

const quiet = { addPreviousOutputInEnv: false, logging: "stderr" } as const;

/** The verdict on a layer, its drift told; inside `apply`, as a text may be known only later. */
function judged(host: Host, layer: pulumi.Input<HostLayer>, seen: SeenLayer) {
  return (pulumi.output(layer) as pulumi.Output<HostLayer>).apply((known) => {
    const { stamp, drift } = reconcile(known, seen);
    for (const text of drift) void pulumi.log.warn(`${host.name}: ${known.name}: ${text}`);
    return { layer: known, stamp };
  });
}

/** Declares one layer on one machine. The command's `stdout` is what the layer's `activate` prints there. */
export function apply(
  host: Host,
  layer: pulumi.Input<HostLayer>,
  seen: SeenLayer,
  placing: Placing,
): command.local.Command {
  return declared(host, judged(host, layer, seen), seen.name, placing);
}

type Judged = ReturnType<typeof judged>;

function declared(host: Host, verdict: Judged, name: string, placing: Placing): command.local.Command {
  return new command.local.Command(
    `${host.name}-${name}`,
    {
      ...quiet,
      interpreter: sshTo(host),
      create: verdict.apply(({ layer: { timeout } }) => applyCommand(host, timeout)),
      stdin: verdict.apply(({ layer, stamp }) => applyScript(layer, stamp)),
    },
    kept(placing),
  );
}

export type Bundle = {
  /** The local file, relative to the program's folder (the working directory of program and plugin). */
  readonly file: string;
  readonly sha256: string;
};

/**
 * Declares a layer whose `activate` installs a bundle from `<places.incoming>/<sha256>.cjs`. The file is sent by a
 * command of its own that redirects it, so that it is not in the state; both carry the layer's stamp, so that a bundle
 * changed on the machine is sent again.
 */
export function sendBundle(
  host: Host,
  { file, sha256 }: Bundle,
  layer: pulumi.Input<HostLayer>,
  seen: SeenLayer,
  placing: Placing,
): command.local.Command {
  const verdict = judged(host, layer, seen);
  const ssh = sshTo(host).map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : quote(word)));
  const sent = new command.local.Command(
    `${host.name}-${seen.name}-file`,
    {
      ...quiet,
      interpreter: ["sh", "-c", `exec ${ssh.join(" ")} "$0" <${quote(file)}`],
      // A layer that leaves has nothing to receive.
      create: verdict.apply(({ layer: { present = true }, stamp }) =>
        present ? receiveCommand(host, sha256, stamp) : "true",
      ),
    },
    kept(placing),
  );
  return declared(host, verdict, seen.name, { ...placing, dependsOn: [sent] });
}

/**
 * Declares a layer whose `activate` reads secrets on its standard input: nothing of it, nor of what it says, is in clear
 * text in state or output.
 */
export function applySecrets(
  host: Host,
  { name, timeout }: Pick<HostLayer, "name" | "timeout">,
  judged: pulumi.Output<{ readonly script: string; readonly drift: readonly string[] }>,
  placing: Placing,
): command.local.Command {
  const stdin = judged.apply(({ script, drift }) => {
    for (const text of drift) void pulumi.log.warn(`${host.name}: ${name}: ${text}`);
    return script;
  });
  return new command.local.Command(
    `${host.name}-${name}`,
    {
      interpreter: sshTo(host),
      create: applyCommand(host, timeout),
      stdin: pulumi.secret(stdin),
      addPreviousOutputInEnv: false,
      logging: "none",
    },
    { ...kept(placing), additionalSecretOutputs: ["stdout", "stderr"] },
  );
}

/** A machine that is gone: nothing runs, and preview is never clean while it is said to be lost. */
export function lost({ name }: Pick<Host, "name">): command.local.Command {
  void pulumi.log.warn(`${name} is lost: nothing was looked at there, so this preview is no clean audit`);
  return new command.local.Command(
    `${name}-lost`,
    { ...quiet, interpreter: ["sh", "-c"], create: ":", stdin: randomUUID() },
    { retainOnDelete: true },
  );
}

/** Runs a script once on the operator's machine, again only when its text changes; what it prints is secret. */
export function localOpenssl(name: string, script: pulumi.Input<string>, placing: Placing): pulumi.Output<string> {
  const made = new command.local.Command(
    name,
    { interpreter: ["sh"], create: "-s", stdin: script, addPreviousOutputInEnv: false, logging: "none" },
    { ...kept(placing), additionalSecretOutputs: ["stdout", "stderr"] },
  );
  return pulumi.secret(made.stdout);
}
