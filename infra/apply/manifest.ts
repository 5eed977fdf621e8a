/**
 * Makes the text that is sent from a layer: the constant script, the layer's values as calls inside functions, and the
 * one call that begins. A text that is cut before its last line changes nothing.
 * Values are in single quotes: the files' texts stay legible in Pulumi's diff of `stdin`, which base64 would hide.
 */
import { createHash } from "node:crypto";
import type { HostFact, HostFile, HostLayer } from "./layer.ts";
import { trimmed } from "./report.ts";
import { call, scriptBeside, variables } from "./shell.ts";
import { stateFolders } from "./state-folders.ts";

/** The part of a layer that a probe needs. It has no contents, so that a layer whose text is known later can be probed. */
export type Probed = Pick<HostLayer, "name" | "script" | "owns"> & {
  readonly files: readonly Pick<HostFile, "path">[];
  readonly facts: readonly Pick<HostFact, "name" | "read">[];
};

/** Bytes of a fact's output that a probe returns; a longer one could never be confirmed. */
const factCap = 2048;

const layerName = /^[a-z][a-z0-9-]{0,31}$/;
const pathShape = /^(\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*|\/\.[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*)+$/;
const globShape = /^\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*(\/[a-zA-Z0-9._@+:*?[\]!-]+)+$/;
const ownerShape = /^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$/;

/** Throws: a renderer's mistake must not reach a host. */
function check(layer: Probed, more: readonly (string | undefined)[] = []): void {
  const wrong = (what: string) => new Error(`layer ${layer.name}: ${what}`);
  if (!layerName.test(layer.name)) throw wrong("the name must be one lower-case word");
  for (const { path } of layer.files)
    if (!pathShape.test(path)) throw wrong(`${JSON.stringify(path)} is not an absolute path of plain characters`);
  for (const glob of layer.owns)
    if (!globShape.test(glob) || glob.split("/").includes(".."))
      throw wrong(`owns ${JSON.stringify(glob)}, which is not an absolute glob below a named folder`);
  if ([layer.script, ...layer.facts.map(({ read }) => read), ...more].some((text) => text?.includes("\0")))
    throw wrong("a shell cannot carry a NUL character");
}

function checkApply(layer: HostLayer, input: string): void {
  const wrong = (what: string) => new Error(`layer ${layer.name}: ${what}`);
  const { activate, reactivate, retire, files } = layer;
  check(layer, [input, activate, reactivate, retire, ...files.flatMap(({ text, check }) => [text, check])]);
  if (layer.present === false && files.length > 0) throw wrong("a layer that leaves declares no files");
  for (const { path, mode, owner } of files)
    if (!/^0[0-7]{3}$/.test(mode) || !ownerShape.test(owner))
      throw wrong(`${path} has mode ${mode} and owner ${owner}; write them as "0644" and "root:root"`);
  for (const { name, want } of layer.facts)
    if (Buffer.byteLength(want) > factCap)
      throw wrong(`the fact "${name}" is longer than ${factCap} bytes; let it print a hash`);
}

/** A shell function of calls; `:` because a function may not be empty. */
const shellFunction = (name: string, calls: readonly string[]): string =>
  [`${name}() {`, ":", ...calls, "}"].join("\n");

/**
 * Facts that one shell of a probe reads: a host with 200 sites has hundreds in a layer, and a text for `sh -c` may have
 * 128 KiB.
 */
const factsOfShell = 16;

const inParts = <T>(all: readonly T[], most: number): T[][] =>
  Array.from({ length: Math.ceil(all.length / most) }, (_, part) => all.slice(part * most, (part + 1) * most));

/** The whole text that probes a host for these layers. Feed it to `sh -s`. */
export function probeScript(layers: readonly Probed[], state: string = stateFolders.state): string {
  for (const layer of layers) check(layer);
  const looks = layers.map(({ name, files, owns }) =>
    call("layer", name, files.map(({ path }) => path).join(" "), owns.join(" ")),
  );
  const beside = (name: string) => scriptBeside(import.meta.url, name);
  const facts = layers.flatMap(({ name, script = "", facts }) => {
    const calls = facts.map(({ read }, index) => call("fact", "fact", name, String(index), read));
    // Only `fact` may print into the answer.
    return inParts(calls, factsOfShell).map((some) =>
      // The `:` is for a layer without a script: braces around nothing are a syntax error.
      call("facts_of", ["{ :", script, "} >/dev/null", ...some].join("\n")),
    );
  });
  return [
    variables({ fact_sh: beside("fact.sh") }),
    beside("probe.sh"),
    shellFunction("system_facts", [call("facts_of", beside("system.sh"))]),
    shellFunction("layers", looks),
    shellFunction("facts", facts),
    call("probe", state),
    "",
  ].join("\n");
}

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Mode as `stat -c %a` prints it. */
export const plainMode = (mode: string): string => mode.replace(/^0+(?=.)/, "");

/**
 * The lines of the installed list, which is kept below the stamp, one for each file and fact. They separate manual
 * changes from the program's.
 */
export const fileLine = ({ path, text, mode, owner }: HostFile): string =>
  `file ${sha256(text)} ${plainMode(mode)} ${owner} ${path}`;
export const factLine = (script: string | undefined, { read, want }: HostFact): string =>
  `fact ${sha256(`${script ?? ""}\0${read}\0${want}`).slice(0, 16)}`;

/** The text for root's `sh -s` that brings a layer to a host. `input`: what `activate` reads; it may be a secret. */
export function applyScript(layer: HostLayer, stamp: string, state: string = stateFolders.state, input = ""): string {
  checkApply(layer, input);
  const { name, script = "", files, facts, owns, activate, reactivate = ":", retire } = layer;
  const lines = [...files.map(fileLine), ...facts.map((fact) => factLine(script, fact))];
  const installed = lines.map((line) => `${line}\n`).join("");
  return [
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
    "",
  ].join("\n");
}

/** Paths in `owned` that are neither declared nor a folder on the way to a declared one. */
export function strays(files: readonly Pick<HostFile, "path">[], owned: readonly string[]): string[] {
  return [...new Set(owned)].filter(
    (path) => !files.some((file) => file.path === path || file.path.startsWith(`${path}/`)),
  );
}
