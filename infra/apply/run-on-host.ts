/** Runs a script as root on a host of the stack, over the operator's own ssh, and returns what it prints. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import type { Host } from "../config/settings.ts";
import { UserError } from "../user-error.ts";
import { quote } from "./shell.ts";
import { isDown, sshTo, unreachable } from "./ssh.ts";

/** Bytes of an answer. The probe of a host with 200 sites has 5 MiB. */
const longest = 16 << 20;
/** Characters of a line that `logs --follow` prints. A line of the journal has 48 KiB. */
const longestLine = 1 << 20;

export type Target = Pick<Host, "name" | "ssh" | "sudo">;

/** Whatever the login's environment is. The last line begins the answer, as a login shell may print before it. */
const mark = "pushgate: begin";
const begin = `umask 022
export LC_ALL=C PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
echo '${mark}'
`;

const start = (host: Target, shell: string): [string, string[]] => {
  // sudo drops the variable, which holds the port of ssh as the host sees it, behind any NAT.
  const asRoot = host.sudo ? `${rootOf(host)}env SSH_CONNECTION="$SSH_CONNECTION" ` : "";
  const [sh = "", ...args] = [...sshTo(host), `exec ${asRoot}${shell}`];
  return [sh, args];
};

/** The words before a command that root is to run. The faults of ssh.ts are sudo's in English. */
export const rootOf = ({ sudo }: Pick<Target, "sudo">): string => (sudo ? "env LC_ALL=C sudo -n " : "");

/** Without what Pulumi gives the program: its configuration has all secrets, and ssh may send a variable on. */
const environment = () =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(PULUMI|CLOUDFLARE)_/.test(name)));

/** ssh may end before it has read all of it. */
const input = (stdin: Writable | null): Writable => stdin!.on("error", () => {});

/** `effect`: what a script that changes something may have done before the connection ended. */
export async function runOnHost(host: Target, script: string, seconds: number, effect?: string): Promise<string> {
  const running = promisify(execFile)(...start(host, `timeout ${seconds} sh -s`), {
    env: environment(),
    maxBuffer: longest,
  });
  input(running.child.stdin).end(begin + script);
  const { stdout, stderr } = await running.catch((failed: Failed) => {
    throw faultOf(host, failed, effect);
  });
  const answer = stdout.indexOf(`${mark}\n`);
  if (answer === -1) throw faultOf(host, { stdout, stderr }, effect);
  return stdout.slice(answer + mark.length + 1).replace(/\n$/, "");
}

/** Runs a script that reads `data` on its standard input. */
export async function feedHost(host: Target, script: string, data: AsyncIterable<Uint8Array>, seconds: number) {
  const running = promisify(execFile)(...start(host, `timeout ${seconds} sh -c ${quote(begin + script)}`), {
    env: environment(),
  });
  const [sent, ran] = await Promise.allSettled([pipeline(data, running.child.stdin!), running]);
  if (sent.status === "rejected" && sent.reason instanceof UserError) throw sent.reason;
  if (ran.status === "rejected") throw faultOf(host, ran.reason);
}

/**
 * The lines that a script prints until the operator ends it, or `signal`: its standard input stays open as long as ssh runs.
 */
export async function* followOnHost(host: Target, script: string, signal?: AbortSignal): AsyncGenerator<string> {
  const running = spawn(...start(host, "sh -s"), { env: environment() });
  signal?.addEventListener("abort", () => running.kill());
  const ended = once(running, "close").then(
    ([code]) => ({ code: code as number | null }),
    (error: Failed) => error,
  );
  let stderr = "";
  running.stderr.on("data", (text) => {
    stderr = `${stderr}${text}`.slice(-longestLine);
  });
  input(running.stdin).write(begin + script);
  try {
    let [begun, rest] = [false, ""];
    for await (const part of running.stdout.setEncoding("utf8")) {
      const lines = (rest + part).split("\n");
      rest = lines.pop()!;
      if (rest.length > longestLine)
        throw new UserError(`${host.name}: a line of its answer has no end. Read it on the host.`);
      for (const line of lines) {
        if (begun) yield line;
        begun ||= line.endsWith(mark);
      }
    }
    const { code } = await ended;
    if (code !== 0 && !signal?.aborted) throw faultOf(host, { code, stderr });
  } finally {
    running.kill();
  }
}

/** ssh did not reach the host. */
export class HostDown extends UserError {}

/** `code`: the exit status, null after a signal, or the name of what went wrong. */
type Failed = {
  readonly code?: number | string | null | undefined;
  readonly stdout?: string;
  readonly stderr?: string;
};

function faultOf(host: Target, { code, stdout = "", stderr = "" }: Failed, effect?: string): UserError {
  if (code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER")
    return new UserError(`${host.name}: its answer is longer than ${longest >> 20} MiB. Read it on the host.`);
  const own = /^pushgate: (.*)/m.exec(stderr)?.[1];
  if (own !== undefined) return new UserError(`${host.name}: ${own}`);
  // What a login that runs no command prints, such as nologin's.
  const printed = stdout.includes(mark) ? stderr : `${stdout}\n${stderr}`;
  const reported = code === 124 ? "exit status 124" : printed;
  // 255 is the status of ssh itself.
  const Fault = code === 255 && isDown(reported) ? HostDown : UserError;
  return new Fault(unreachable(host, reported, effect));
}
