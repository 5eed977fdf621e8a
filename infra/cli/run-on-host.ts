/** Runs a script as root on a host of the stack, over the operator's own ssh, and returns what it prints. */
import { execa } from "execa";
import { sshTo, unreachable } from "../apply/ssh.ts";
import type { Host } from "../config/settings.ts";
import { UserError } from "./stack.ts";

export type Target = Pick<Host, "name" | "ssh" | "sudo">;

const start = (host: Target, shell: string): [string, string[]] => {
  const [ssh = "ssh", ...args] = [...sshTo(host), `exec ${host.sudo ? "sudo -n " : ""}${shell}`];
  return [ssh, args];
};

/**
 * Throws a UserError: what to do if the host is unreachable, or what a failed script printed after "pushgate: ". `effect`:
 * what a script that changes something may have done before the connection ended.
 */
export async function runOnHost(host: Target, script: string, seconds: number, effect?: string): Promise<string> {
  const ran = await execa(...start(host, `timeout ${seconds} sh -s`), {
    input: script,
    maxBuffer: 4 << 20,
    reject: false,
  });
  if (!ran.failed) return ran.stdout;
  throw faultOf(host, ran, effect);
}

/** The lines that a script prints until the operator ends it: its standard input stays open as long as ssh runs. */
export async function* followOnHost(host: Target, script: string): AsyncGenerator<string> {
  const running = execa(...start(host, "sh -s"), { stdin: "pipe", buffer: { stdout: false }, reject: false });
  running.stdin.write(script);
  for await (const line of running.iterable({ from: "stdout" })) yield line as string;
  const ran = await running;
  if (ran.failed) throw faultOf(host, ran);
}

type Failed = {
  readonly code?: string | undefined;
  readonly isMaxBuffer: boolean;
  readonly stderr?: string | undefined;
  readonly exitCode?: number | undefined;
};

function faultOf(host: Target, ran: Failed, effect?: string): UserError {
  if (ran.code === "ENOENT") return new UserError("ssh is not on PATH. Install the OpenSSH client.");
  if (ran.isMaxBuffer) return new UserError(`${host.name}: its answer is longer than 4 MiB. Read it on the host.`);
  const { stderr = "" } = ran;
  const own = /^pushgate: (.*)$/m.exec(stderr)?.[1];
  const reported = ran.exitCode === 124 ? "exit status 124" : stderr;
  return new UserError(own === undefined ? unreachable(host, reported, effect) : `${host.name}: ${own}`);
}
