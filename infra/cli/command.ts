/** What the commands share: options, examples, the hosts that one works on, and the question before several change. */
import { Command, InvalidArgumentError } from "commander";
import { orUserError, UserError } from "../user-error.ts";
import { type Declared, type Host, hasTerminal, prompted } from "./stack.ts";

export const exitCodes = `
Exit status:
  0  done; nothing is wrong
  1  it failed, \`status\` found a fault, or \`trace\` names the layer that rejected
  2  the command line is wrong
  3  \`trace\` does not know the layer
  7  \`audit\` found drift
`;

const options = {
  host: ["--host <name>", "this host only"],
  json: ["--json", "print JSON, for a program"],
  yes: ["-y, --yes", "go on without a prompt"],
} as const;

type About = { readonly takes?: readonly (keyof typeof options)[]; readonly examples?: readonly (readonly string[])[] };

/** `examples`: lines that can be pasted, without "npx pushgate". */
export function command({ takes = [], examples = [] }: About): Command {
  const made = new Command().option("--stack <name>", "this stack, not the selected one");
  for (const [flags, text] of takes.map((option) => options[option])) made.option(flags, text);
  const width = Math.max(...examples.map(([line = ""]) => line.length)) + 2;
  const lines = examples.map(([line = "", text = ""]) => `  npx pushgate ${line.padEnd(width)}${text}`.trimEnd());
  return made.addHelpText("after", `\nExamples:\n${lines.join("\n")}`);
}

export function named(usage: string, description: string, made: Command): Command {
  const [name = "", ...words] = usage.split(" ");
  for (const word of made.registeredArguments.length > 0 ? [] : words) made.argument(word);
  return made.name(name).description(description);
}

/** A parser of an option's value; `fix`: what to type in place of one that does not fit. */
export const valued =
  <T>(shape: RegExp, fix: string, read: (text: string) => T) =>
  (text: string): T => {
    if (!shape.test(text)) throw new InvalidArgumentError(fix);
    return read(text);
  };

export type Options = { stack?: string; host?: string; json?: boolean; yes?: boolean };

export const ofStack = ({ stack }: Options): string[] => (stack === undefined ? [] : ["--stack", stack]);

/** Those of this name, or all; throws a UserError with the names that exist where there is none. `what`: "a hook". */
function chosen<T extends { readonly name: string }>(all: readonly T[], name: string | undefined, what: string): T[] {
  const found = all.filter((one) => name === undefined || one.name === name);
  if (found.length > 0) return found;
  const names = all.map((one) => one.name).join(", ");
  throw new UserError(`${JSON.stringify(name)} is no ${what}. ${names && `Use one of: ${names}.`}`.trim());
}

export function targets(hosts: readonly Host[], { host }: Options): Host[] {
  const present = hosts.filter(({ state }) => state === "present");
  if (present.length === 0)
    throw new UserError("no host of this stack is present. Set `state: present` for one, and run npx pulumi up.");
  return chosen(present, host, "host that is present");
}

export function siteNamed(hooks: Declared["hooks"], name: string) {
  const sites = hooks.flatMap(({ name, site }) => (site === undefined ? [] : [{ name, site }]));
  return chosen(sites, name, "hook with a site")[0]!;
}

export const hooksNamed = (hooks: Declared["hooks"], name: string | undefined): Declared["hooks"] =>
  chosen(hooks, name, "hook of this stack");

/** Prompts on the terminal. Without one, or where the answer is not yes, throws a UserError. */
export async function confirm(question: string, { yes }: Options): Promise<void> {
  if (yes) return;
  if (!hasTerminal())
    throw new UserError(`${question} Nothing was changed, as there is no terminal for an answer. Add --yes.`);
  const { default: confirmed } = await import("@inquirer/confirm");
  const answer = await prompted((context) => confirmed({ message: question, default: false }, context));
  if (!answer) throw new UserError("nothing was changed.");
}

export async function confirmHosts(what: string, hosts: readonly Host[], options: Options): Promise<void> {
  if (hosts.length < 2) return;
  await confirm(`This ${what} on ${hosts.map(({ name }) => name).join(" and ")}.`, options);
}

/** Waits for all: what they resolve to, and the messages of their UserErrors. */
export async function ended<T>(promises: readonly Promise<T>[]): Promise<{ values: T[]; faults: string[] }> {
  const settled = await Promise.all(promises.map(orUserError));
  const faults = settled.flatMap((one) => (one instanceof UserError ? [one.message] : []));
  return { values: settled.filter((one) => !(one instanceof UserError)) as T[], faults };
}

export async function all<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const { values, faults } = await ended(promises);
  if (faults.length > 0) throw new UserError(faults.join("\n"));
  return values;
}

/** npm keeps options before `--`: `npm exec pushgate rollback site --host=web1` would change every host. Decision 023. */
export function keptByNpm(names: readonly string[], line: string, env: NodeJS.ProcessEnv): void {
  const kept = names.flatMap((name) => {
    const value = env[`npm_config_${name}`];
    return value === undefined ? [] : [`--${name}=${value === "true" ? "<value>" : value}`];
  });
  if (kept.length > 0) throw new UserError(`npm kept options for itself. Type: ${line} ${kept.join(" ")}`);
}
