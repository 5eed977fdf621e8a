/**
 * What a machine answered, parsed. The machine is untrusted input: the answer passes a schema before anything is read
 * from it, and what may reach a terminal loses its control characters here.
 */
import * as v from "valibot";

/** One declared path as it is on the machine; absent from `files` when nothing is there. */
export type SeenFile = {
  /** As stat names it: "regular file", "symbolic link", "directory", … */
  readonly type: string;
  /** As `stat -c %a` prints it, without leading zero. */
  readonly mode: string;
  readonly owner: string;
  /** Of a regular file that could be read. */
  readonly sha256?: string;
  /** Of a regular file up to 64 KiB. */
  readonly text?: string;
};

/** Standard output, trimmed, up to 2 KiB, and the exit status: 124 or 137 after five seconds. */
export type SeenFact = { readonly output: string; readonly status: number };

export type SeenLayer = {
  readonly name: string;
  /** First line of the stamp file, undefined when there is none. Not to be trusted before `reconcile` has looked. */
  readonly stamp?: string;
  /** The stamp file's other lines: what the last apply installed, see `record` in manifest.ts. */
  readonly applied: readonly string[];
  readonly files: Readonly<Record<string, SeenFile>>;
  /** Every path one of the layer's `owns` globs matches, declared ones included. */
  readonly owned: readonly string[];
  /** In the order asked. */
  readonly facts: readonly SeenFact[];
};

/** What preflight asks about; a missing answer is an empty output with its exit status. */
export type Machine = {
  readonly [name: string]: SeenFact | undefined;
};

export type Listener = { readonly port: number; readonly process: string };

export type HostReport = {
  readonly machine: Machine;
  readonly listeners: readonly Listener[];
  /** The port the connection that asked came to; undefined through sudo. */
  readonly sshPort?: number;
  readonly layers: Readonly<Record<string, SeenLayer>>;
};

const text = v.string();
const count = v.pipe(v.number(), v.integer());
const row = v.union([
  v.strictTuple([v.literal("stamp"), text, text]),
  v.strictTuple([v.literal("owned"), text, text]),
  v.strictTuple([v.literal("owned64"), text, text]),
  v.strictTuple([v.literal("file"), text, text, text, text]),
  v.strictTuple([v.literal("text"), text, text]),
  v.strictTuple([v.literal("sha256"), text, text]),
  v.strictTuple([v.picklist(["fact", "fact64"]), text, count, count, text]),
  v.strictTuple([v.picklist(["machine", "machine64"]), text, count, count, text]),
  v.strictTuple([v.literal("listens"), count, text]),
  v.strictTuple([v.literal("ssh"), text]),
  v.strictTuple([v.literal("end")]),
]);
const answer = v.strictObject({ pushgate: v.literal(1), rows: v.array(row) });

/** Text fit for a terminal: tabs and line ends stay, other control characters, C1 and bidirectional ones go. */
export const printable = (said: string): string =>
  said.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");

const decoded = (base64: string): string => Buffer.from(base64, "base64").toString("utf8");

/** Blanks as the scripts' shell knows them, so that both sides trim alike. */
export const trimmed = (said: string): string => said.replace(/^[ \t\n\v\f\r]+|[ \t\n\v\f\r]+$/g, "");

/** `names`: the layers asked about. Throws where the answer is cut, or not an answer of probe.sh. */
export function parseReport(stdout: string, names: readonly string[]): HostReport {
  let json: unknown;
  try {
    json = JSON.parse(stdout);
  } catch {
    const heard = printable(stdout).slice(0, 200);
    throw new Error(
      `the probe's answer is not whole, so nothing can be said about the machine; ${heard === "" ? "it said nothing" : `it begins: ${heard}`}. ` +
        "A login shell that prints (~/.bashrc, ~/.profile) must be silent for commands",
    );
  }
  const parsed = v.safeParse(answer, json);
  if (!parsed.success || parsed.output.rows.at(-1)?.[0] !== "end")
    throw new Error("the probe's answer has an unknown shape: something other than probe.sh answered on this machine");
  const { rows } = parsed.output;

  const files: Record<string, SeenFile> = Object.create(null);
  const machine: Record<string, SeenFact> = Object.create(null);
  const listeners: Listener[] = [];
  const layers: Record<string, { -readonly [K in keyof SeenLayer]: SeenLayer[K] } & { facts: SeenFact[] }> =
    Object.create(null);
  for (const name of names) layers[name] = { name, applied: [], files, owned: [], facts: [] };
  let sshPort: number | undefined;
  for (const entry of rows) {
    switch (entry[0]) {
      case "stamp": {
        const layer = layers[entry[1]];
        if (layer?.stamp === undefined) Object.assign(layer ?? {}, { stamp: entry[2] });
        else layer.applied = [...layer.applied, entry[2]];
        break;
      }
      case "owned":
      case "owned64": {
        const layer = layers[entry[1]];
        if (layer) layer.owned = [...layer.owned, entry[0] === "owned" ? entry[2] : decoded(entry[2])];
        break;
      }
      case "file":
        files[entry[1]] = { ...files[entry[1]], type: entry[2], mode: entry[3], owner: entry[4] };
        break;
      case "text":
      case "sha256": {
        const file = files[entry[1]];
        const value = entry[0] === "text" ? { text: decoded(entry[2]) } : { sha256: entry[2] };
        if (file) files[entry[1]] = { ...file, ...value };
        break;
      }
      case "fact":
      case "fact64": {
        const output = trimmed(entry[0] === "fact" ? entry[4] : decoded(entry[4]));
        const layer = layers[entry[1]];
        if (layer) layer.facts[entry[2]] = { output, status: entry[3] };
        break;
      }
      case "machine":
      case "machine64": {
        const output = printable(trimmed(entry[0] === "machine" ? entry[4] : decoded(entry[4])));
        machine[entry[1]] = { output, status: entry[3] };
        break;
      }
      case "listens":
        listeners.push({ port: entry[1], process: entry[2] });
        break;
      case "ssh":
        if (entry[1] !== "") sshPort = Number(entry[1]);
        break;
    }
  }
  return { machine, listeners, ...(sshPort === undefined ? {} : { sshPort }), layers };
}
