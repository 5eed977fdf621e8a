/** Runs a script as root on a host of the stack, over the operator's own ssh, and returns what it prints. */
import { execa, type Result } from "execa";
import { sshTo, unreachable } from "../apply/ssh.ts";
import type { Host } from "../config/settings.ts";
import { UserError } from "./stack.ts";

export type Target = Pick<Host, "name" | "ssh" | "sudo">;

const start = (host: Target, shell: string): [string, string[]] => {
  const [ssh = "ssh", ...args] = [...sshTo(host), `exec ${host.sudo ? "sudo -n " : ""}${shell}`];
  return [ssh, args];
};

/** `effect`: what a script that changes something may have done before the connection ended. */
export async function runOnHost(host: Target, script: string, seconds: number, effect?: string): Promise<string> {
  const how = { input: script, maxBuffer: 4 << 20, reject: false } as const;
  const ran = await execa(...start(host, `timeout ${seconds} sh -s`), how);
  if (ran.failed) throw faultOf(host, ran, effect);
  return ran.stdout;
}

/** The lines that a script prints until the operator ends it: its standard input stays open as long as ssh runs. */
export async function* followOnHost(host: Target, script: string): AsyncGenerator<string> {
  const running = execa(...start(host, "sh -s"), { stdin: "pipe", buffer: { stdout: false }, reject: false });
  running.stdin.write(script);
  for await (const line of running.iterable({ from: "stdout" })) yield line as string;
  const ran = await running;
  if (ran.failed) throw faultOf(host, ran);
}

type Failed = Pick<Result<{ reject: false }>, "code" | "isMaxBuffer" | "exitCode" | "stderr">;

function faultOf(host: Target, { code, isMaxBuffer, exitCode, stderr }: Failed, effect?: string): UserError {
  if (code === "ENOENT") return new UserError("ssh is not on PATH. Install the OpenSSH client.");
  if (isMaxBuffer) return new UserError(`${host.name}: its answer is longer than 4 MiB. Read it on the host.`);
  const printed = String(stderr ?? "");
  const own = /^pushgate: (.*)$/m.exec(printed)?.[1];
  if (own !== undefined) return new UserError(`${host.name}: ${own}`);
  return new UserError(unreachable(host, exitCode === 124 ? "exit status 124" : printed, effect));
}
