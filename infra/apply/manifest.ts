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

/** A shell function of calls; `:` because a function may not be empty. */
const shellFunction = (name: string, calls: readonly string[]): string =>
  [`${name}() {`, ":", ...calls, "}"].join("\n");

/** Shell that reads facts beside others. Only `fact` may print into the answer. */
const subshell = (lines: readonly string[]): string => ["(", ...lines, ") </dev/null &"].join("\n");

export function probeScript(layers: readonly Probed[], state: string = stateFolders.state): string {
  const looks = layers.map(({ name, files, owns }) =>
    call("layer", name, files.map(({ path }) => path).join(" "), owns.join(" ")),
  );
  const beside = (name: string) => scriptBeside(import.meta.url, name);
  const facts = layers.map(({ name, script = "", facts }) => {
    const calls = facts.map(({ read }, index) => call("fact", "fact", name, String(index), read));
    // The `:` is for a layer without a script: empty braces are a syntax error.
    return subshell(["{ :", script, "before_facts", "} >/dev/null", ...calls]);
  });
  const shell = [beside("fact.sh"), subshell([beside("system.sh")]), "read_shared </dev/null", ...facts, "wait"];
  return [
    variables({ facts: shell.join("\n") }),
    beside("probe.sh"),
    shellFunction("layers", looks),
    call("probe", state),
    "",
  ].join("\n");
}

export const sha256 = (data: string | Uint8Array): string => createHash("sha256").update(data).digest("hex");

export const plainMode = (mode: string): string => mode.replace(/^0+(?=.)/, "");

/** Lines of the installed list, which is kept below the stamp. They separate manual changes from the program's. */
export const fileLine = ({ path, text, mode, owner }: HostFile): string =>
  `file ${sha256(text)} ${plainMode(mode)} ${owner} ${path}`;
export const factLine = (script: string | undefined, { read, want }: HostFact): string =>
  `fact ${sha256(`${script ?? ""}\0${read}\0${want}`).slice(0, 16)}`;

/** The begin of the text for root's `sh -s` that applies a layer: the same for each host and stack. */
export function commonScript({ functions = "", files }: Pick<HostLayer, "functions" | "files">): string {
  const texts = files.flatMap(({ fixed, text }, i) => (fixed ? [[`text_${i}`, text]] : []));
  return `${scriptBeside(import.meta.url, "apply.sh")}\n${variables({ functions, ...Object.fromEntries(texts) })}\n`;
}

/** The rest of it. `input`: what `activate` reads; it may be a secret. */
export function declaredScript(layer: HostLayer, stamp: string, state: string = stateFolders.state, input = "") {
  const { name, script = "", functions = "", files, facts, owns, activate, reactivate = ":", retire } = layer;
  const long = facts.find(({ want }) => Buffer.byteLength(want) > factCap);
  if (long !== undefined) throw new Error(`layer ${name}: the fact "${long.name}" is longer than ${factCap} bytes`);
  const lines = [...files.map(fileLine), ...facts.map((fact) => factLine(script, fact))];
  const installed = lines.map((line) => `${line}\n`).join("");
  const text = [
    shellFunction("manifest", [
      ...files.map(({ path, text, mode, owner, check = "", fixed }, i) =>
        fixed ? `${call("file", path, mode, owner, check)} "$text_${i}"` : call("file", path, mode, owner, check, text),
      ),
      ...facts.map(({ name, read, want }) => call("fact", name, read, trimmed(want))),
    ]),
    // The shell's own printf: a program would have the text in its argv, and a here-document may become a file.
    shellFunction("input", [call("printf %s", input)]),
    `present=${layer.present === false ? 0 : 1}`,
    variables({ layer: name, stamp, state, owns: owns.join("\n"), installed }),
    variables({ values: script.slice(0, script.length - functions.length), activate, reactivate, retire }),
    "apply",
    "",
  ].join("\n");
  if (text.includes("\0")) throw new Error(`layer ${name}: a shell cannot carry a NUL character`);
  return text;
}
