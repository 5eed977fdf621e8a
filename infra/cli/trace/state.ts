/** What a host reports of its own layers, and what no layer declares. It is untrusted: texts lose control characters. */
import { dirname } from "node:path";
import { printableLines } from "../../../service/printable.ts";
import type { HostLayer } from "../../apply/layer.ts";
import { probeScript } from "../../apply/manifest.ts";
import { differences } from "../../apply/reconcile.ts";
import { parseProbe } from "../../apply/report.ts";
import { scriptBeside, variables } from "../../apply/shell.ts";
import { sshLine } from "../../apply/ssh.ts";
import { settled, sourceSets } from "../../config/derived.ts";
import { hostLayers } from "../../host/index.ts";
import { clientCaPath, nginxLogs, paths, units } from "../../host/paths.ts";
import { programsFact } from "../../host/programs/programs.ts";
import { credentialsFact, receiverPrograms } from "../../host/receiver/receiver.ts";
import type { HostState } from "../../trace/evidence.ts";
import { timeOf } from "../site/logs.ts";
import type { Declared, Host } from "../stack.ts";

/** The two certificates are not in the configuration: facts show whether nginx serves with what fits. */
const made = { certificate: "", clientCaPem: "", programs: { receiver: { sha256: "" } } } as const;
const onPath = ["origin-certificate", "receiver", "routing", "proxy", "firewall"] as const;

const settingsOf = (stack: Declared) => settled({ ...stack, zone: "", edge: { plan: "free", generation: 1 } });

/** The secrets, which trace does not read, decide whether a hook has a token for the commit's status; esbuild the program. */
const undecided = [credentialsFact, programsFact(receiverPrograms)];

/** The layers on a delivery's path, with what of them the stack's configuration decides. */
export function layersOf(stack: Declared, host: Host): HostLayer[] {
  const layers = hostLayers(settingsOf(stack), host, made);
  return onPath.map((name) => {
    const { files, owns, facts, ...layer } = layers[name];
    const known = (path: string) => path !== clientCaPath && name !== "origin-certificate";
    return {
      ...layer,
      facts: facts.filter((fact) => !undecided.includes(fact.name)),
      files: files.filter(({ path }) => known(path)),
      owns: owns.filter(known),
    };
  });
}

export function stateScript(stack: Declared, host: Host): string {
  const places = { spool: paths.spool, logs: dirname(nginxLogs.access), findings: `${paths.guard}/findings` };
  const script = `${variables({ port: host.originPort, ...places })}\n${scriptBeside(import.meta.url, "state.sh")}`;
  return `(\n${script}\n(\n${probeScript(layersOf(stack, host))}\n) | state probe\n)`;
}

export function parseState(answer: string, stack: Declared, host: Host): HostState {
  const encoded = [...answer.matchAll(/^state (\S+) (\S*)$/gm)];
  const texts = new Map(encoded.map(([, what, text = ""]) => [what, Buffer.from(text, "base64").toString("utf8")]));
  const linesOf = (what: string): string[] =>
    printableLines(texts.get(what) ?? "")
      .split("\n")
      .filter(Boolean);
  const rooms = ["spool", "logs"].flatMap((what) => {
    const [freeKiB, freeFiles, options] = linesOf(what)[0]?.split(" ") ?? [];
    if (options === undefined) return [];
    const readOnly = options.split(",").includes("ro");
    return [[what, { freeKiB: Number(freeKiB), freeFiles: Number(freeFiles), readOnly }] as const];
  });
  return {
    host: host.name,
    ssh: `${sshLine(host)}${host.sudo ? " sudo" : ""}`,
    differences: differencesOf(texts.get("probe") ?? "", layersOf(stack, host)),
    findings: linesOf("findings").map((line) => {
      const [seconds, code = "", what = "", fix = ""] = line.split("\t");
      return { time: timeOf(Number(seconds) * 1000), code, what, fix };
    }),
    drops: linesOf("drops"),
    sockets: sourceSets(settingsOf(stack)).map(({ name, hooks }) => ({
      unit: units.socket(name),
      hooks: hooks.map((hook) => hook.name),
    })),
    ...Object.fromEntries(rooms),
  };
}

function differencesOf(probe: string, layers: readonly HostLayer[]): HostState["differences"] {
  try {
    const names = layers.map(({ name }) => name);
    const report = parseProbe(probe, names);
    return layers.flatMap((layer) =>
      // The diff of a text is better read in a preview.
      differences(layer, report.layers[layer.name]!).map(({ what, path, about, before }) => ({
        ...{ layer: layer.name, what: what.slice(0, 300) },
        ...(path !== undefined && { path }),
        ...(about !== undefined && { about, found: before ?? "" }),
      })),
    );
  } catch (error) {
    return [{ layer: "probe", what: (error as Error).message }];
  }
}
