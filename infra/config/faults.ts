/** Faults of the configuration, in one form: `<key> <what is wrong>. <What to do.>`; and the error that carries all. */
import * as pulumi from "@pulumi/pulumi";
import leven from "leven";
import * as v from "valibot";
import { formOf, type Schema, unwrapped } from "./form.ts";
import { found } from "./found.ts";

/** `says` follows the key: "is 99999. Use a TCP port from 1 to 65535." */
export type Fault = { readonly key: string; readonly says: string };

/** The faults of one key: each text with its condition. */
export const faultsOf = (key: string, conditions: Readonly<Record<string, boolean>>): Fault[] =>
  Object.entries(conditions).flatMap(([says, isWrong]) => (isWrong ? [{ key, says }] : []));

/** Of more faults, those with one text become one line. */
export const mostUnfolded = 10;

/** Of many faults, those with one text become one line that names the first key. */
function folded(faults: readonly Fault[]): readonly Fault[] {
  if (faults.length <= mostUnfolded) return faults;
  return [...Map.groupBy(faults, ({ says }) => says).values()].map(([first, ...more]) => {
    const keys = more.length === 1 ? "1 other key" : `${more.length} other keys`;
    return more.length === 0 ? first! : { ...first!, says: `and ${keys}: ${first!.says}` };
  });
}

export class SettingsError extends pulumi.RunError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    const lines = folded(faults).map(({ key, says }) => `  ${key.includes(":") ? key : `pushgate:${key}`} ${says}`);
    const count = `${faults.length} fault${faults.length === 1 ? "" : "s"}`;
    super(`${count} in the stack configuration. Nothing was changed.\n${lines.join("\n")}`);
    this.faults = faults;
  }
}

/** "hosts[0].address": the path as a user writes it on a command line. */
const keyOf = (steps: readonly unknown[], at: string): string =>
  (at + steps.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("")).replace(/^\./, "");

/** The schema of the value at these steps, or of the nearest one around it that is known. */
const partAt = (schema: Schema, steps: readonly unknown[]): Schema =>
  steps.reduce<Schema>((parent, step) => {
    const child = parent.item ?? parent.value ?? parent.entries?.[String(step)];
    return child === undefined ? parent : unwrapped(child);
  }, schema);

/** The known key that a misspelt one is nearest to: at most a third of its letters differ. */
function similar(key: string, known: readonly string[]): string | undefined {
  const near = known.map((name) => ({ name, steps: leven(name.toLowerCase(), key.toLowerCase()) }));
  const [best] = near.sort((a, b) => a.steps - b.steps);
  return best && best.steps <= best.name.length / 3 ? best.name : undefined;
}

function toFault(schema: Schema, issue: v.BaseIssue<unknown>, at: string, isSecret: boolean): Fault {
  const steps = (issue.path ?? []).map((step) => step.key);
  const key = keyOf(steps, at);
  if (issue.expected === "never") {
    if (at === "" && steps.length === 1 && /[.[]/.test(key)) {
      const path = `pushgate:${key}`;
      return {
        key,
        says: `is a part of another key, written without --path. Run: npx pulumi config rm '${path}', then set it with --path.`,
      };
    }
    const meant = similar(String(steps.at(-1)), Object.keys(partAt(schema, steps).entries ?? {}));
    const advice = meant === undefined ? "Check its spelling, or remove it; see" : `Did you mean ${meant}? See`;
    return { key, says: `is not a key pushgate knows. ${advice} docs/configuration.md.` };
  }
  const part = partAt(schema, steps);
  const unquoted = issue.input === undefined ? "is missing" : "has the wrong type";
  const wrong = issue.message || (isSecret || issue.input === undefined ? unquoted : found(issue.input));
  const isUnquoted = !isSecret && issue.expected === "string" && ["number", "boolean"].includes(typeof issue.input);
  const reading = isUnquoted ? `, which YAML reads as a ${typeof issue.input}: put it in quotes` : "";
  return { key, says: `${wrong}${reading}. Use ${formOf(part)}.` };
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
