/**
 * A fake of `local.Command` and `local.run` of @pulumi/command 1.2.1: create, update and delete run a command on this
 * host, a diff compares inputs, and a refresh reads nothing. It rejects unknown properties and wrong types. It has no
 * `remote.*` and no assets.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import {
  type Context,
  hasUnknown,
  inputDiff,
  type Props,
  type Refusal,
  type Resource,
  serveProvider,
  unknown,
} from "./provider.ts";
import { type Log, perConnection } from "./serve.ts";

type Base = {
  readonly interpreter?: readonly string[];
  readonly dir?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  readonly logging?: "stdout" | "stderr" | "stdoutAndStderr" | "none";
  readonly addPreviousOutputInEnv?: boolean;
};

type Output = { readonly stdout: string; readonly stderr: string };

const text = (value: unknown) => typeof value === "string";
const types: Readonly<Record<string, [expected: string, holds: (value: unknown) => boolean]>> = {
  interpreter: ["a list of strings", (value) => Array.isArray(value) && value.every(text)],
  dir: ["a string", text],
  environment: [
    "an object of strings",
    (value) => typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(text),
  ],
  stdin: ["a string", text],
  logging: [
    "stdout, stderr, stdoutAndStderr or none",
    (value) => ["stdout", "stderr", "stdoutAndStderr", "none"].includes(value as string),
  ],
  addPreviousOutputInEnv: ["a boolean", (value) => typeof value === "boolean"],
  create: ["a string", text],
  update: ["a string", text],
  delete: ["a string", text],
  command: ["a string", text],
  triggers: ["a list", Array.isArray],
};

function refusals(inputs: Props, allowed: readonly string[]): Refusal[] {
  return Object.entries(inputs).flatMap(([property, value]) => {
    if (!allowed.includes(property)) return [{ property, reason: `an unknown property: ${property}` }];
    const [expected, holds] = types[property]!;
    return value === unknown || hasUnknown(value) || holds(value)
      ? []
      : [{ property, reason: `${property} must be ${expected}` }];
  });
}

const base = ["interpreter", "dir", "environment", "stdin", "logging", "addPreviousOutputInEnv"];

const running = perConnection(() => new Set<ChildProcess>());

/** Prints whole lines: a chunk seldom ends where a line does. */
function lines(print: (line: string) => void) {
  let rest = "";
  return {
    push(chunk: string): void {
      const parts = (rest + chunk).split("\n");
      rest = parts.pop()!;
      for (const part of parts) print(part);
    },
    end(): void {
      if (rest !== "") print(rest);
    },
  };
}

/**
 * Gives the command anonymous pipes, as the real plugin does: Node's own are socket pairs, and a script that opens
 * /dev/stdin or /dev/stdout by name fails on a socket. The command's status comes on descriptor 3.
 */
const throughPipes = `exec 4>&1
{ cat | { "$@" 3>&- 4>&-; echo "$?" >&3; } | cat >&4; } 2>&1 | cat >&2`;

/** Runs one command. The message of a failure holds the command and its output, and not its stdin. */
async function run(
  command: string,
  args: Base,
  previous: Output | undefined,
  log: (line: string) => Promise<void>,
): Promise<Output> {
  const [program, ...words] = [
    ...(args.interpreter && args.interpreter.length > 0 ? args.interpreter : ["/bin/sh", "-c"]),
    command,
  ];
  const env = { ...process.env, ...args.environment };
  if (args.addPreviousOutputInEnv ?? true) {
    if (previous?.stdout) env.PULUMI_COMMAND_STDOUT = previous.stdout;
    if (previous?.stderr) env.PULUMI_COMMAND_STDERR = previous.stderr;
  }
  const child = spawn("/bin/sh", ["-c", throughPipes, "sh", program!, ...words], {
    cwd: args.dir,
    env,
    // Its own process group, so that a cancel reaches the command and not only this shell.
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  running().add(child);
  const printed = { stdout: "", stderr: "", both: "" };
  const logged: Promise<void>[] = [];
  const logging = args.logging ?? "stdoutAndStderr";
  const streams = ["stdout", "stderr"] as const;
  const printers = streams.map((name) => {
    const print = lines((line) => {
      if (logging === name || logging === "stdoutAndStderr") logged.push(log(line));
    });
    child[name]!.setEncoding("utf8").on("data", (chunk: string) => {
      printed[name] += chunk;
      printed.both += chunk;
      print.push(chunk);
    });
    return print;
  });
  // A command that does not read its stdin closes it early.
  child.stdin!.on("error", () => {});
  child.stdin!.end(args.stdin ?? "");
  let status = "";
  (child.stdio[3] as Readable).setEncoding("utf8").on("data", (chunk: string) => {
    status += chunk;
  });
  const failure = await new Promise<string | undefined>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (_code, signal) => {
      if (signal) resolve(`signal: ${signal}`);
      else resolve(status.trim() === "0" ? undefined : `exit status ${status.trim() || "unknown"}`);
    });
  });
  running().delete(child);
  for (const printer of printers) printer.end();
  await Promise.all(logged);
  if (failure) throw new Error(`${failure}: running ${JSON.stringify(command)}:\n${printed.both}`);
  // The real plugin removes one line feed at the end.
  return { stdout: printed.stdout.replace(/\n$/, ""), stderr: printed.stderr.replace(/\n$/, "") };
}

const logger =
  ({ log, urn }: Context) =>
  (line: string) =>
    log("info", line, urn);

const Command: Resource = {
  check: (inputs) => refusals(inputs, [...base, "create", "update", "delete", "triggers"]),
  // Only triggers replace. Any other change, also of the delete text, runs `update` or `create` in place.
  diff: (old, inputs) => inputDiff(old.inputs, inputs, ["triggers"]),
  async create(inputs, context) {
    if (context.preview) return { id: "", outputs: { ...inputs, stdout: unknown, stderr: unknown } };
    const id = `${context.name}${randomBytes(4).toString("hex")}`;
    const command = inputs.create as string | undefined;
    if (command === undefined) return { id, outputs: { ...inputs, stdout: "", stderr: "" } };
    return { id, outputs: { ...inputs, ...(await run(command, inputs, undefined, logger(context))) } };
  },
  async update(_id, old, inputs, context) {
    // Each output depends on all inputs, so a preview of a change knows none.
    if (context.preview) return { ...inputs, stdout: unknown, stderr: unknown };
    const previous = { stdout: String(old.outputs.stdout ?? ""), stderr: String(old.outputs.stderr ?? "") };
    const command = (inputs.update ?? inputs.create) as string | undefined;
    if (command === undefined) return { ...inputs, ...previous };
    return { ...inputs, ...(await run(command, inputs, previous, logger(context))) };
  },
  async delete(_id, outputs, context) {
    const command = outputs.delete as string | undefined;
    if (command === undefined) return;
    const previous = { stdout: String(outputs.stdout ?? ""), stderr: String(outputs.stderr ?? "") };
    await run(command, outputs, previous, logger(context));
  },
};

/** Runs in each preview too, so the program probes hosts with it. */
async function runFunction(args: Props, log: Log): Promise<Props> {
  const refused = refusals(args, [...base, "command"]);
  if (args.command === undefined) refused.push({ property: "command", reason: "command is required" });
  if (refused.length > 0) throw new Error(refused.map(({ reason }) => reason).join("; "));
  return { ...args, ...(await run(args.command as string, args, undefined, (line) => log("info", line))) };
}

export const port = await serveProvider({
  version: "1.2.1",
  resources: { "command:local:Command": Command },
  functions: { "command:local:run": runFunction },
  cancel() {
    for (const { pid } of running()) if (pid) process.kill(-pid, "SIGKILL");
  },
});
