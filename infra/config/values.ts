/** The kinds of values that schema.ts makes keys of; `form` completes "Use …" in a fault. */
import * as v from "valibot";
import { rangeFault } from "./cidr.ts";

export const text = (pattern: RegExp, form: string, description?: string) =>
  v.pipe(v.string(), v.regex(pattern), v.metadata({ form, description }));

export const checked = (isFit: (value: string) => boolean, form: string, description?: string) =>
  v.pipe(v.string(), v.check(isFit), v.metadata({ form, description }));

export const oneOf = <const T extends readonly string[]>(
  values: T,
  description: string,
  form = `one of ${values.join(", ")}`,
) => v.pipe(v.picklist(values), v.metadata({ form, description }));

export const boolean = (description: string) => v.pipe(v.boolean(), v.metadata({ form: "true or false", description }));
export const flag = (description: string, usual = false) => v.optional(boolean(description), usual);

export const list = <T extends v.GenericSchema>(
  item: T,
  form: string,
  description: string,
  usual: v.InferInput<T>[] = [],
) => v.optional(v.pipe(v.array(item), v.metadata({ form: `a list of ${form}`, description })), usual);

export const some = <T extends v.GenericSchema>(item: T, form: string, description: string) =>
  v.pipe(v.array(item), v.minLength(1), v.metadata({ form: `a list of at least one ${form}`, description }));

/** Not a list, which valibot takes for an object without keys. */
const noList = <T>() => v.custom<Record<string, T>>((value) => v.is(v.object({}), value) && !Array.isArray(value));

const strictObject = <const T extends v.ObjectEntries>(entries: T) =>
  // Names each key that it does not know. valibot's strictObject, whose type this has, names the first alone.
  v.objectWithRest(entries, v.never()) as unknown as v.StrictObjectSchema<T, undefined>;

export const object = <const T extends v.ObjectEntries>(entries: T) =>
  Object.assign(v.pipe(noList<unknown>(), strictObject(entries)), { entries });

export const named = <const T extends v.GenericSchema<string>>(value: T, form: string, description: string) => {
  const map = v.pipe(noList<string>(), v.record(v.string(), value), v.metadata({ form, description }));
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

/** A name in a path, which is no option. No character has a meaning for a shell, a unit or nginx. */
const segment = (more = "") => `(?!-|\\.\\.?(/|$))[${more}A-Za-z0-9._@+=,-]+`;
const characters = (more = "") =>
  `letters from A to Z, digits and ${[..."._@+=,", ...more].join(" ")} - (not first in a name)`;

export const absolutePath = (example: string, description: string) =>
  text(
    new RegExp(`^(/${segment()})+$`),
    `an absolute path without "..", of ${characters()}, such as ${example}`,
    description,
  );

export const relativePath = (example: string, description = "", more = "") =>
  text(
    new RegExp(`^${segment(more)}(/${segment(more)})*/?$`),
    `a relative path without "..", of ${characters(more)}, such as ${example}`,
    description,
  );

/** `faultOf`: what is wrong with a text; where it says what to use instead, it ends with a full stop. */
export const judged = (faultOf: (text: string) => string | undefined, form: string, description?: string) =>
  v.pipe(
    v.string(),
    v.rawCheck(({ dataset, addIssue }) => {
      const fault = dataset.typed ? faultOf(dataset.value) : undefined;
      if (fault !== undefined) addIssue({ message: fault });
    }),
    v.metadata({ form, description }),
  );

export const range = judged(rangeFault, "an address, or a range in CIDR notation that starts with its first address");

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
