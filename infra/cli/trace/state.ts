/**
 * Reads what a host reports of its own layers: the probe of preview for those on a delivery's path, and what no layer
 * declares, such as the tables of others. The host is untrusted input: texts lose their control characters.
 */

import { dirname } from "node:path";
import type { HostLayer } from "../../apply/layer.ts";
import { probeScript } from "../../apply/manifest.ts";
import { differences } from "../../apply/reconcile.ts";
import { parseProbe, printable } from "../../apply/report.ts";
import { scriptBeside, variables, word } from "../../apply/shell.ts";
import { settled, sourceSets } from "../../config/derived.ts";
import { hostLayers } from "../../host/index.ts";
import { paths, units } from "../../host/paths.ts";
import { clientCaPath, logs } from "../../host/proxy/places.ts";
import { credentialsFact } from "../../host/receiver/receiver.ts";
import type { HostState } from "../../trace/host-state.ts";
import { objectIn, timeOfMicros } from "../site/logs.ts";
import type { Declared } from "../stack.ts";

type Host = Declared["hosts"][number];

/** The two certificates are not in the configuration: facts show whether nginx serves with what fits. */
const made = { certificate: "", clientCaPem: "", programs: { receiver: { sha256: "" } } } as const;
const onPath = ["origin-certificate", "receiver", "routing", "proxy", "firewall"] as const;

const settingsOf = (stack: Declared) => settled({ ...stack, zone: "", edge: { plan: "free", generation: 1 } });

/** The layers on a delivery's path, with what of them the stack's configuration decides. */
export function layersOf(stack: Declared, host: Host): HostLayer[] {
  const layers = hostLayers(settingsOf(stack), host, made);
  return onPath.map((name) => {
    const { files, owns, ...layer } = layers[name];
    const known = ({ path }: { path: string }) => path !== clientCaPath && name !== "origin-certificate";
    return {
      ...layer,
      // The secrets, which trace does not read, decide whether a hook has a token for the commit's status.
      facts: layer.facts.filter((fact) => fact.name !== credentialsFact),
      files: files.filter(known),
      owns: owns.filter((path) => known({ path })),
    };
  });
}

const socketsOf = (stack: Declared) =>
  sourceSets(settingsOf(stack)).map(({ name, cidrs, hooks }) => ({
    ...{ unit: units.socket(name), declared: cidrs, hooks: hooks.map((hook) => hook.name) },
  }));

export function stateScript(stack: Declared, host: Host): string {
  const sockets = socketsOf(stack).map(({ unit }) => unit);
  return [
    "(",
    variables({ port: host.originPort, spool: paths.spool, logs: dirname(logs.access), sockets }),
    scriptBeside(import.meta.url, "state.sh"),
    "(",
    probeScript(layersOf(stack, host)),
    ") | state probe",
    ")",
  ].join("\n");
}

/** A host's part of the answer, as it is where nothing could be looked at. */
const nothing = { differences: [], guard: "", guardLines: [], drops: [], counters: {}, kernelLines: [], sockets: [] };

const typed = ({ ssh, sudo }: Host): string => `ssh ${word(ssh)}${sudo ? " sudo" : ""}`;

export const unreachableState = (host: Host, unreachable: string): HostState => ({
  ...{ host: host.name, ssh: typed(host), unreachable: printable(unreachable) },
  ...nothing,
});

/** The first line of a difference; a diff of a file is better read in a preview. */
const headline = (text: string): string =>
  (text.split("\n")[0] ?? "").replace(/ \(- on the host, \+ declared\):$/, "").slice(0, 300);

/** `guard`: its verdict, which the report on the host's hooks holds. */
export function parseState(answer: string, stack: Declared, host: Host, guard: string): HostState {
  const texts = new Map(
    answer.split("\n").flatMap((line) => {
      const [mark, what = "", encoded = ""] = line.split(" ");
      return mark === "state" ? [[what, Buffer.from(encoded, "base64").toString("utf8")] as const] : [];
    }),
  );
  const linesOf = (what: string): string[] =>
    (texts.get(what) ?? "")
      .split("\n")
      .map(printable)
      .filter((line) => line !== "");
  const rooms = (["spool", "logs"] as const).flatMap((what) => {
    const [blocks, size, files, options] = linesOf(what)[0]?.split(" ") ?? [];
    if (options === undefined) return [];
    const freeKiB = Math.floor((Number(blocks) * Number(size)) / 1024);
    return [[what, { freeKiB, freeFiles: Number(files), readOnly: options.split(",").includes("ro") }] as const];
  });
  const counters = (texts.get("counters") ?? "").matchAll(/counter (\w+) \{\s*packets (\d+) /g);
  return {
    ...{ host: host.name, ssh: typed(host), guard },
    differences: differencesOf(texts.get("probe") ?? "", stack, host),
    guardLines: linesOf("guard").map((line) => {
      const { MESSAGE, __REALTIME_TIMESTAMP } = objectIn(line);
      return { time: timeOfMicros(__REALTIME_TIMESTAMP), text: printable(String(MESSAGE)) };
    }),
    drops: linesOf("drops"),
    counters: Object.fromEntries([...counters].map(([, name, packets]) => [name, Number(packets)])),
    kernelLines: linesOf("kernel"),
    sockets: socketsOf(stack).map((socket) => ({
      ...socket,
      installed: linesOf(socket.unit).flatMap((line) => line.split(" ")),
    })),
    ...Object.fromEntries(rooms),
  };
}

function differencesOf(probe: string, stack: Declared, host: Host): HostState["differences"] {
  const layers = layersOf(stack, host);
  try {
    const report = parseProbe(
      probe,
      layers.map(({ name }) => name),
    );
    return layers.flatMap((layer) =>
      differences(layer, report.layers[layer.name]!).map(({ of, text }) => ({
        ...{ layer: layer.name, text: headline(text), file: !of.startsWith("fact ") },
      })),
    );
  } catch (error) {
    return [{ layer: "probe", text: (error as Error).message, file: false }];
  }
}
