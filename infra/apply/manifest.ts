/** Makes the text that is sent from a layer. Its values are in single quotes: legible in Pulumi's diff of `stdin`. */
import { createHash } from "node:crypto";
import { type HostFact, type HostFile, type HostLayer, stateFolders } from "./layer.ts";
import { trimmed } from "./report.ts";
import { call, scriptBeside, variables } from "./shell.ts";

/** The part of a layer that a probe needs. It has no contents, so that a layer whose text is known later can be probed. */
export type Probed = Pick<HostLayer, "name" | "script" | "owns"> & {
  readonly files: readonly Pick<HostFile, "path">[];
  readonly facts: readonly Pick<HostFact, "name" | "read">[];
};

/** Bytes of a fact's output that a probe returns; a longer one could never be confirmed. */
const factCap = 2048;

const layerName = /^[a-z][a-z0-9-]{0,31}$/;
const pathShape = /^(\/\.?[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*)+$/;
const globShape = /^\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*(\/(?!\.\.(\/|$))[a-zA-Z0-9._@+:*?[\]!-]+)+$/;
const modeAndOwner = /^0[0-7]{3} [a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$/;

/** Returns the text that was made for these layers. Throws: a renderer's mistake must not reach a host. */
function checked(text: string, layers: readonly (Probed | HostLayer)[]): string {
  for (const { name, files, owns, facts } of layers) {
    const wrong = (what: string) => new Error(`layer ${name}: ${what}`);
    if (!layerName.test(name)) throw wrong("the name must be one lower-case word");
    for (const { path, mode = "0644", owner = "root:root" } of files as readonly (Pick<HostFile, "path"> &
      Partial<HostFile>)[]) {
      if (!pathShape.test(path)) throw wrong(`${JSON.stringify(path)} is not an absolute path of plain characters`);
      if (!modeAndOwner.test(`${mode} ${owner}`))
        throw wrong(`${path} has mode ${mode} and owner ${owner}; write them as "0644" and "root:root"`);
    }
    const glob = owns.find((one) => !globShape.test(one));
    if (glob !== undefined) throw wrong(`owns ${JSON.stringify(glob)}, which is no absolute glob below a named folder`);
    for (const { name, want = "" } of facts as readonly (Pick<HostFact, "name"> & Partial<HostFact>)[])
      if (Buffer.byteLength(want) > factCap)
        throw wrong(`the fact "${name}" is longer than ${factCap} bytes; let it print a hash`);
  }
  if (text.includes("\0")) throw new Error(`layer ${layers[0]?.name}: a shell cannot carry a NUL character`);
  return text;
}

/** A shell function of calls; `:` because a function may not be empty. */
const shellFunction = (name: string, calls: readonly string[]): string =>
  [`${name}() {`, ":", ...calls, "}"].join("\n");

/** Facts that one shell of a probe reads: 200 sites have hundreds in a layer, and a text for `sh -c` may have 128 KiB. */
const factsOfShell = 16;

export function probeScript(layers: readonly Probed[], state: string = stateFolders.state): string {
  const looks = layers.map(({ name, files, owns }) =>
    call("layer", name, files.map(({ path }) => path).join(" "), owns.join(" ")),
  );
  const beside = (name: string) => scriptBeside(import.meta.url, name);
  const facts = layers.flatMap(({ name, script = "", facts }) => {
    const calls = facts.map(({ read }, index) => call("fact", "fact", name, String(index), read));
    const parts = Map.groupBy(calls, (_, index) => Math.floor(index / factsOfShell)).values();
    // Only `fact` may print into the answer. The `:` is for a layer without a script: empty braces are a syntax error.
    return [...parts].map((some) => call("facts_of", ["{ :", script, "} >/dev/null", ...some].join("\n")));
  });
  const parts = [
    variables({ fact_sh: beside("fact.sh") }),
    beside("probe.sh"),
    shellFunction("system_facts", [call("facts_of", beside("system.sh"))]),
    shellFunction("layers", looks),
    shellFunction("facts", facts),
    call("probe", state),
  ];
  return checked(`${parts.join("\n")}\n`, layers);
}

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

export const plainMode = (mode: string): string => mode.replace(/^0+(?=.)/, "");

/** Lines of the installed list, which is kept below the stamp. They separate manual changes from the program's. */
export const fileLine = ({ path, text, mode, owner }: HostFile): string =>
  `file ${sha256(text)} ${plainMode(mode)} ${owner} ${path}`;
export const factLine = (script: string | undefined, { read, want }: HostFact): string =>
  `fact ${sha256(`${script ?? ""}\0${read}\0${want}`).slice(0, 16)}`;

/** The text for root's `sh -s` that applies a layer. `input`: what `activate` reads; it may be a secret. */
export function applyScript(layer: HostLayer, stamp: string, state: string = stateFolders.state, input = ""): string {
  const { name, script = "", files, facts, owns, activate, reactivate = ":", retire } = layer;
  const lines = [...files.map(fileLine), ...facts.map((fact) => factLine(script, fact))];
  const installed = lines.map((line) => `${line}\n`).join("");
  const parts = [
    scriptBeside(import.meta.url, "apply.sh"),
    shellFunction("manifest", [
      ...files.map(({ path, text, mode, owner, check = "" }) => call("file", path, mode, owner, check, text)),
      ...facts.map(({ name, read, want }) => call("fact", name, read, trimmed(want))),
    ]),
    // The shell's own printf: a program would have the text in its argv, and a here-document may become a file.
    shellFunction("input", [call("printf %s", input)]),
    `present=${layer.present === false ? 0 : 1}`,
    variables({ layer: name, stamp, state, owns: owns.join("\n"), installed }),
    variables({ script, activate, reactivate, retire }),
    "apply",
  ];
  return checked(`${parts.join("\n")}\n`, [layer]);
}
