/** What every command in here needs of the selected stack: the engine's own CLI, asked as a person would. No secret is. */
import { spawn } from "node:child_process";
import * as v from "valibot";
import { shape } from "../config/schema.ts";

/** Ends the program; its message is all that is said. */
export class Refused extends Error {}

export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

/** `shown`: its output is the person's to read as it comes. */
export function pulumi(args: readonly string[], shown = false): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn("pulumi", args, { stdio: ["ignore", shown ? "inherit" : "pipe", "pipe"] });
    const text = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name]?.setEncoding("utf8").on("data", (chunk: string) => {
        text[name] += chunk;
      });
    child.on("error", () => reject(new Refused("pulumi is not on PATH: start this with npm run")));
    child.on("close", (code) => resolve({ code, ...text }));
  });
}

/** As arguments of the engine's CLI: the selected stack where none is named. */
export const stackArgs = (stack: string | undefined): string[] => (stack === undefined ? [] : ["--stack", stack]);

/** urn:pulumi:stack::project::type::name, in which only the name may hold "::": an IPv6 address's record does. */
export const nameOf = (urn: string): string => urn.split("::").slice(3).join("::");

const declared = v.object({ hosts: shape.entries.hosts, hooks: shape.entries.hooks });
export type Declared = v.InferOutput<typeof declared>;

type Value = { readonly value?: string; readonly objectValue?: unknown };

/** Every key of the stack's configuration, in one call: each start of the engine takes a second. */
export async function readConfig(
  stack: readonly string[],
  ...flags: string[]
): Promise<Record<string, Value | undefined>> {
  const { code, stdout, stderr } = await pulumi(["config", "--json", ...flags, ...stack]);
  if (code !== 0) throw new Refused(`the stack's configuration can't be read: ${stderr.trim()}`);
  return JSON.parse(stdout) as Record<string, Value | undefined>;
}

/** Machines and hooks as the stack's configuration has them; the defaults are filled in. */
export async function readStack(stack: readonly string[]): Promise<Declared> {
  const all = await readConfig(stack);
  const of = (key: string): unknown => all[`pushgate:${key}`]?.objectValue ?? all[`pushgate:${key}`]?.value ?? [];
  const checked = v.safeParse(declared, { hosts: of("hosts"), hooks: of("hooks") });
  if (!checked.success)
    throw new Refused("the stack's configuration has faults: npx pulumi preview names each with its cure");
  return checked.output;
}

/** Runs it; a refusal, and an option nobody knows, is one line on standard error and exit status 1. */
export async function main(name: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    const said = error instanceof Refused || (error instanceof TypeError && "code" in error);
    if (!said) throw error;
    console.error(`${name}: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
