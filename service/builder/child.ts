/** Runs git, npm or sync with bounds of time and output, and ends it with all its processes. */
import { spawn } from "node:child_process";
import { tried } from "../tried.ts";
import { most } from "./files.ts";

export type Ended = {
  /** undefined where a signal ended the program, or it could not be started (`stderr` says why). */
  readonly code: number | undefined;
  readonly signal?: NodeJS.Signals;
  readonly stdout: string;
  readonly stderr: string;
  /** The program was ended because it wrote more than is kept. */
  readonly cut: boolean;
  readonly late: boolean;
};

/** Bytes of git's longest list, which are in memory three times: for each file a path, a name of 64 digits, a few words. */
export const mostOutput = most.entries * 96 + most.pathBytes;
const mostError = 64 << 10; // characters: a person reads the end of an error
const grace = 2_000; // milliseconds from SIGTERM to SIGKILL, and for the last output after the exit

type Terms = { cwd: string; env: Record<string, string>; seconds: number; stop?: AbortSignal };

/** Never rejects. `stop` ends the program at once. */
export function runChild(command: string, args: readonly string[], terms: Readonly<Terms>): Promise<Ended> {
  const { cwd, env, seconds, stop } = terms;
  return new Promise((resolve) => {
    // A process group of its own: git starts ssh, index-pack and shells, which go on after its end.
    const child = spawn(command, args, { cwd, env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
    const parts: Buffer[] = [];
    let [size, stderr, cut, late] = [0, "", false, false];
    // Fails where the group has ended.
    const end = (signal: NodeJS.Signals) => tried(() => child.pid !== undefined && process.kill(-child.pid, signal));
    const timer = setTimeout(() => {
      late = true;
      end("SIGTERM");
    }, seconds * 1000);
    const kill = setTimeout(() => end("SIGKILL"), seconds * 1000 + grace);
    const stopped = () => end("SIGKILL");
    stop?.addEventListener("abort", stopped);
    child.stdout.on("data", (part: Buffer) => {
      if (cut) return;
      parts.push(part.subarray(0, mostOutput - size));
      size += part.length;
      cut = size > mostOutput;
      if (cut) end("SIGKILL");
    });
    child.stderr.setEncoding("utf8").on("data", (part: string) => {
      stderr = (stderr + part).slice(-mostError);
    });
    child.once("error", ({ message }) => {
      stderr = message;
    });
    // A grandchild may hold its ends of the pipes for as long as it likes.
    const close = () => [child.stdout, child.stderr].map((pipe) => pipe.destroy());
    child.once("exit", () => setTimeout(close, grace).unref());
    child.once("close", (code, signal) => {
      for (const at of [timer, kill]) clearTimeout(at);
      stop?.removeEventListener("abort", stopped);
      end("SIGKILL");
      const stdout = Buffer.concat(parts).toString();
      // Node's code of a program that it could not start is negative.
      const known = code !== null && code >= 0 ? code : undefined;
      resolve({ code: known, ...(signal && { signal }), stdout, stderr, cut, late: late && !cut });
    });
  });
}
