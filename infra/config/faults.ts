/** Faults of the configuration, in one form: `<key> <what is wrong>. <What to do.>`; and the error that carries all. */
import leven from "leven";
import * as v from "valibot";
import { UserError } from "../user-error.ts";

/** `says` follows the key: "is 99999. Use a TCP port from 1 to 65535." */
export type Fault = { readonly key: string; readonly says: string };

export const faultsOf = (key: string, conditions: Readonly<Record<string, boolean>>): Fault[] =>
  Object.entries(conditions).flatMap(([says, isWrong]) => (isWrong ? [{ key, says }] : []));

export class SettingsError extends UserError {
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
  readonly value?: v.GenericSchema;
  readonly entries?: Readonly<Record<string, v.GenericSchema>>;
};

export const unwrapped = (schema: Schema): Schema =>
  schema.wrapped === undefined ? schema : unwrapped(schema.wrapped);

export function formOf(schema: Schema): string {
  const { form } = v.getMetadata(schema);
  if (typeof form === "string") return form;
  return schema.entries === undefined ? "text" : `an object with the keys ${Object.keys(schema.entries).join(", ")}`;
}

/** A value, quoted; without what comes before an "@", where a password may be. */
export function found(value: unknown): string {
  if (value === "" || (Array.isArray(value) && value.length === 0)) return "is empty";
  if (Array.isArray(value)) return "is a list";
  if (typeof value === "object" && value !== null) return "is an object";
  if (typeof value !== "string") return `is ${value}`;
  const shown = value.replace(/^.*:.*@/s, "…@");
  return `is ${JSON.stringify(shown.length > 80 ? `${shown.slice(0, 80)}…` : shown)}`;
}

export const partAt = (schema: Schema, steps: readonly unknown[]): Schema =>
  steps.reduce<Schema>((parent, step) => {
    const child = parent.item ?? parent.value ?? parent.entries?.[String(step)];
    return child === undefined ? parent : unwrapped(child);
  }, schema);

/** The known key that a misspelt one is nearest to: at most a third of its letters differ. */
const similar = (key: string, known: readonly string[]): string | undefined =>
  known
    .map((name) => ({ name, steps: leven(name.toLowerCase(), key.toLowerCase()) }))
    .filter(({ name, steps }) => steps <= name.length / 3)
    .sort((a, b) => a.steps - b.steps)[0]?.name;

function toFault(schema: Schema, issue: v.BaseIssue<unknown>, at: string, isSecret: boolean): Fault {
  const steps = (issue.path ?? []).map((step) => step.key);
  const path = steps.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
  const key = (at + path).replace(/^\./, "");
  if (issue.expected === "never") {
    if (at === "" && steps.length === 1 && /[.[]/.test(key))
      return {
        key,
        says: `is a part of another key, written without --path. Run: npx pulumi config rm 'pushgate:${key}', then set it with --path.`,
      };
    const meant = similar(String(steps.at(-1)), Object.keys(partAt(schema, steps).entries ?? {}));
    const advice = meant === undefined ? "Check its spelling, or remove it; see" : `Did you mean ${meant}? See`;
    return { key, says: `is not a key pushgate knows. ${advice} docs/configuration.md.` };
  }
  const unquoted = issue.input === undefined ? "is missing" : "has the wrong type";
  const wrong = issue.message || (isSecret || issue.input === undefined ? unquoted : found(issue.input));
  const isUnquoted = !isSecret && issue.expected === "string" && ["number", "boolean"].includes(typeof issue.input);
  const reading = isUnquoted ? `, which YAML reads as a ${typeof issue.input}: put it in quotes` : "";
  return { key, says: wrong.endsWith(".") ? wrong : `${wrong}${reading}. Use ${formOf(partAt(schema, steps))}.` };
}

/** `at` is the key of the value; `isSecret` keeps the value out of the faults. A message in the schema replaces "is <value>", and the form where it ends with a full stop. */
export function checkShape<T extends v.GenericSchema>(schema: T, value: unknown, at = "", isSecret = false) {
  const { success, output, issues = [] } = v.safeParse(schema, value, { abortPipeEarly: true, message: () => "" });
  return { ...(success && { output }), faults: issues.map((issue) => toFault(schema, issue, at, isSecret)) };
}
