/**
 * A person's terminal: a shell in a real pty, which `script` of util-linux makes. Programs see a terminal, print their
 * prompts and read what is typed.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";

export type Ran = { readonly code: number; readonly text: string; readonly seconds: number };
/** What to type when the output since the last reply fits. */
export type Reply = readonly [prompt: RegExp, types: string];
export type Place = {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** Words before the command, such as those of `unshare`. */
  readonly within?: readonly string[];
};

/** Keys, as the keyboard sends them. */
export const enter = "\r";
export const interrupt = "\x03";
export const endOfInput = "\x04";

/** What a program prints to query the background's colour (OSC 11) and the cursor's place. Pulumi waits 5 s for an answer. */
const query = "\x1b[6n";
const answer = "\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[1;1R";

/** The shell prints it before each command, with the exit code of the one before. No program prints these bytes. */
const prompt = /\x1e(\d+)\x1e/;

export class Terminal {
  private readonly child: ChildProcess;
  private text = "";

  constructor({ cwd, env, within = [] }: Place) {
    // Without a prompt, which could come before or after what is typed. The shell of `script` hands PS1 on to no other.
    const shell = "PS1= bash --noprofile --norc --noediting -i";
    const [program = "", ...words] = [...within, "script", "--quiet", "--command", shell, "/dev/null"];
    this.child = spawn(program, words, {
      cwd,
      env: { TERM: "xterm", LANG: "C.UTF-8", ...env, PROMPT_COMMAND: "printf '\\036%s\\036' $?" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.child.stdout!.setEncoding("utf8").on("data", (part: string) => {
      this.text += part;
      // The pty may hand it over in two parts.
      if (this.text.slice(-(part.length + query.length - 1)).includes(query)) this.type(answer);
    });
  }

  /** Types a line and waits until it has ended. The first reply whose prompt is shown is typed, each reply once. */
  async run(line: string, replies: readonly Reply[] = [], timeout = 45_000): Promise<Ran> {
    await this.until(() => prompt.test(this.text), timeout);
    const started = performance.now();
    this.text = "";
    this.type(`${line}${enter}`);
    const left = [...replies];
    let since = 0;
    await this.until(() => {
      const shown = clean(this.text.slice(since));
      const next = prompt.test(this.text) ? -1 : left.findIndex(([on]) => on.test(shown));
      for (const [, types] of next < 0 ? [] : left.splice(next, 1)) {
        since = this.text.length;
        this.type(types);
      }
      return prompt.test(this.text);
    }, timeout);
    const [all, code] = prompt.exec(this.text)!;
    const printed = clean(this.text.slice(0, this.text.indexOf(all)));
    return { code: Number(code), text: printed, seconds: (performance.now() - started) / 1000 };
  }

  /** Types characters. */
  type(text: string): void {
    this.child.stdin!.write(text);
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.child.once("close", resolve));
    this.child.kill("SIGKILL");
    await closed;
  }

  /** Waits for a state of the output; throws with its end. */
  private async until(reached: () => boolean, timeout: number): Promise<void> {
    for (const end = performance.now() + timeout; !reached(); await sleep(10)) {
      if (performance.now() < end && this.child.exitCode === null) continue;
      const why = this.child.exitCode === null ? "the command still runs" : "the shell has ended";
      throw new Error(`${why}:\n${clean(this.text).slice(-3000)}`);
    }
  }
}

const clean = (text: string): string => stripVTControlCharacters(text).replaceAll("\r\n", "\n");
