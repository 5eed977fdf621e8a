/**
 * Reads what a host reports of its own layers: the probe of preview for those on a delivery's path, and what no layer
 * declares, such as the tables of others. The host is untrusted input: texts lose their control characters.
 */
import { dirname } from "node:path";
import { printableLines } from "../../../service/printable.ts";
import type { HostLayer } from "../../apply/layer.ts";
import { probeScript } from "../../apply/manifest.ts";
import { differences } from "../../apply/reconcile.ts";
import { parseProbe } from "../../apply/report.ts";
import { scriptBeside, variables, word } from "../../apply/shell.ts";
import { settled, sourceSets } from "../../config/derived.ts";
import { hostLayers } from "../../host/index.ts";
import { clientCaPath, nginxLogs, paths, units } from "../../host/paths.ts";
import { credentialsFact } from "../../host/receiver/receiver.ts";
import type { HostState } from "../../trace/evidence.ts";
import { timeOfMicros } from "../site/logs.ts";
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
    const { files, owns, facts, ...layer } = layers[name];
    const known = (path: string) => path !== clientCaPath && name !== "origin-certificate";
    return {
      ...layer,
      // The secrets, which trace does not read, decide whether a hook has a token for the commit's status.
      facts: facts.filter((fact) => fact.name !== credentialsFact),
      files: files.filter(({ path }) => known(path)),
      owns: owns.filter(known),
    };
  });
}

const socketsOf = (stack: Declared) =>
  sourceSets(settingsOf(stack)).map(({ name, cidrs, hooks }) => ({
    ...{ unit: units.socket(name), declared: cidrs, hooks: hooks.map((hook) => hook.name) },
  }));

export function stateScript(stack: Declared, host: Host): string {
  const [sockets, findings] = [socketsOf(stack).map(({ unit }) => unit), `${paths.guard}/findings`];
  const values = { port: host.originPort, spool: paths.spool, logs: dirname(nginxLogs.access), findings, sockets };
  const script = [variables(values), scriptBeside(import.meta.url, "state.sh")];
  return ["(", ...script, "(", probeScript(layersOf(stack, host)), ") | state probe", ")"].join("\n");
}

export function parseState(answer: string, stack: Declared, host: Host): HostState {
  const texts = new Map(
    [...answer.matchAll(/^state (\S+) (\S*)$/gm)].map(([, what, encoded]) => [
      what!,
      Buffer.from(encoded!, "base64").toString("utf8"),
    ]),
  );
  const linesOf = (what: string): string[] =>
    printableLines(texts.get(what) ?? "")
      .split("\n")
      .filter((line) => line !== "");
  const rooms = ["spool", "logs"].flatMap((what) => {
    const [freeKiB, freeFiles, options] = linesOf(what)[0]?.split(" ") ?? [];
    if (options === undefined) return [];
    const readOnly = options.split(",").includes("ro");
    return [[what, { freeKiB: Number(freeKiB), freeFiles: Number(freeFiles), readOnly }] as const];
  });
  return {
    ...{ host: host.name, ssh: `ssh ${word(host.ssh)}${host.sudo ? " sudo" : ""}` },
    differences: differencesOf(texts.get("probe") ?? "", stack, host),
    findings: linesOf("findings").map((line) => {
      const [seconds, code = "", what = "", fix = ""] = line.split("\t");
      return { time: timeOfMicros(Number(seconds) * 1e6), code, what, fix };
    }),
    ...{ drops: linesOf("drops"), counters: linesOf("counters"), kernelLines: linesOf("kernel") },
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
    const names = layers.map(({ name }) => name);
    const report = parseProbe(probe, names);
    return layers.flatMap((layer) =>
      // The diff of a text is better read in a preview.
      differences(layer, report.layers[layer.name]!).map(({ of: _, diff: __, what, ...one }) => ({
        ...{ layer: layer.name, what: what.slice(0, 300), ...one },
      })),
    );
  } catch (error) {
    return [{ layer: "probe", what: (error as Error).message }];
  }
}
