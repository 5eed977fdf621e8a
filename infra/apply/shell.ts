/** Shell that runs on a host: the text of a file beside a module, and the values it runs with. */
import { readFileSync } from "node:fs";

/** In single quotes, where a shell reads nothing but the closing quote. */
export const quote = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`;

export const word = (value: string): string => (/^[\w@%+=:,./-]+$/.test(value) ? value : quote(value));

export const call = (name: string, ...values: readonly string[]): string => [name, ...values.map(quote)].join(" ");

/** A value for a script or a template; a list becomes words separated by blanks. */
export type Value = string | number | readonly (string | number)[];
export const plain = (value: Value): string => (typeof value === "object" ? value.join(" ") : String(value));

export const variables = (values: Readonly<Record<string, Value>>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}=${quote(plain(value))}`)
    .join("\n");

const texts = new Map<string, string>();

/** Read once: each host has the same, and the program renders a host's layers several times. */
export function textBeside(base: string, name: string): string {
  const { href } = new URL(name, base);
  const text = texts.get(href) ?? readFileSync(new URL(href), "utf8");
  texts.set(href, text);
  return text;
}
/** Without its comment lines: a changed comment is no change of what runs on a host. */
export const scriptBeside = (base: string, name: string): string => textBeside(base, name).replace(/^\s*#.*\n/gm, "");
