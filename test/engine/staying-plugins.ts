/** The fake plugins in a process of their own, for all runs of one stack: a run then costs two seconds of a core less. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Ports } from "../fakes/plugins/staying.ts";

const program = fileURLToPath(new URL("../fakes/plugins/staying.ts", import.meta.url));

type Environment = Readonly<Record<string, string | undefined>>;

export type StayingPlugins = {
  /**
   * Starts a run of the engine with `env` as the plugins' environment, too. `found`: what the engine needs to find them.
   * Adds to `stderr` what plugins and program print meanwhile. Throws during another run, as both would share `env`.
   */
  during<Run extends { readonly stderr: string }>(
    env: Environment,
    run: (found: Readonly<Record<string, string>>) => Promise<Run>,
  ): Promise<Run>;
  close(): void;
};

/** The next message of the process. Throws if the process ends. */
async function messageOf<Message>(child: ChildProcess): Promise<Message> {
  const done = new AbortController();
  const { signal } = done;
  const ended = once(child, "exit", { signal }).then(([code]) => {
    throw new Error(`The fake plugins ended with ${code}.`);
  });
  try {
    const [message] = await Promise.race([once(child, "message", { signal }), ended]);
    return message as Message;
  } finally {
    done.abort();
  }
}

/** `names`: the fakes that replace a plugin which is not installed. */
export function stayingPlugins(names: readonly string[]): StayingPlugins {
  const providers = (["command", "cloudflare"] as const).filter((name) => names.includes(name));
  let child: ChildProcess | undefined;
  let ports: Ports;
  let printed = "";
  async function start(env: Environment): Promise<ChildProcess> {
    const started = fork(program, { env, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    for (const output of [started.stdout!, started.stderr!])
      output.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
      });
    ports = await messageOf<Ports>(started).catch((error: Error) => {
      throw new Error(`${error.message} ${printed}`);
    });
    return started;
  }
  async function use(env: Environment): Promise<Record<string, string>> {
    if (child?.exitCode !== null || child.signalCode !== null) child = await start(env);
    const answer = messageOf<boolean>(child);
    child.send(env);
    if (await answer) {
      // The engine ended and left its program waiting; it would have killed it.
      child.kill();
      child = await start(env);
    }
    printed = "";
    return {
      ...(names.includes("nodejs") && { PULUMI_DEBUG_LANGUAGES: `nodejs:${ports.nodejs}` }),
      PULUMI_DEBUG_PROVIDERS: providers.map((name) => `${name}:${ports[name]}`).join(","),
    };
  }
  let isUsed = false;
  const during: StayingPlugins["during"] = async (env, run) => {
    if (isUsed) throw new Error("Two runs of a stack at once need plugins that the engine starts.");
    isUsed = true;
    try {
      const ended = await run(await use(env));
      return { ...ended, stderr: ended.stderr + printed };
    } finally {
      isUsed = false;
    }
  };
  return { during, close: () => void child?.kill() };
}
