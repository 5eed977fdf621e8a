/**
 * Runs git or sync with a limit of time and of output. Not by execa: when a program failed after 64 MiB of output, execa
 * took 974 MiB of memory to word the error; execFile took 207 MiB.
 */
import { execFile } from "node:child_process";

export type Ended = {
  /** undefined where a signal ended it or it could not be started, and then `stderr` says why. */
  readonly code: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** It wrote more than is kept, and was ended for it. */
  readonly cut: boolean;
  readonly late: boolean;
};

type Terms = { readonly cwd: string; readonly env: Record<string, string>; readonly seconds: number };

const maxBuffer = 64 << 20; // bytes of each output
const mostError = 64 << 10; // characters: a person reads the end of an error
const grace = 2_000; // milliseconds from SIGTERM to SIGKILL, and for the last output after the exit

/** Never rejects. */
export function runChild(command: string, args: readonly string[], { seconds, ...terms }: Terms): Promise<Ended> {
  const timeout = seconds * 1000;
  return new Promise((resolve) => {
    const child = execFile(command, args, { ...terms, maxBuffer, timeout }, (error, stdout, stderr) => {
      const code = error ? error.code : 0;
      const cut = code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER";
      // A word where Node could not start or ended it, and then the message is Node's own.
      const said = stderr === "" && typeof code === "string" ? error!.message : stderr;
      const ended = { stdout, stderr: said.slice(-mostError), cut, late: error?.killed === true && !cut };
      resolve({ code: typeof code === "number" ? code : undefined, ...ended });
    });
    child.stdin?.end();
    const kill = setTimeout(() => child.kill("SIGKILL"), timeout + grace);
    child.once("close", () => clearTimeout(kill));
    // A grandchild may hold its ends of the pipes for as long as it likes.
    const close = () => [child.stdout, child.stderr].map((pipe) => pipe?.destroy());
    child.once("exit", () => setTimeout(close, grace).unref());
  });
}
