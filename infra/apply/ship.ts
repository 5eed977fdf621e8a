/** Probes hosts, and declares the commands that apply layers; none has triggers or a delete script (decision 002). */
import { randomUUID } from "node:crypto";
import * as command from "@pulumi/command";
import * as pulumi from "@pulumi/pulumi";
import type { Host } from "../config/settings.ts";
import { commandOf, driftMessage } from "../contract.ts";
import { UserError } from "../user-error.ts";
import { type Sent, sentFile } from "./dist.ts";
import { type HostLayer, stateFolders } from "./layer.ts";
import { commonScript, declaredScript, type Probed, probeScript } from "./manifest.ts";
import { type Reconciled, reconcile } from "./reconcile.ts";
import { type HostReport, parseProbe, type SeenLayer } from "./report.ts";
import { HostDown, rootOf, runOnHost } from "./run-on-host.ts";
import { quote, scriptBeside, word } from "./shell.ts";
import { destination } from "./ssh.ts";

/** Seconds a host has to answer a probe, which takes about one, or 30 where a fact does not end. */
const probeTimeout = 60;

/** Root's shell in a transient unit, fed by standard input after the bundles, for at most `timeout` seconds. */
export function applyCommand(host: Pick<Host, "sudo" | "name">, timeout: number, bundles: readonly Sent[] = []) {
  const scripts = [...(bundles.length > 0 ? ["receive.sh"] : []), "run-in-unit.sh"];
  const text = scripts.map((script) => scriptBeside(import.meta.url, script)).join("");
  const sent = bundles.map(({ sha256, bytes }) => `${sha256}:${bytes}`).join(" ");
  const values = [host.name, timeout, ...(sent === "" ? [] : [stateFolders.incoming, sent])];
  return `exec ${rootOf(host)}sh -c ${quote(text)} sh ${values.map(String).map(word).join(" ")}`;
}

/** Probes one host. Throws HostDown, or RunError if the host or its answer has a fault. */
export async function probe(host: Host, layers: readonly Probed[]): Promise<HostReport> {
  try {
    const names = layers.map(({ name }) => name);
    return parseProbe(await runOnHost(host, probeScript(layers), probeTimeout), names);
  } catch (error) {
    if (error instanceof HostDown) throw error;
    if (error instanceof UserError) throw new pulumi.RunError(error.message);
    throw new pulumi.RunError(`${host.name}: ${(error as Error).message}`);
  }
}

/**
 * The words before an apply's command: the operator's ssh, which gets bundles and the layer's scripts before `stdin`, with a
 * bound on what a host may print.
 */
function sending(
  host: Pick<Host, "ssh">,
  layer: Pick<HostLayer, "name" | "functions" | "files">,
  bundles: readonly Sent[] = [],
): string[] {
  const sent = [...bundles, sentFile(layer.name, "sh", commonScript(layer))].map(({ file }) => word(file)).join(" ");
  const send = `cat -- ${sent} - | sh apply/ssh.sh ${destination(host).map(word).join(" ")} "$0"`;
  return ["sh", "apply/bounded.sh", "sh", "-c", send];
}

/** Applies on one host exclude each other: each depends on the one before it. */
type Placing = Pick<pulumi.ResourceOptions, "parent" | "dependsOn">;

/** `secret`: nothing that the command prints is in clear text in state or output. */
const declare = (
  name: string,
  inputs: Pick<command.local.CommandArgs, "interpreter" | "create" | "stdin">,
  placing: Placing & Pick<pulumi.CustomResourceOptions, "ignoreChanges">,
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
  for (const { text, ...item } of drift) {
    void pulumi.log.warn(`${host.name}: ${layer}: ${text}`);
    void pulumi.log.debug(driftMessage({ host: host.name, layer, ...item }));
  }
  note(host, layer, !inSync);
}

export const appliedLayers = (): ReadonlyMap<string, readonly string[]> =>
  new Map([...layersOf].map(([host, layers]) => [host, [...layers].flatMap(([name, is]) => (is ? [name] : []))]));

/**
 * Declares one layer on one host. The command's `stdout` is what the layer's `activate` prints there. What is
 * the same for each host and stack is sent from files, so that none of it is in the state.
 */
export function apply(
  host: Host,
  layer: pulumi.Input<HostLayer>,
  seen: SeenLayer,
  placing: Placing,
  bundles: readonly Sent[] = [],
): command.local.Command {
  const { name } = seen;
  note(host, name, false);
  // Inside `apply`, as a text may be known only later.
  const judged = (pulumi.output(layer) as pulumi.Output<HostLayer>).apply((known) => {
    const verdict = reconcile(known, seen);
    report(host, name, verdict);
    return { known, stamp: verdict.stamp };
  });
  const interpreter = judged.apply(({ known }) => sending(host, known, bundles));
  const create = judged.apply(({ known }) => applyCommand(host, known.timeout, bundles));
  const stdin = judged.apply(({ known, stamp }) => declaredScript(known, stamp));
  return declare(commandOf(host, name), { interpreter, create, stdin }, placing);
}

/** Declares a layer whose `activate` reads secrets on its standard input. */
export function applySecrets(
  host: Host,
  layer: Pick<HostLayer, "name" | "functions" | "files" | "timeout">,
  judged: pulumi.Output<Reconciled & { readonly script: string }>,
  placing: Placing,
): command.local.Command {
  const { name, timeout } = layer;
  note(host, name, false);
  const stdin = judged.apply((verdict) => {
    report(host, name, verdict);
    return verdict.script;
  });
  const interpreter = sending(host, layer);
  const create = applyCommand(host, timeout);
  return declare(commandOf(host, name), { interpreter, create, stdin: pulumi.secret(stdin) }, placing, true);
}

/** A command that stays as the state has it: the engine takes all of its inputs from there. */
export const kept = (name: string, placing: Placing, secret: boolean): command.local.Command =>
  declare(name, {}, { ...placing, ignoreChanges: ["*"] }, secret);

/** A host that is declared lost: nothing runs there, and no preview is clean as long as it is. */
export function lost({ name }: Pick<Host, "name">, placing: Placing = {}): command.local.Command {
  void pulumi.log.warn(`${name} is declared lost: it was not probed, so this preview is no clean audit`);
  return declare(`${name}-lost`, { interpreter: ["sh", "-c"], create: ":", stdin: randomUUID() }, placing);
}

/** Runs a script once on the operator's computer, again only when its text changes; what it prints is secret. */
export const runLocally = (name: string, script: pulumi.Input<string>, placing: Placing): pulumi.Output<string> =>
  pulumi.secret(declare(name, { interpreter: ["sh"], create: "-s", stdin: script }, placing, true).stdout);
