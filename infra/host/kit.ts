/** What the renderers of the host layers share: files, facts, and the texts that lie beside each renderer. Pure. */
import type { HostFact, HostFile } from "../apply/layer.ts";
import { plain, textBeside, type Value, variables } from "../apply/shell.ts";
import { paths } from "./paths.ts";

export { textBeside } from "../apply/shell.ts";

/** A public file that root owns, 0644 unless `more` says otherwise. */
export const file = (
  path: HostFile["path"],
  text: string,
  more: Partial<Pick<HostFile, "mode" | "owner" | "check">> = {},
): HostFile => ({ path, text, mode: "0644", owner: "root:root", ...more });

/** A shell program that runs on the host: 0755, checked by the host's own shell. */
export const program = (path: HostFile["path"], text: string): HostFile =>
  file(path, text, { mode: "0755", check: 'sh -n "$1"' });

/** A unit of systemd's; `name` as systemctl takes it. */
export const unitFile = (name: string, text: string): HostFile => file(`${paths.units}/${name}`, text);

/** "pushgate-guard.timer is: enabled active" */
export const enabledAndActive = (unit: string): HostFact => ({
  name: `${unit} is`,
  read: `echo "$(systemctl is-enabled ${unit} 2>/dev/null) $(systemctl is-active ${unit})"`,
  want: "enabled active",
});

/** common.sh and layer.sh of the folder of `base`, after the layer's values as shell variables in single quotes. */
export const layerScript = (base: string, layer: string, values: Readonly<Record<string, Value>> = {}): string =>
  [
    variables({ layer, units: paths.units, stamps: paths.stamps, ...values }),
    textBeside(import.meta.url, "common.sh"),
    textBeside(base, "layer.sh"),
  ].join("\n");

/**
 * The template `name` of the folder of `base` with a value for each `@name@`. A line that holds nothing but a
 * placeholder goes when its value is empty. Throws where template and values do not agree: a renderer's mistake.
 */
export function template(base: string, name: string, values: Readonly<Record<string, Value>> = {}): string {
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
