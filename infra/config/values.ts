/**
 * The kinds of values that schema.ts makes keys of: each with `form`, which completes "Use …" in a fault, and a description,
 * one sentence.
 */
import * as v from "valibot";
import { rangeFault } from "./cidr.ts";
import { found } from "./found.ts";

export const text = (pattern: RegExp, form: string, description = "") =>
  v.pipe(v.string(), v.regex(pattern), v.metadata({ form, description }));

export const checked = (isFit: (value: string) => boolean, form: string, description = "") =>
  v.pipe(v.string(), v.check(isFit), v.metadata({ form, description }));

export const oneOf = <const T extends readonly string[]>(
  values: T,
  description: string,
  form = `one of ${values.join(", ")}`,
) => v.pipe(v.picklist(values), v.metadata({ form, description }));

export const boolean = (description: string) => v.pipe(v.boolean(), v.metadata({ form: "true or false", description }));

export const list = <T extends v.GenericSchema>(
  item: T,
  form: string,
  description: string,
  usual: v.InferInput<T>[] = [],
) => v.optional(v.pipe(v.array(item), v.metadata({ form: `a list of ${form}`, description })), usual);

export const some = <T extends v.GenericSchema>(item: T, form: string, description: string) =>
  v.pipe(v.array(item), v.minLength(1), v.metadata({ form: `a list of at least one ${form}`, description }));

/** Not a list, which strictObject takes for an object without keys. */
export const object = <const T extends v.ObjectEntries>(entries: T) =>
  Object.assign(
    v.pipe(
      v.custom<Record<string, unknown>>((value) => v.is(v.object({}), value) && !Array.isArray(value)),
      v.strictObject(entries),
    ),
    { entries },
  );

/** Names and a value of one kind for each; checks between keys look at the names. */
export const named = <const T extends v.GenericSchema<string>>(value: T, form: string, description: string) => {
  const map = v.pipe(
    v.custom<Record<string, string>>((given) => v.is(v.object({}), given) && !Array.isArray(given)),
    v.record(v.string(), value),
    v.metadata({ form, description }),
  );
  return v.optional(Object.assign(map, { value }), {});
};

export const described = <T extends v.GenericSchema>(schema: T, description: string) =>
  v.pipe(schema, v.metadata({ description }));

/** Labels of letters, digits and inner hyphens, at least two of them; DNS allows 253 characters. */
export const dnsPattern = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/;
export const dnsName = (example: string, description: string) =>
  text(dnsPattern, `a DNS name in lower case, such as ${example}`, description);

/** 1 to 32 characters. An account's name has at most 31, so paths.ts shortens a long hook's name there. */
export const slug = (description: string) =>
  text(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, "1 to 32 letters from a to z, digits and inner hyphens", description);

/**
 * The characters of every path in the configuration. Paths reach shells of root, units, where `%` and `:` have a meaning,
 * and nginx: each use quotes them, and none of these characters has a meaning in any of them.
 */
const pathCharacters = "A-Za-z0-9._@+=,/-";
const pathForm = "letters from A to Z, digits and . _ @ + = , -";

/** What is wrong with the characters of a path. `more`: further ones that are allowed. */
function pathFault(path: string, more = ""): string | undefined {
  const [foreign] = path.replace(new RegExp(`[${more}${pathCharacters}]`, "g"), "");
  if (foreign !== undefined) return `contains ${JSON.stringify(foreign)}`;
  // A program could read it as an option.
  if (/(^|\/)-/.test(path)) return "has a name that begins with a hyphen";
  return undefined;
}

const path = (kind: RegExp, form: string, description: string, more?: string) =>
  v.pipe(
    v.string(),
    v.rawCheck(({ dataset, addIssue }) => {
      const fault = dataset.typed ? pathFault(dataset.value, more) : undefined;
      if (fault !== undefined) addIssue({ message: `${found(dataset.value)}, which ${fault}` });
    }),
    v.regex(kind),
    v.metadata({ form, description }),
  );

export const absolutePath = (example: string, description: string) =>
  path(
    /^(?!.*(\/\/|\/\.\.?(\/|$)))\/.*[^/]$/,
    `an absolute path without "..", of ${pathForm}, such as ${example}`,
    description,
  );

export const relativePath = (example: string, description = "", more = "") =>
  path(
    /^(?!.*(\/\/|(^|\/)\.\.?(\/|$)))[^/]/,
    `a relative path without "..", of ${pathForm}${more === "" ? "" : ` ${more}`}, such as ${example}`,
    description,
    more,
  );

export const range = v.pipe(
  v.string(),
  v.rawCheck(({ dataset, addIssue }) => {
    const fault = dataset.typed ? rangeFault(dataset.value) : undefined;
    if (fault !== undefined) addIssue({ message: fault });
  }),
  v.metadata({ form: "an address, or a range in CIDR notation that starts with its first address" }),
);

/** Go's syntax, as far as JavaScript knows it: flags before it and named groups are Go's own. */
function isRegularExpression(pattern: string): boolean {
  if (/^$|[\u0000-\u001f\u007f]/.test(pattern)) return false;
  try {
    new RegExp(pattern.replace(/\(\?[imsU-]+\)/g, "").replaceAll("(?P<", "(?<"));
    return true;
  } catch {
    return false;
  }
}

export const pattern = checked(isRegularExpression, "a regular expression, in Go's syntax");
export const extension = text(/^[a-z0-9]{1,10}$/, "an extension without its dot, such as css");
export const knownHost = text(
  /^[^\s#|@][^\s]* (ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,2}$/,
  "a line as ssh-keyscan prints it, with name, key type and key",
);
/** A folder or a file is meant whole: a slash at its end adds nothing. */
export const withoutSlash = <T extends v.GenericSchema<string>>(path: T) =>
  v.pipe(
    path,
    v.transform((text: string) => text.replace(/\/$/, "")),
  );
