/** Builds while they run: the builder's journal has a line for each step of a build, and for the end of each run. */
import { printable, printableLines } from "../../../service/printable.ts";
import { followOnHost, type Target } from "../../apply/run-on-host.ts";
import { objectIn } from "../../trace/attempts.ts";
import { orUserError } from "../../user-error.ts";
import { duration } from "../format.ts";
import { logsScript, reader } from "./logs.ts";

/** `step`: its name, or the result of a run that has ended, at `at` of its file; or none, and what the build printed. */
export type Step = Readonly<Record<"host" | "hook" | "step" | "at" | "output", string>> & { readonly isEnd: boolean };

/** The steps of these hooks' builds from now on, until `signal`. Throws a UserError where the host does not answer. */
export async function* stepsOn(host: Target, hooks: readonly string[], signal?: AbortSignal): AsyncGenerator<Step> {
  const read = reader(host.name);
  const script = logsScript({ sources: ["builder"], lines: 0, since: "now", deliveries: [], follow: true });
  for await (const line of followOnHost(host, script, signal)) {
    const { hook, at = "", step, result, output = "" } = objectIn(read(line)?.text ?? "");
    const of = hooks.find((name) => name === hook);
    if (of === undefined || (typeof step !== "string" && typeof result !== "string" && output === "")) continue;
    const said = { step: printable(String(step ?? result ?? "")), at: printable(String(at)) };
    const lines = printableLines(String(output));
    yield { host: host.name, hook: of, ...said, output: lines, isEnd: typeof result === "string" };
  }
}

/**
 * On standard error: what builds print, and in a terminal one line with the seconds of each step, elsewhere a line for each
 * step.
 */
export function stepLine() {
  const at = new Map<string, { readonly step: string; readonly since: number }>();
  const printed = new Map<string, string>();
  const isTerminal = process.stderr.isTTY;
  const text = () =>
    [...at].map(([name, { step, since }]) => `${name}: ${step} ${duration(Date.now() - since)}`).join(", ");
  const clear = () => void (isTerminal && process.stderr.write("\r\x1b[2K"));
  const write = () => void (at.size > 0 && process.stderr.write(`\r\x1b[2K${text()}`));
  const print = (line: string): void => {
    clear();
    console.error(line);
  };
  const timer = isTerminal ? setInterval(write, 200).unref() : undefined;
  return {
    print,
    show({ host, hook, step, output, isEnd }: Step): void {
      const name = `${hook} on ${host}`;
      if (step === "build") printed.set(name, "");
      if (output !== "") {
        printed.set(name, `${printed.get(name) ?? ""}${output}`);
        for (const line of output.trimEnd().split("\n")) print(`${name} | ${line}`);
      } else if (isEnd) {
        at.delete(name);
        clear();
      } else {
        at.set(name, { step, since: Date.now() });
        if (isTerminal) write();
        else console.error(`${name}: ${step}`);
      }
    },
    /** Without what was shown of a run already. */
    rest<Run extends { readonly host: string; readonly hook: string; readonly output?: string }>(runs: readonly Run[]) {
      const isShown = ({ host, hook, output }: Run) => printed.get(`${hook} on ${host}`)?.trimEnd() === output;
      return runs.map((run) => (isShown(run) ? { ...run, output: "" } : run));
    },
    end(): void {
      clearInterval(timer);
      clear();
    },
  };
}

/** Shows a hook's builds while `work` runs, which gets `rest` of stepLine, and goes on where they cannot be read. */
export async function withSteps<T>(
  on: readonly Target[],
  hook: string,
  work: (rest: ReturnType<typeof stepLine>["rest"]) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const line = stepLine();
  const watch = async (host: Target): Promise<void> => {
    for await (const step of stepsOn(host, [hook], stop.signal)) line.show(step);
  };
  const watching = on.map((host) => orUserError(watch(host)));
  const leave = (): void => {
    line.end();
    console.error("The hosts go on with it: npx pushgate deploys --follow shows how.");
    process.exit(130);
  };
  process.once("SIGINT", leave);
  try {
    return await work(line.rest);
  } finally {
    process.off("SIGINT", leave);
    stop.abort();
    await Promise.all(watching);
    line.end();
  }
}
