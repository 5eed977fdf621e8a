/** Faults of the configuration, in one form: `<key> <what is wrong>. <What to do.>`; and the error that carries all. */
import * as pulumi from "@pulumi/pulumi";
import * as v from "valibot";

/** `says` follows the key: "is 99999. Use a TCP port from 1 to 65535." */
export type Fault = { readonly key: string; readonly says: string };

/** The faults of one key: each text with its condition. */
export const faultsOf = (key: string, conditions: Readonly<Record<string, boolean>>): Fault[] =>
  Object.entries(conditions).flatMap(([says, isWrong]) => (isWrong ? [{ key, says }] : []));

export class SettingsError extends pulumi.RunError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    const lines = faults.map(({ key, says }) => `  ${key.includes(":") ? key : `pushgate:${key}`} ${says}`);
    const count = `${faults.length} fault${faults.length === 1 ? "" : "s"}`;
    super(`${count} in the stack configuration. Nothing was changed.\n${lines.join("\n")}`);
    this.faults = faults;
  }
}

export type Schema = v.GenericSchema & {
  readonly wrapped?: v.GenericSchema;
  readonly item?: v.GenericSchema;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
};

/** A schema without its `optional`. */
export const unwrapped = (schema: Schema): Schema =>
  schema.wrapped === undefined ? schema : unwrapped(schema.wrapped);

/** The text that completes "Use …" for a schema. */
export function formOf(schema: Schema): string {
  const { form } = v.getMetadata(schema);
  if (typeof form === "string") return form;
  return schema.entries === undefined ? "text" : `an object with the keys ${Object.keys(schema.entries).join(", ")}`;
}

/** A value, quoted; without what comes before an "@", where a password may be. */
function found(value: unknown): string {
  if (value === "" || (Array.isArray(value) && value.length === 0)) return "is empty";
  if (Array.isArray(value)) return "is a list";
  if (typeof value === "object" && value !== null) return "is an object";
  if (typeof value !== "string") return `is ${value}`;
  const shown = value.replace(/^.*:.*@/, "…@");
  return `is ${JSON.stringify(shown.length > 80 ? `${shown.slice(0, 80)}…` : shown)}`;
}

/** "hosts[0].address": the path as a user writes it on a command line. */
const keyOf = (steps: readonly unknown[], at: string): string =>
  (at + steps.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("")).replace(/^\./, "");

function toFault(schema: Schema, issue: v.BaseIssue<unknown>, at: string, isSecret: boolean): Fault {
  const steps = (issue.path ?? []).map((step) => step.key);
  const key = keyOf(steps, at);
  if (issue.type === "strict_object" && issue.expected === "never")
    return { key, says: "is not a key pushgate knows. Check its spelling, or remove it; see docs/configuration.md." };
  const part = steps.reduce<Schema>((parent, step) => {
    const child = parent.item ?? parent.entries?.[String(step)];
    return child === undefined ? parent : unwrapped(child);
  }, schema);
  const unquoted = issue.input === undefined ? "is missing" : "has the wrong type";
  const wrong = issue.message || (isSecret || issue.input === undefined ? unquoted : found(issue.input));
  return { key, says: `${wrong}. Use ${formOf(part)}.` };
}

/** `at` is the key of the value; `isSecret` keeps the value out of the faults. A message in the schema replaces "is <value>". */
export function checkShape<T extends v.GenericSchema>(
  schema: T,
  value: unknown,
  at = "",
  isSecret = false,
): { readonly output?: v.InferOutput<T>; readonly faults: Fault[] } {
  const { success, output, issues = [] } = v.safeParse(schema, value, { abortPipeEarly: true, message: () => "" });
  return { ...(success && { output }), faults: issues.map((issue) => toFault(schema, issue, at, isSecret)) };
}
