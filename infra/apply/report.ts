/** Parses a host's answer to a probe: untrusted input, which passes a schema. */
import * as v from "valibot";
import { printable, printableLines } from "../../service/printable.ts";

/** One declared path as it is on the host; absent from `files` when nothing is there. */
export type SeenFile = {
  readonly type: string; // as stat names it: "regular file", "symbolic link", "directory", …
  readonly mode: string; // as `stat -c %a` prints it, without leading zero
  readonly owner: string;
  readonly sha256?: string | undefined; // of a regular file that could be read
  readonly text?: string | undefined; // of a regular file up to 64 KiB
};

/** Standard output, trimmed, up to 2 KiB, and the exit status. */
export type SeenFact = { readonly output: string; readonly status: number };

export type SeenLayer = {
  readonly name: string;
  readonly stamp?: string; // first line of the stamp file, if there is one: any text, which `reconcile` checks
  /** The stamp file's other lines: the installed list of the last apply, see `fileLine` in manifest.ts. */
  readonly applied: readonly string[];
  /** By path, the declared files of all probed layers, not of this one: every layer has the same object. */
  readonly files: Readonly<Record<string, SeenFile>>;
  readonly owned: readonly string[]; // every path one of the layer's `owns` globs matches, declared ones included
  /** In the order of the layer's facts. Undefined where their shell was ended first. */
  readonly facts: readonly (SeenFact | undefined)[];
};

export type Listener = {
  readonly port: number;
  readonly process: string; // "" without the right to see it
  readonly unit: string; // the one that made the socket, also where another inherited it; "" where it is stopped
};

export type HostReport = {
  readonly system: Readonly<Record<string, SeenFact | undefined>>;
  readonly listeners: readonly Listener[];
  readonly sshPort?: number; // of the probe's own SSH connection, also through sudo; absent where sshd gives none
  readonly layers: Readonly<Record<string, SeenLayer>>;
};

/** Bounds of what probe.sh prints: a host that answers otherwise must cost no time and no memory. */
const mostRows = 50_000; // 200 sites have 9,300
const text = v.pipe(v.string(), v.maxLength(4_096)); // a path, or 2 KiB of a fact
const contents = v.pipe(v.string(), v.maxLength(65_536)); // of a file
const count = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535)); // a port, a status, a fact's place
const cells = v.pipe(v.array(v.union([v.string(), v.number()])), v.maxLength(5));
/** "owned64" -> "owned" and so on: fact.sh and probe.sh encode what may hold more than plain characters. */
const decoded = (row: (string | number)[]): (string | number)[] => {
  const [, kind] = /^(.*[a-z])64$/.exec(String(row[0])) ?? [];
  if (kind === undefined) return row;
  return [kind, ...row.slice(1, -1), Buffer.from(String(row.at(-1)), "base64").toString("utf8")];
};
const row = v.pipe(
  cells,
  v.transform(decoded),
  v.union([
    v.strictTuple([v.literal("stamp"), text, text]),
    v.strictTuple([v.literal("owned"), text, text]),
    v.strictTuple([v.literal("file"), text, text, text, text]),
    v.strictTuple([v.literal("text"), text, contents]),
    v.strictTuple([v.literal("sha256"), text, text]),
    v.strictTuple([v.literal("fact"), text, count, count, text]),
    v.strictTuple([v.literal("system"), text, count, count, text]),
    v.strictTuple([v.literal("listens"), count, text, text]),
    v.strictTuple([v.literal("ssh"), text]),
    v.strictTuple([v.literal("end")]),
  ]),
);
type Row = v.InferOutput<typeof row>;
const answer = v.strictObject({
  pushgate: v.literal(1),
  rows: v.pipe(v.array(v.unknown()), v.maxLength(mostRows), v.array(row)),
});

export const trimmed = (text: string): string => text.replace(/^[ \t\n\v\f\r]+|[ \t\n\v\f\r]+$/g, "");

function readRows(stdout: string): Row[] {
  const json = v.safeParse(v.pipe(v.string(), v.parseJson()), stdout);
  if (!json.success) {
    const begin = printable(stdout.slice(0, 200));
    throw new Error(
      `the probe's answer is not whole, so the state of this host is unknown; it ${begin === "" ? "is empty" : `begins: ${begin}`}. If a login shell prints (~/.bashrc, ~/.profile), make it silent for commands.`,
    );
  }
  const parsed = v.safeParse(answer, json.output, { abortEarly: true });
  if (!parsed.success || parsed.output.rows.at(-1)?.[0] !== "end")
    throw new Error("the probe's answer has an unknown shape: a program other than probe.sh answered on this host");
  return parsed.output.rows;
}

/** `names`: the probed layers. Throws if the answer is cut, or does not come from probe.sh. */
export function parseProbe(stdout: string, names: readonly string[]): HostReport {
  const rows = readRows(stdout);
  const of = <K extends Row[0]>(kind: K) =>
    rows.filter((row): row is Extract<Row, readonly [K, ...unknown[]]> => row[0] === kind);

  const hashes = new Map(of("sha256").map(([, path, hash]) => [path, hash]));
  const texts = new Map(of("text").map(([, path, text]) => [path, text]));
  const files: Record<string, SeenFile> = Object.create(null);
  for (const [, path, type, mode, owner] of of("file")) {
    files[path] = { type, mode, owner, sha256: hashes.get(path), text: texts.get(path) };
  }

  const seenLayer = (name: string): SeenLayer => {
    const [stamp, ...applied] = of("stamp").flatMap(([, layer, line]) => (layer === name ? [line] : []));
    const owned = of("owned").flatMap(([, layer, path]) => (layer === name ? [path] : []));
    const facts: SeenFact[] = [];
    for (const [, layer, index, status, output] of of("fact"))
      if (layer === name) facts[index] = { output: trimmed(output), status };
    return { name, ...(stamp !== undefined && { stamp }), applied, files, owned, facts };
  };

  const system: Record<string, SeenFact> = Object.create(null);
  for (const [, name, , status, output] of of("system"))
    system[name] = { output: printableLines(trimmed(output)), status };
  const port = of("ssh")[0]?.[1] ?? "";
  return {
    system,
    listeners: of("listens").map(([, port, process, unit]) => ({ port, process, unit })),
    ...(port !== "" && { sshPort: Number(port) }),
    layers: Object.fromEntries(names.map((name) => [name, seenLayer(name)])),
  };
}
