/** Runs programs, prints how long a step took, and waits for conditions. */
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { createInterface } from "node:readline";

export type Ran = { readonly code: number; readonly stdout: string; readonly stderr: string };
export type RunOptions = {
  readonly stdin?: string | Buffer;
  /** Milliseconds after which the program is killed and the call throws. Default 120,000. */
  readonly timeout?: number;
  /** false: a non-zero exit code is a result, not an error. */
  readonly check?: boolean;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Called with each line of standard output as it arrives. */
  readonly onLine?: (line: string) => void;
};

/** Throws with the program's last 25 lines if it cannot start, is too slow, or (unless `check: false`) fails. */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { stdin, timeout = 120_000, check = true, env = process.env, cwd, onLine } = options;
  const words = [command, ...args].join(" ");
  const shown = words.length > 300 ? `${words.slice(0, 300)} …` : words;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, stdio: "pipe" });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      child.kill("SIGKILL");
    }, timeout);
    child.stdout.on("data", (chunk) => out.push(chunk));
    if (onLine !== undefined) createInterface(child.stdout).on("line", onLine);
    child.stderr.on("data", (chunk) => err.push(chunk));
    // A program may end without reading its input; its exit code shows whether that was an error.
    child.stdin.on("error", () => {});
    child.stdin.end(stdin ?? "");
    child.on("error", (error) => {
      clearTimeout(timer);
      reject(new Error(`${shown}: ${error.message}`));
    });
    child.on("close", (status, signal) => {
      clearTimeout(timer);
      const ran = { code: status ?? 255, stdout: `${Buffer.concat(out)}`, stderr: `${Buffer.concat(err)}` };
      if (late) reject(new Error(`${shown}: still running after ${timeout / 1000} s\n${tail(ran)}`));
      else if (check && status !== 0) reject(new Error(`${shown}: exit ${signal ?? status}\n${tail(ran)}`));
      else resolve(ran);
    });
  });
}

const tail = ({ stdout, stderr }: Ran) => [...stdout.split("\n"), ...stderr.split("\n")].slice(-25).join("\n").trim();

/** Prints the start of a long step and its seconds, on standard error: another program may read standard output. */
export async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
  const started = performance.now();
  const seconds = () => `${((performance.now() - started) / 1000).toFixed(1)} s`;
  console.error(`lab: ${name} …`);
  try {
    const result = await work();
    console.error(`lab: ${name}: ${seconds()}`);
    return result;
  } catch (error) {
    console.error(`lab: ${name}: failed after ${seconds()}`);
    throw error;
  }
}

/** Calls `probe` every `pause` ms until its result is not undefined; throws `what` after `timeout` ms. */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  { timeout = 30_000, pause = 25 }: { timeout?: number; pause?: number } = {},
): Promise<T> {
  const deadline = performance.now() + timeout;
  for (;;) {
    const result = await probe();
    if (result !== undefined) return result;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${timeout / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** `timeout`: milliseconds. True if a server accepts the connection and sends data; undefined otherwise. */
export const answers = (host: string, port: number, timeout: number): Promise<true | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout });
    const end = (answer: true | undefined) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on("data", () => end(true));
    socket.on("error", () => end(undefined));
    socket.on("timeout", () => end(undefined));
  });
