/** The selected stack, read with the pulumi command as a person would. No secret is read unless a caller adds the flag. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import type { InferOutput } from "valibot";
import type { shape } from "../config/schema.ts";
import { UserError } from "../user-error.ts";

/**
 * `shown`: pulumi has the terminal, and its output appears on this descriptor. Else `input` is its standard input, as for a
 * secret.
 */
type How = {
  readonly shown?: 1 | 2;
  readonly input?: string | undefined;
  readonly env?: Readonly<Record<string, string>>;
};

let passphrase: string | undefined;

/** pulumi prompts for a passphrase only where its input and output are the terminal. Elsewhere this prompts, once. */
export async function pulumi(args: readonly string[], how: How = {}) {
  const ran = await runPulumi(args, how);
  if (ran.code === 0 || !/passphrase must be set with PULUMI_CONFIG_PASSPHRASE/.test(ran.stderr)) return ran;
  if (!hasTerminal())
    throw new UserError("the stack has a passphrase. Set PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE.");
  const { default: hidden } = await import("@inquirer/password");
  const message = "Passphrase of the stack (pulumi reads PULUMI_CONFIG_PASSPHRASE, too):";
  passphrase = await prompted((context) => hidden({ message }, context));
  return runPulumi(args, how);
}

async function runPulumi(args: readonly string[], { shown, input = "", env: more }: How) {
  const env = { ...process.env, ...more, ...(passphrase !== undefined && { PULUMI_CONFIG_PASSPHRASE: passphrase }) };
  const shownOn = shown === 1 ? process.stdout : process.stderr;
  // A pipe whose reader leaves would end pulumi, whose exit status counts: it prints to this program instead.
  const to = (stream: NodeJS.WriteStream) => (shown && stream.isTTY ? stream : "pipe");
  const stdio = [shown ? "inherit" : "pipe", to(shownOn), to(process.stderr)] as const;
  const running = spawn("pulumi", args, { stdio: [...stdio], env });
  // pulumi may end before it has read all of it.
  running.stdin?.on("error", () => {}).end(input);
  if (shown) {
    running.stdout?.on("data", (part) => shownOn.write(part));
    running.stderr?.on("data", (part) => process.stderr.write(part));
  }
  const printed = [running.stdout, running.stderr].map((stream) => (stream === null ? "" : text(stream)));
  const [code] = await once(running, "close").catch(() => {
    throw new UserError("pulumi is not on PATH. Start this command as npx pushgate.");
  });
  const [stdout = "", stderr = ""] = await Promise.all(printed);
  return { code: code as number | null, stdout: stdout.replace(/\n$/, ""), stderr };
}

export async function must(args: readonly string[], input?: string): Promise<string> {
  const { code, stdout, stderr } = await pulumi(args, { input });
  if (code !== 0) throw new UserError(`pulumi ${args.slice(0, 2).join(" ")} failed: ${stderr.trim()}`);
  return stdout;
}

/** A text of pulumi's, which begins with a brace. A module that NODE_OPTIONS names may print before it. */
export const jsonOf = (printed: string): unknown => JSON.parse(printed.slice(Math.max(0, printed.search(/^\{/m))));

/** Standard output is for JSON: prompts are on standard error. */
export const hasTerminal = (): boolean => Boolean(process.stdin.isTTY && process.stderr.isTTY);

/** The answer to a prompt of @inquirer's. Throws a UserError where Ctrl-C or Ctrl-D ends it. */
export async function prompted<T>(prompt: (context: { output: NodeJS.WritableStream }) => Promise<T>): Promise<T> {
  try {
    return await prompt({ output: process.stderr });
  } catch (error) {
    if ((error as Error).name !== "ExitPromptError") throw error;
    throw new UserError("the prompt was ended, so nothing was changed.");
  }
}

export type Declared = Pick<InferOutput<typeof shape>, "hosts" | "hooks" | "limits">;
export type Host = Declared["hosts"][number];

type Value = { readonly value?: string; readonly objectValue?: unknown; readonly secret?: boolean };
type Config = Record<string, Value | undefined>;

/** What pulumi printed, by its arguments: a start of pulumi takes a second, and parts of one command need the same. */
const configs = new Map<string, Promise<Config>>();

export function forgetStack(): void {
  configs.clear();
  passphrase = undefined;
}

/** Every key, from one start of pulumi: read the secrets first where a command needs them. */
function readConfig(stack: readonly string[], ...flags: string[]): Promise<Config> {
  const key = [...flags, ...stack].join(" ");
  const config = configs.get(key) ?? configs.get(["--show-secrets", ...stack].join(" ")) ?? loadConfig(stack, flags);
  configs.set(key, config);
  return config;
}

export type Access = Partial<Record<"token" | "baseUrl" | "zone", string | undefined>>;

export async function accessOf(stack: readonly string[]): Promise<Access> {
  const config = await readConfig(stack, "--show-secrets");
  const of = (key: string) => config[key]?.value;
  return { token: of("cloudflare:apiToken"), baseUrl: of("cloudflare:baseUrl"), zone: of("pushgate:zone") };
}

async function loadConfig(stack: readonly string[], flags: readonly string[]): Promise<Config> {
  const { code, stdout, stderr } = await pulumi(["config", "--json", ...flags, ...stack]);
  if (code !== 0) throw new UserError(await unreadable(stack, stderr.trim()));
  return jsonOf(stdout) as Config;
}

/** Why the configuration is unreadable: the engine names neither the key nor what to do, and runs no program before. */
async function unreadable(stack: readonly string[], reported: string): Promise<string> {
  if (/incorrect passphrase/.test(reported))
    return "the passphrase is not that of this stack. Set PULUMI_CONFIG_PASSPHRASE, or PULUMI_CONFIG_PASSPHRASE_FILE, to the one that the stack was made with.";
  if (!/message authentication failed/.test(reported)) return `the stack's configuration is unreadable: ${reported}`;
  const secret = Object.entries(await loadConfig(stack, [])).flatMap(([key, value]) => (value?.secret ? [key] : []));
  const tried = await Promise.all(secret.map((key) => pulumi(["config", "get", key, ...stack])));
  const foreign = secret.filter((_, i) => tried[i]!.code !== 0);
  return `${foreign.join(" and ")} cannot be decrypted: encrypted with the passphrase or the \`encryptionsalt\` of another stack. Restore that of this stack in its file, or store each value anew: npx pulumi config set --secret --path <key>`;
}

/** `hooksAndPreviews`: with those that build the previews of another one. */
export async function readStack(stack: readonly string[]) {
  const all = await readConfig(stack);
  const of = (key: string): unknown => all[`pushgate:${key}`]?.objectValue ?? all[`pushgate:${key}`]?.value;
  const [v, { shape }, { withPreviews }] = await Promise.all([
    import("valibot"),
    import("../config/schema.ts"),
    import("../config/derived.ts"),
  ]);
  const { hosts, hooks, limits } = shape.entries;
  const given = { hosts: of("hosts") ?? [], hooks: of("hooks") ?? [], limits: of("limits") };
  const checked = v.safeParse(v.object({ hosts, hooks, limits }), given);
  if (!checked.success)
    throw new UserError("the stack's configuration has faults. Run npx pulumi preview, which lists each with its fix.");
  return { ...checked.output, hooksAndPreviews: withPreviews(checked.output.hooks) };
}

type Secrets = Readonly<Record<string, Partial<Record<"current" | "previous" | "status", string>>>>;

export async function readSecrets(stack: readonly string[]): Promise<Secrets> {
  const secrets = (await readConfig(stack, "--show-secrets"))["pushgate:secrets"];
  return (secrets?.objectValue ?? {}) as Secrets;
}
