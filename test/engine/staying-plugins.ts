/** The fake plugins in a process of their own, for all runs of one stack: a run then costs two seconds of a core less. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Ports } from "../fakes/plugins/staying.ts";

const program = fileURLToPath(new URL("../fakes/plugins/staying.ts", import.meta.url));

type Environment = Readonly<Record<string, string | undefined>>;

export type StayingPlugins = {
  /** Makes `env` the plugins' environment, as it is the engine's. Returns what the engine needs to find them. */
  use(env: Environment): Promise<Record<string, string>>;
  close(): void;
};

/** `names`: the fakes that replace a plugin which is not installed. */
export function stayingPlugins(names: readonly string[]): StayingPlugins {
  const providers = (["command", "cloudflare"] as const).filter((name) => names.includes(name));
  let child: ChildProcess | undefined;
  let ports: Ports;
  async function start(env: Environment): Promise<ChildProcess> {
    const started = fork(program, { env, stdio: ["ignore", "ignore", "inherit", "ipc"] });
    [ports] = (await once(started, "message")) as [Ports];
    return started;
  }
  async function use(env: Environment): Promise<Record<string, string>> {
    child ??= await start(env);
    const answer = once(child, "message");
    child.send(env);
    const [isBusy] = (await answer) as [boolean];
    if (isBusy) {
      // The engine ended and left its program waiting; it would have killed it.
      child.kill();
      child = await start(env);
    }
    return {
      ...(names.includes("nodejs") && { PULUMI_DEBUG_LANGUAGES: `nodejs:${ports.nodejs}` }),
      PULUMI_DEBUG_PROVIDERS: providers.map((name) => `${name}:${ports[name]}`).join(","),
    };
  }
  return { use, close: () => void child?.kill() };
}
