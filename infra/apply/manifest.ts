/**
 * Layer -> the text that is sent. The constant scripts come first, then the layer's values as calls inside a function,
 * then the one call that begins: a text cut anywhere before its last line is a syntax error or defines functions, and
 * changes nothing.
 *
 * Values stand in single quotes, where a shell reads nothing but the closing quote: so the file texts stay legible in
 * the engine's diff of `stdin`, which base64 would hide. NUL, which no shell can carry, is refused here.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { HostFact, HostFile, HostLayer } from "./layer.ts";
import { places } from "./places.ts";
import { trimmed } from "./report.ts";
import { quote } from "./shell.ts";

export { quote } from "./shell.ts";

/** What a probe needs to know of a layer; no contents, so a layer whose text is known only later can be asked about. */
export type Probed = {
  readonly name: string;
  readonly formerly?: string;
  readonly script?: string;
  readonly files: readonly Pick<HostFile, "path">[];
  readonly owns: readonly string[];
  readonly facts: readonly Pick<HostFact, "name" | "read">[];
};

const constant = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8");

/** The facts' output travels up to here: more than this could never be confirmed. */
export const factCap = 2048;

const layerName = /^[a-z][a-z0-9-]{0,31}$/;
const pathShape = /^(\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*|\/\.[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*)+$/;
const globShape = /^\/[a-zA-Z0-9_@+:-][a-zA-Z0-9._@+:-]*(\/[a-zA-Z0-9._@+:*?[\]!-]+)+$/;
const ownerShape = /^[a-z_][a-z0-9_-]*:[a-z_][a-z0-9_-]*$/;

/** A renderer's mistake, so it throws: nothing of it may reach a machine. */
function refuseUnsendable(layer: Probed): void {
  const wrong = (what: string) => new Error(`layer ${layer.name}: ${what}`);
  if (!layerName.test(layer.name)) throw wrong("the name must be one lower-case word");
  for (const { path } of layer.files)
    if (!pathShape.test(path)) throw wrong(`${JSON.stringify(path)} is not an absolute path of plain characters`);
  for (const glob of layer.owns)
    if (!globShape.test(glob) || glob.split("/").includes(".."))
      throw wrong(`owns ${JSON.stringify(glob)}, which is not an absolute glob below a named folder`);
  refuseNul(layer.name, layer.script, ...layer.facts.map(({ read }) => read));
}

function refuseNul(layer: string, ...texts: readonly (string | undefined)[]): void {
  if (texts.some((text) => text?.includes("\0"))) throw new Error(`layer ${layer}: no shell can carry a NUL character`);
}

/** The whole text that asks a machine about these layers. Feed it to `sh -s`. */
export function probeScript(layers: readonly Probed[], state: string = places.state): string {
  for (const layer of layers) refuseUnsendable(layer);
  const asked = layers.map(
    ({ name, formerly = "", files, owns }) =>
      `layer ${[name, files.map(({ path }) => path).join(" "), owns.join(" "), formerly].map(quote).join(" ")}`,
  );
  const facts = layers.flatMap(({ name, script = "", facts }) => [
    ...(facts.length > 0 ? [`script=${quote(script)}`] : []),
    ...facts.map(({ read }, index) => `fact ${quote(name)} ${index} ${quote(read)}`),
  ]);
  return [
    constant("./probe.sh"),
    "layers() {",
    ":",
    ...asked,
    "}",
    "facts() {",
    ":",
    ...facts,
    "}",
    `probe ${quote(state)}`,
    "",
  ].join("\n");
}

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Mode as `stat -c %a` prints it. */
export const plainMode = (mode: string): string => mode.replace(/^0+(?=.)/, "");

/** One line a file and a fact as installed, kept beside the stamp: it tells a hand's change from the program's. */
export const fileRecord = ({ path, text, mode, owner }: HostFile): string =>
  `file ${sha256(text)} ${plainMode(mode)} ${owner} ${path}`;
export const factRecord = (script: string | undefined, { read, want }: HostFact): string =>
  `fact ${sha256(`${script ?? ""}\0${read}\0${want}`).slice(0, 16)}`;

/**
 * The whole text that brings one layer to a machine. Feed it to `sh -s` as root. `input`: lines for `activate` to read on
 * standard input, which makes the text as secret as they are.
 */
export function applyScript(layer: HostLayer, stamp: string, state: string = places.state, input = ""): string {
  refuseUnsendable(layer);
  const {
    name,
    formerly = "",
    script = "",
    present = true,
    files,
    facts,
    owns,
    activate,
    restore = ":",
    retire,
  } = layer;
  refuseNul(name, input, activate, restore, retire, ...files.flatMap((file) => [file.text, file.check]));
  if (!present && files.length > 0) throw new Error(`layer ${name}: a layer that leaves declares no files`);
  for (const { path, mode, owner } of files)
    if (!/^0[0-7]{3}$/.test(mode) || !ownerShape.test(owner))
      throw new Error(
        `layer ${name}: ${path} has mode ${mode} and owner ${owner}; "0644" and "root:root" are the forms`,
      );
  for (const fact of facts)
    if (Buffer.byteLength(fact.want) > factCap)
      throw new Error(`layer ${name}: the fact "${fact.name}" is longer than ${factCap} bytes, let it print a hash`);
  const record = [...files.map(fileRecord), ...facts.map((fact) => factRecord(layer.script, fact))];
  return [
    constant("./apply.sh"),
    "manifest() {",
    ":",
    ...files.map(({ path, text, mode, owner, check }) =>
      ["file", ...[path, mode, owner, check ?? "", text].map(quote)].join(" "),
    ),
    ...facts.map(({ name, read, want }) => ["fact", ...[name, read, trimmed(want)].map(quote)].join(" ")),
    "}",
    "input() {",
    // The shell's own printf: a program would have it in its argv, and a here-document may become a file.
    `printf %s ${quote(input)}`,
    "}",
    `layer=${quote(name)}`,
    `formerly=${quote(formerly)}`,
    `stamp=${quote(stamp)}`,
    `present=${present ? 1 : 0}`,
    `state=${quote(state)}`,
    `owns=${quote(owns.join("\n"))}`,
    `record=${quote(record.map((line) => `${line}\n`).join(""))}`,
    `script=${quote(script)}`,
    `activate=${quote(activate)}`,
    `restore=${quote(restore)}`,
    `retire=${quote(retire)}`,
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
