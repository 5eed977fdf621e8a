/** The selected stack, read with the pulumi command as a person would. No secret is read unless a caller adds the flag. */
import { execa } from "execa";
import * as v from "valibot";
import { shape } from "../config/schema.ts";
import { ApiRefusal } from "../edge/api.ts";

/** Ends the program; only its message is printed. */
export class UserError extends Error {}

/** `shown`: its output goes to the terminal as it comes. */
export async function pulumi(args: readonly string[], shown = false) {
  const stdout = shown ? "inherit" : "pipe";
  const ran = await execa("pulumi", args, { stdin: "ignore", stdout, reject: false });
  if (ran.code === "ENOENT") throw new UserError("pulumi is not on PATH. Start this command with npm run.");
  return { code: ran.exitCode, stdout: ran.stdout ?? "", stderr: ran.stderr };
}

/** As arguments of pulumi; the selected stack if none is named. */
export const stackArgs = (stack: string | undefined): string[] => (stack === undefined ? [] : ["--stack", stack]);

/** urn:pulumi:stack::project::type::name, in which only the name may hold "::": an IPv6 address's record does. */
export const nameOf = (urn: string): string => urn.split("::").slice(3).join("::");

const declared = v.object({ hosts: shape.entries.hosts, hooks: shape.entries.hooks });
export type Declared = v.InferOutput<typeof declared>;

type Config = Record<string, { readonly value?: string; readonly objectValue?: unknown } | undefined>;

/** Every key of the stack's configuration, in one call: each start of pulumi takes a second. */
export async function readConfig(stack: readonly string[], ...flags: string[]): Promise<Config> {
  const { code, stdout, stderr } = await pulumi(["config", "--json", ...flags, ...stack]);
  if (code !== 0) throw new UserError(`the stack's configuration is unreadable: ${stderr.trim()}`);
  return JSON.parse(stdout) as Config;
}

/** Hosts and hooks as the stack's configuration declares them, with the defaults filled in. */
export async function readStack(stack: readonly string[]): Promise<Declared> {
  const all = await readConfig(stack);
  const of = (key: string): unknown => all[`pushgate:${key}`]?.objectValue ?? all[`pushgate:${key}`]?.value ?? [];
  const checked = v.safeParse(declared, { hosts: of("hosts"), hooks: of("hooks") });
  if (!checked.success)
    throw new UserError("the stack's configuration has faults. Run npx pulumi preview, which lists each with its fix.");
  return checked.output;
}

/** Runs a command. An error that a user can fix, such as an unknown option, is one line and exit status 1. */
export async function main(name: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    const unknownOption = error instanceof TypeError && "code" in error;
    if (!(error instanceof UserError || error instanceof ApiRefusal || unknownOption)) throw error;
    console.error(`${name}: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
