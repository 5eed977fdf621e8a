/** Runs a script as root on a host of the stack, over the operator's own ssh, and returns what it prints. */
import { execa } from "execa";
import { sshTo, unreachable } from "../apply/ssh.ts";
import type { Host } from "../config/settings.ts";
import { UserError } from "./stack.ts";

export type Target = Pick<Host, "name" | "ssh" | "sudo">;

/** Throws a UserError: what to do if the host is unreachable, or what a failed script printed after "pushgate: ". */
export async function runOnHost(host: Target, script: string, seconds: number): Promise<string> {
  const shell = `${host.sudo ? "sudo -n " : ""}timeout ${seconds} sh -s`;
  const [command = "ssh", ...args] = [...sshTo(host), `exec ${shell}`];
  const ran = await execa(command, args, { input: script, maxBuffer: 4 << 20, reject: false });
  if (!ran.failed) return ran.stdout;
  if (ran.code === "ENOENT") throw new UserError("ssh is not on PATH. Install the OpenSSH client.");
  if (ran.isMaxBuffer) throw new UserError(`${host.name}: its answer is longer than 4 MiB. Read it on the host.`);
  const own = /^pushgate: (.*)$/m.exec(ran.stderr)?.[1];
  const reported = ran.exitCode === 124 ? "exit status 124" : ran.stderr;
  throw new UserError(own === undefined ? unreachable(host, reported) : `${host.name}: ${own}`);
}
