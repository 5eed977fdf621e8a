/** A program of another's, in the time and the memory it is given. */
import { spawn } from "node:child_process";

export type Ended = {
  /** null where a signal ended it or it could not be started. */
  readonly code: number | null;
  readonly signal: string | null;
  /** Standard output, at most `most` bytes of its beginning. */
  readonly stdout: Buffer;
  /** Standard error, the end of it. */
  readonly stderr: string;
  /** There was more on standard output. */
  readonly cut: boolean;
  readonly late: boolean;
  /** The program is not there. */
  readonly missing: boolean;
};

export type Terms = {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly seconds: number;
  /** Bytes of standard output kept. */
  readonly most?: number;
  /** What is written to its standard input. */
  readonly input?: string;
};

/** What a person reads of an error is its end; more than this is only memory. */
export const tailBytes = 64 << 10;

/** Milliseconds between asking a program to end and ending it, and for what it said last to arrive. */
const grace = 2_000;

/** Never rejects: a program that can't be started has `missing`, or says why in `stderr`. */
export function runChild(command: string, args: readonly string[], terms: Terms): Promise<Ended> {
  const { cwd, env, seconds, most = 64 << 20, input } = terms;
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"] });
    const parts: Buffer[] = [];
    const tail = new Tail();
    let kept = 0;
    let cut = false;
    let late = false;
    let missing = false;
    child.stdin?.on("error", () => {}).end(input);
    child.stdout?.on("data", (part: Buffer) => {
      const room = most - kept;
      if (part.length > room) cut = true;
      if (room <= 0) return;
      parts.push(part.subarray(0, room));
      kept += Math.min(part.length, room);
    });
    child.stderr?.on("data", (part: Buffer) => tail.add(part));
    const timer = setTimeout(() => {
      late = true;
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), grace).unref();
    }, seconds * 1000);
    child.on("error", (error: NodeJS.ErrnoException) => {
      missing = error.code === "ENOENT";
      tail.add(Buffer.from(error.message));
      // A program that never started has no `close`.
      if (child.pid === undefined) end(null, null);
    });
    const end = (code: number | null, signal: string | null) => {
      clearTimeout(timer);
      resolve({ code, signal, stdout: Buffer.concat(parts), stderr: tail.text(), cut, late, missing });
    };
    // What it started may hold its ends of the pipes for as long as it likes.
    child.on("exit", () => setTimeout(() => [child.stdout, child.stderr].map((end) => end?.destroy()), grace).unref());
    child.on("close", end);
  });
}

/** The last bytes of a stream of any length. */
export class Tail {
  #parts: Buffer[] = [];
  #length = 0;

  add(part: Buffer): void {
    this.#parts.push(part);
    this.#length += part.length;
    while (this.#parts.length > 1 && this.#length - this.#parts[0]!.length >= tailBytes)
      this.#length -= this.#parts.shift()!.length;
  }

  text(): string {
    return Buffer.concat(this.#parts).subarray(-tailBytes).toString();
  }
}
