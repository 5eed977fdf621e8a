/** Probes hosts, and declares the commands that apply layers; none has triggers or a delete script (decision 002). */
import { randomUUID } from "node:crypto";
import * as command from "@pulumi/command";
import * as pulumi from "@pulumi/pulumi";
import type { Host } from "../config/settings.ts";
import { type HostLayer, stateFolders } from "./layer.ts";
import { applyScript, type Probed, probeScript } from "./manifest.ts";
import { type Reconciled, reconcile } from "./reconcile.ts";
import { type HostReport, parseProbe, type SeenLayer } from "./report.ts";
import { quote, scriptBeside, word } from "./shell.ts";
import { sshTo, unreachable } from "./ssh.ts";

/** Seconds a host has to answer a probe, which takes about one: three turns of eight shells, which hang for 15 seconds. */
const probeTimeout = 60;

export const probeCommand = ({ sudo }: Pick<Host, "sudo">): string =>
  `exec ${sudo ? 'sudo -n env SSH_CONNECTION="$SSH_CONNECTION" ' : ""}timeout ${probeTimeout} sh -s`;

const asRoot = ({ sudo }: Pick<Host, "sudo">, script: string, ...values: readonly string[]): string =>
  `exec ${sudo ? "sudo -n " : ""}sh -c ${quote(scriptBeside(import.meta.url, script))} sh ${values.map(word).join(" ")}`;

/** Root's shell in a transient unit, fed by standard input, for at most `timeout` seconds. */
export const applyCommand = (host: Pick<Host, "sudo" | "name">, timeout: number): string =>
  asRoot(host, "run-in-unit.sh", host.name, String(timeout));

export const receiveCommand = (host: Pick<Host, "sudo">, sha256: string, stamp: string): string =>
  asRoot(host, "receive.sh", stateFolders.incoming, sha256, stamp);

/** Probes one host. Throws if it is unreachable or its answer unreadable: an audit that could not look is not clean. */
export async function probe(host: Host, layers: readonly Probed[]): Promise<HostReport> {
  const { stdout } = await command.local
    .run({
      ...{ interpreter: sshTo(host), command: probeCommand(host), stdin: probeScript(layers) },
      ...{ logging: "none", addPreviousOutputInEnv: false },
    })
    .catch((error: unknown) => {
      throw new pulumi.RunError(unreachable(host, error instanceof Error ? error.message : String(error)));
    });
  try {
    return parseProbe(
      stdout,
      layers.map(({ name }) => name),
    );
  } catch (error) {
    throw new pulumi.RunError(`${host.name}: ${(error as Error).message}`);
  }
}

/** Applies on one host exclude each other: each depends on the one before it. */
type Placing = Pick<pulumi.ResourceOptions, "parent" | "dependsOn">;

/** `secret`: nothing that the command prints is in clear text in state or output. */
const declare = (
  name: string,
  inputs: Pick<command.local.CommandArgs, "interpreter" | "create" | "stdin">,
  placing: Placing,
  secret = false,
): command.local.Command =>
  new command.local.Command(
    name,
    { ...inputs, addPreviousOutputInEnv: false, logging: secret ? "none" : "stderr" },
    { ...placing, retainOnDelete: true, ...(secret && { additionalSecretOutputs: ["stdout", "stderr"] }) },
  );

const layersOf = new Map<string, Map<string, boolean>>();

function note({ name }: Pick<Host, "name">, layer: string, isApplied: boolean): void {
  layersOf.set(name, (layersOf.get(name) ?? new Map<string, boolean>()).set(layer, isApplied));
}

/** Warns of each drift, and notes whether this run applies the layer, as the host differs from the declaration. */
function report(host: Host, layer: string, { drift, inSync }: Pick<Reconciled, "drift" | "inSync">): void {
  for (const text of drift) void pulumi.log.warn(`${host.name}: ${layer}: ${text}`);
  note(host, layer, !inSync);
}

export const appliedLayers = (): ReadonlyMap<string, readonly string[]> =>
  new Map([...layersOf].map(([host, layers]) => [host, [...layers].flatMap(([name, is]) => (is ? [name] : []))]));

/** The layer with its stamp; inside `apply`, as a text may be known only later. */
const judgeLayer = (host: Host, layer: pulumi.Input<HostLayer>, seen: SeenLayer) =>
  (pulumi.output(layer) as pulumi.Output<HostLayer>).apply((known) => {
    const verdict = reconcile(known, seen);
    report(host, known.name, verdict);
    return { layer: known, stamp: verdict.stamp };
  });

function declareApply(host: Host, name: string, verdict: ReturnType<typeof judgeLayer>, placing: Placing) {
  note(host, name, false);
  const create = verdict.apply(({ layer }) => applyCommand(host, layer.timeout));
  const stdin = verdict.apply(({ layer, stamp }) => applyScript(layer, stamp));
  return declare(`${host.name}-${name}`, { interpreter: sshTo(host), create, stdin }, placing);
}

/** Declares one layer on one host. The command's `stdout` is what the layer's `activate` prints there. */
export const apply = (
  host: Host,
  layer: pulumi.Input<HostLayer>,
  seen: SeenLayer,
  placing: Placing,
): command.local.Command => declareApply(host, seen.name, judgeLayer(host, layer, seen), placing);

/**
 * Declares a layer with a bundle. A command of its own sends the file by redirection, so that it is not in the state.
 * Both carry the layer's stamp, so that a bundle that was changed on the host is sent again.
 */
export function sendBundle(
  host: Host,
  { file, sha256 }: { readonly file: string; readonly sha256: string },
  layer: pulumi.Input<HostLayer>,
  seen: SeenLayer,
  placing: Placing,
): command.local.Command {
  const verdict = judgeLayer(host, layer, seen);
  const interpreter = ["sh", "-c", `exec ${sshTo(host).map(word).join(" ")} "$0" <${quote(file)}`];
  const create = verdict.apply(({ layer, stamp }) =>
    layer.present === false ? "true" : receiveCommand(host, sha256, stamp),
  );
  const sent = declare(`${host.name}-${seen.name}-file`, { interpreter, create }, placing);
  return declareApply(host, seen.name, verdict, { ...placing, dependsOn: [sent] });
}

/** Declares a layer whose `activate` reads secrets on its standard input. */
export function applySecrets(
  host: Host,
  { name, timeout }: Pick<HostLayer, "name" | "timeout">,
  judged: pulumi.Output<Reconciled & { readonly script: string }>,
  placing: Placing,
): command.local.Command {
  note(host, name, false);
  const stdin = judged.apply((verdict) => {
    report(host, name, verdict);
    return verdict.script;
  });
  const inputs = { interpreter: sshTo(host), create: applyCommand(host, timeout), stdin: pulumi.secret(stdin) };
  return declare(`${host.name}-${name}`, inputs, placing, true);
}

/** A host that is declared lost: nothing runs there, and no preview is clean as long as it is. */
export function lost({ name }: Pick<Host, "name">, placing: Placing = {}): command.local.Command {
  void pulumi.log.warn(`${name} is declared lost: it was not probed, so this preview is no clean audit`);
  return declare(`${name}-lost`, { interpreter: ["sh", "-c"], create: ":", stdin: randomUUID() }, placing);
}

/** Runs a script once on the operator's computer, again only when its text changes; what it prints is secret. */
export const runLocally = (name: string, script: pulumi.Input<string>, placing: Placing): pulumi.Output<string> =>
  pulumi.secret(declare(name, { interpreter: ["sh"], create: "-s", stdin: script }, placing, true).stdout);
