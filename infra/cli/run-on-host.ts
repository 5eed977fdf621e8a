/** Runs a script as root on a machine of the stack, by the operator's own ssh, and reads what it answers. */
import { spawn } from "node:child_process";
import { sshTo, unreachable } from "../apply/ssh.ts";
import type { Host } from "../config/settings.ts";
import { Refused } from "./stack.ts";

export type Target = Pick<Host, "name" | "ssh" | "sudo">;

/** What may reach a terminal of what a machine says goes through here. */
const longest = 4 << 20;

/**
 * POSIX sh on standard input, so that nothing of it stands in a command line. Throws Refused with the cure where the
 * machine can't be reached, and with the script's own last words where it fails.
 */
export function onMachine(host: Target, script: string, seconds: number): Promise<string> {
  const shell = `${host.sudo ? "sudo -n " : ""}timeout ${seconds} sh -s`;
  const [command = "ssh", ...args] = [...sshTo(host), `exec ${shell}`];
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
    const text = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (chunk: string) => {
        if (text[name].length < longest) text[name] += chunk;
      });
    child.on("error", () => reject(new Refused("ssh is not on PATH")));
    child.on("close", (code) => {
      if (code === 0) return resolve(text.stdout);
      const own = /^pushgate: (.*)$/m.exec(text.stderr)?.[1];
      const said = code === 124 ? `exit status ${code}` : text.stderr;
      reject(new Refused(own === undefined ? unreachable(host, said) : `${host.name}: ${own}`));
    });
    // A machine that hangs up has said why on standard error.
    child.stdin.on("error", () => {});
    child.stdin.end(script);
  });
}
