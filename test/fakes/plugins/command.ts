/**
 * A fake of `local.Command` of @pulumi/command 1.2.1, with the inputs that pushgate declares: create and update run the
 * command on this host, a diff compares inputs, a refresh reads nothing and a delete runs nothing. It rejects other inputs.
 */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type Context, misfits, type Props, type Resource, serveProvider, unknown } from "./provider.ts";

type Inputs = {
  readonly interpreter: readonly string[];
  readonly create: string;
  readonly stdin: string;
  readonly logging: "stderr" | "none";
};

/** Runs the command. The message of a failure holds the command and its output, and not its stdin. */
async function run(inputs: Props, { log, urn }: Context): Promise<Props> {
  const { interpreter, create, stdin, logging } = inputs as Inputs;
  const [program, ...words] = [...interpreter, create];
  // The real plugin has pipes here, and Node socket pairs, which a script cannot open as /dev/stdin; pushgate's do not.
  const child = spawn(program!, words);
  const printed = { stdout: "", stderr: "", both: "" };
  const logged: Promise<void>[] = [];
  // A chunk seldom ends where a line does.
  let rest = "";
  for (const name of ["stdout", "stderr"] as const)
    child[name].setEncoding("utf8").on("data", (chunk: string) => {
      printed[name] += chunk;
      printed.both += chunk;
      if (name !== logging) return;
      const lines = (rest + chunk).split("\n");
      rest = lines.pop()!;
      logged.push(...lines.map((line) => log("info", line, urn)));
    });
  // A command that does not read its stdin closes it early.
  child.stdin.on("error", () => {}).end(stdin);
  const failure = await new Promise<string | undefined>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) => {
      if (signal) resolve(`signal: ${signal}`);
      else resolve(code === 0 ? undefined : `exit status ${code}`);
    });
  });
  if (rest !== "") logged.push(log("info", rest, urn));
  await Promise.all(logged);
  if (failure) throw new Error(`${failure}: running ${JSON.stringify(create)}:\n${printed.both}`);
  // The real plugin removes one line feed at the end.
  return { ...inputs, stdout: printed.stdout.replace(/\n$/, ""), stderr: printed.stderr.replace(/\n$/, "") };
}

const allowed = ["interpreter", "create", "stdin", "logging", "addPreviousOutputInEnv"];

const Command: Resource = {
  check: (inputs) => misfits(inputs, allowed),
  diff(old, inputs) {
    const changed = allowed.filter((key) => !isDeepStrictEqual(old.inputs[key], inputs[key]));
    return { changed, replaces: [] };
  },
  async create(inputs, context) {
    if (context.preview) return { id: "", outputs: { ...inputs, stdout: unknown, stderr: unknown } };
    return { id: `${context.name}${randomBytes(4).toString("hex")}`, outputs: await run(inputs, context) };
  },
  // Each output depends on all inputs, so a preview of a change knows none.
  update: async (_id, _old, inputs, context) =>
    context.preview ? { ...inputs, stdout: unknown, stderr: unknown } : run(inputs, context),
  async delete() {},
};

export const port = await serveProvider({
  version: "1.2.1",
  resources: { "command:local:Command": Command },
});
