/** What the renderers of the host layers share: files, facts, layers, sandboxes. Pure. */
import { basename, dirname } from "node:path";
import type { HostFact, HostFile, HostLayer } from "../apply/layer.ts";
import type { Probed } from "../apply/manifest.ts";
import { call, plain, quote, textBeside, type Value, variables } from "../apply/shell.ts";
import { type SiteHook, sourceSets } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";
import { paths } from "./paths.ts";

export { textBeside } from "../apply/shell.ts";

export type Values = Readonly<Record<string, Value>>;

/** A public file that root owns, 0644 unless `more` says otherwise. */
export const file = (
  path: HostFile["path"],
  text: string,
  more: Partial<Pick<HostFile, "mode" | "check" | "fixed">> = {},
): HostFile => ({ path, text, mode: "0644", owner: "root:root", ...more });

export const jsonFile = (path: HostFile["path"], value: unknown): HostFile =>
  file(path, `${JSON.stringify(value, null, 2)}\n`);

export const program = (path: HostFile["path"], text: string, more: Pick<HostFile, "fixed"> = {}): HostFile =>
  file(path, text, { mode: "0755", check: 'sh -n "$1"', ...more });

export const unitFile = (base: string, name: string, values?: Values, from = name): HostFile =>
  file(`${paths.units}/${name}`, template(base, from, values));

export const instanceFile = (unit: string, lines: readonly string[]): HostFile[] =>
  lines.length === 0 ? [] : [file(`${paths.units}/${unit}.d/site.conf`, `${lines.join("\n")}\n`)];

/** A word in quotes where it needs them. Throws where no quoting expresses it; the configuration rejects that before. */
function word(value: string, where: string): string {
  if (/^[\w.@+=,/-]+$/.test(value)) return value;
  if (/[\p{Cc}$]/u.test(value)) throw new Error(`${JSON.stringify(value)} cannot be written into ${where}`);
  return `"${value.replace(/[\\"]/g, "\\$&")}"`;
}

/** One word of a unit's setting. systemd replaces what follows a percent sign. */
export const unitWord = (value: string): string => word(value, "a unit").replaceAll("%", "%%");

/** One word of an nginx directive. nginx has no way to write a dollar sign. */
export const nginxWord = (value: string): string => word(value, "nginx's configuration");

export const portsOf = (settings: Pick<Settings, "hooks">): string =>
  sourceSets(settings)
    .map(({ port }) => port)
    .join(", ");

export const enabledAndActive = (unit: string): HostFact => ({
  name: `${unit} is`,
  read: `echo "$(systemctl is-enabled ${unit} 2>/dev/null) $(systemctl is-active ${unit})"`,
  want: "enabled active",
  about: unit,
});

export type Folder = readonly [path: string, mode: string, owner: string];
/** Of folders or files. A symbolic link has the mode 777. */
export const modesFact = (name: string, folders: readonly Folder[]): HostFact => ({
  name,
  read: `modes ${folders.map(([path]) => path).join(" ")}`,
  want: folders.map((folder) => folder.join(" ")).join("\n"),
});

/** Accounts that sysusers.conf makes: it leaves one that exists as it is. */
export type Account = readonly [name: string, home: string, group: string];
export const accountsFact = (name: string, accounts: readonly Account[]): HostFact => ({
  name,
  read: call("accounts", ...accounts.map(([account]) => account)),
  want: accounts.map((account) => account.join(" ")).join("\n"),
});

/** Shell that prints the sum of what a service reads when it starts: these files, and `unit` with its drop-ins. */
export function readAtStart(files: readonly string[], unit?: string): string {
  const own = unit === undefined ? [] : [unit, `${unit}.d/*`, "pushgate-.service.d/*", "service.d/*"];
  const ofUnit = ["/etc", "/run"].flatMap((top) => own.map((name) => `${top}/systemd/system*/${name}`));
  return `cat ${[...ofUnit, ...files].join(" ")} 2>/dev/null | sha256sum`;
}
/** In a unit: root notes what `sum` prints, which a fact compares later (common.sh). A file's times show nothing. */
export const noting = (name: string, sum: string): string =>
  `+/bin/sh -c 'mkdir -p ${paths.starts} && ${sum} >${paths.starts}/${name}'`;

export const tmpfilesOf = (folders: readonly Folder[]): string =>
  folders.map(([path, mode, owner]) => `d ${path} ${mode.padStart(4, "0")} ${owner.replace(":", " ")} -\n`).join("");

export function layerScript(base: string, layer: string, values: Values = {}, shared: readonly string[] = []) {
  const { units, stamps, state, starts } = paths;
  const common = ["common.sh", ...shared].map((name) => textBeside(import.meta.url, name));
  const functions = [...common, textBeside(base, "layer.sh")].join("\n");
  return { script: `${variables({ layer, units, stamps, state, starts, ...values })}\n${functions}`, functions };
}

type Parts = Partial<HostLayer> & {
  readonly facts: HostLayer["facts"];
  readonly values?: Values;
  /** Scripts of this folder that come before layer.sh, after common.sh. */
  readonly shared?: readonly string[];
};

/** A layer with the functions of `layerScript`. It owns its files and its units' drop-ins unless `parts` says otherwise. */
export function layerOf(base: string, name: string, { values, shared, ...parts }: Parts): HostLayer {
  const owned = (parts.files ?? []).map(({ path }) => path);
  const unitNames = owned.filter((path) => dirname(path) === paths.units).map((path) => basename(path));
  return {
    name,
    ...layerScript(base, name, values, shared),
    files: [],
    owns: [...owned, ...dropIns(...unitNames)],
    activate: "activate",
    reactivate: "reactivate",
    retire: "retire",
    timeout: 60,
    ...parts,
    facts: parts.facts.map(short),
  };
}

/** The host compares an answer that may be longer than a fact returns, and prints the lines that differ. */
const short = (fact: HostFact): HostFact =>
  fact.want.length <= 1500
    ? fact
    : { ...fact, read: `{ ${fact.read}; } | unlike ${quote(fact.want)}`, want: "as declared" };

export const oneshotLayer = (base: string, name: string, parts: Parts): HostLayer =>
  layerOf(base, name, { ...parts, shared: ["oneshot.sh", ...(parts.shared ?? [])] });

export const question = (name: string, script: string, facts: Probed["facts"]): Probed => ({
  ...{ name, script, facts, files: [], owns: [] },
});

/** Where systemd looks for a unit before `paths.units`; `systemctl set-property` writes there. */
const before = ["/etc/systemd/system.control", "/run/systemd/system.control"];
/** Globs of what changes a unit without changing its file: its drop-ins, and another file of its name that comes first. */
export const dropIns = (...names: readonly string[]): string[] => [
  ...[
    paths.units,
    ...before,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
  ].flatMap((folder) => names.map((name) => `${folder}/${name}.d/*.conf`)),
  ...before.flatMap((folder) => names.map((name) => `${folder}/${name}`)),
];

/**
 * The template `name` of the folder of `base` with a value for each `@name@`. A line that holds nothing but a
 * placeholder goes when its value is empty. Throws where template and values do not agree: a renderer's mistake.
 */
export function template(base: string, name: string, values: Values = {}): string {
  const unused = new Set(Object.keys(values));
  const filled = (key: string): string => {
    const value = values[key];
    if (value === undefined) throw new Error(`${name}: @${key}@ has no value`);
    unused.delete(key);
    return plain(value);
  };
  // One pass: a value may hold what looks like a placeholder, such as a path below /srv/@web@.
  const text = textBeside(base, name).replace(/^@(\w+)@\n|@(\w+)@/gm, (_, line?: string, word = "") => {
    const value = filled(line ?? word);
    return line !== undefined && value !== "" ? `${value}\n` : value;
  });
  if (unused.size > 0) throw new Error(`${name} has no place for ${[...unused].join(", ")}`);
  return text;
}

const compiling = (reason: string): string => `${reason}\nMemoryDenyWriteExecute=no`;
const notCompiling = "MemoryDenyWriteExecute=yes";
/** Whether each program may map memory that is writable and executable, and why. */
const memory = {
  ...{ agent: notCompiling, helper: notCompiling, nginx: notCompiling },
  node: compiling('# Node compiles code while it runs: with "yes" it dies at start.'),
  generator: compiling("# WebAssembly and Node, which a site may have run in a build, compile code while they run."),
};

/**
 * The sandbox of what handles data of foreign origin, and of the builder's helpers. No prefix drop-in
 * (pushgate-.service.d): it would also hold for pushgate-apply.service, the transient unit of each apply, which could
 * then not write to /etc (measured on systemd 257).
 */
export const sandbox = (program: keyof typeof memory): string =>
  template(import.meta.url, "sandbox/program.conf", {
    compiling: memory[program],
    isolation: program === "helper" ? "PrivateNetwork=yes\nIPAddressDeny=any" : "PrivateUsers=yes",
  }).trimEnd();

/** Of the units that read what comes from a repository. `root`: an empty folder, in which systemd makes mount points. */
export const ownRoot = (root: string): string => template(import.meta.url, "sandbox/root.conf", { root }).trimEnd();

/** Of the units that a site's pushes may use up. `memoryMiB`: another than the site's. */
export const bounds = (limits: SiteHook["site"]["limits"], memoryMiB = limits.memoryMiB): string => {
  const { seconds, cpuPercent, tasks, releaseMiB } = limits;
  const values = { seconds, cpuPercent, memoryMiB, tasks, releaseMiB, dataMiB: 2 * memoryMiB };
  return template(import.meta.url, "sandbox/bounds.conf", values).trimEnd();
};

/** Of the oneshots that place tables, rules and routes as root. `families`, `kernel`: what one of them has in addition. */
export const oneshotSandbox = (families = "", kernel = ""): string =>
  template(import.meta.url, "sandbox/oneshot.conf", { families, kernel }).trimEnd();
