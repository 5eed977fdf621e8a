/** The fake plugins in a process of their own, for all runs of one stack: a run then costs two seconds of a core less. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Ports } from "../fakes/plugins/staying.ts";

const program = fileURLToPath(new URL("../fakes/plugins/staying.ts", import.meta.url));

type Environment = Readonly<Record<string, string | undefined>>;

/** `names`: the fakes that replace a plugin which is not installed. */
export function stayingPlugins(names: readonly string[]) {
  const providers = (["command", "cloudflare"] as const).filter((name) => names.includes(name));
  let child: ChildProcess | undefined;
  let ended: Promise<never>;
  let ports: Ports;
  let printed = "";
  /** Throws if the process ends. */
  const messageOf = async (process: ChildProcess) => (await Promise.race([once(process, "message"), ended]))[0];
  async function start(env: Environment): Promise<ChildProcess> {
    const started = fork(program, { env, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    for (const output of [started.stdout!, started.stderr!])
      output.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
      });
    ended = once(started, "exit").then(([code]) => {
      throw new Error(`The fake plugins ended with ${code}. ${printed}`);
    });
    ended.catch(() => {});
    ports = await messageOf(started);
    return started;
  }
  /** Returns what the engine needs to find the plugins. */
  async function use(env: Environment): Promise<Record<string, string>> {
    if (child?.exitCode !== null || child.signalCode !== null) child = await start(env);
    const answer = messageOf(child);
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
  return {
    /**
     * Starts a run of the engine with `env` as the plugins' environment, too. Adds to `stderr` what plugins and program
     * print meanwhile. Throws during another run, as both would share `env`.
     */
    async during<Run extends { readonly stderr: string }>(env: Environment, run: (found: object) => Promise<Run>) {
      if (isUsed) throw new Error("Two runs of a stack at once need plugins that the engine starts.");
      isUsed = true;
      try {
        const { stderr, ...others } = await run(await use(env));
        return { ...others, stderr: stderr + printed };
      } finally {
        isUsed = false;
      }
    },
    close: () => void child?.kill(),
  };
}
