/** The build: the hugo unit sends hugo's output over its socket, and last a line that reports how hugo ended. */
import { once } from "node:events";
import { chmodSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ifThere, remove } from "./files.ts";
import type { Places } from "./places.ts";
import { diskFull, failed, printable } from "./setback.ts";
import type { BuilderSettings } from "./settings.ts";

type Build = { readonly result: string; readonly code: string; readonly status: string; readonly output: string };

const mostOutput = 128 << 10; // characters of hugo's output that are kept: a person reads the end of it
const slack = 60; // seconds beyond hugo's own in which its unit starts, ends and sends its last line
const again = 250; // milliseconds between two tries while a former hugo holds the socket's only connection

/** Builds into an empty `out`. Throws Setback. */
export async function build({ hugo, limits }: BuilderSettings, places: Places): Promise<void> {
  // A hugo that still runs keeps writing into the former folder, which is removed.
  retireOut(places);
  mkdirSync(places.out);
  chmodSync(places.out, 0o777);
  const built = await bySocket(hugo.socket, limits.seconds);
  if (built.result !== "success") throw failed(reasonOf(built, limits));
}

/** Moves the former output away and removes it. */
export function retireOut({ work, out }: Places): void {
  ifThere(() => renameSync(out, join(work, `former-${Date.now()}-${process.pid}`)));
  for (const name of readdirSync(work).filter((name) => name.startsWith("former-")))
    try {
      remove(join(work, name));
    } catch {
      // Folders of another account, of a hugo that was killed: the unit's ExecStartPre= removes them as root.
    }
}

async function bySocket(socket: string, seconds: number): Promise<Build> {
  const until = Date.now() + (seconds + slack) * 1000;
  for (;;) {
    const said = await listen(socket, until - Date.now());
    const last = said.trimEnd().split("\n").at(-1) ?? "";
    const [, result, code = "", status = ""] = /^pushgate-hugo result=(\S*) code=(\S*) status=(\S*)$/.exec(last) ?? [];
    if (result !== undefined) return { result, code, status, output: said.slice(0, said.lastIndexOf(last)) };
    if (said !== "") return { result: "no last line", code, status, output: said };
    if (Date.now() > until) throw failed("a former build does not end. Run systemctl stop 'pushgate-hugo-*'.");
    await sleep(again);
  }
}

/** The end of what the unit sends until it closes the connection. */
async function listen(socket: string, milliseconds: number): Promise<string> {
  let said = "";
  const connection = connect(socket).setEncoding("utf8");
  connection.on("data", (part: string) => {
    said = (said + part).slice(-mostOutput);
  });
  try {
    await once(connection, "close", { signal: AbortSignal.timeout(Math.max(1, Math.ceil(milliseconds))) });
  } catch (error) {
    connection.destroy();
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ABORT_ERR")
      throw failed("the unit of hugo neither builds nor ends. Run systemctl status 'pushgate-hugo-*'.");
    // A unit with its one connection may reset the second.
    if (code !== "ECONNRESET" && code !== "EPIPE")
      throw failed(`${socket} does not answer (${code}). Run systemctl restart 'pushgate-hugo-*.socket'.`);
  }
  return said;
}

/** In the words of Go, of a C library, and of the shells and Node that start a site's tools. */
const noMoreProcesses =
  /pthread_create failed|failed to create new OS thread|fork\/exec \S+: resource temporarily unavailable|: Cannot fork\b|fork: (retry: )?Resource temporarily unavailable|spawn \S+ EAGAIN/;

function reasonOf({ result, code, status, output }: Build, limits: BuilderSettings["limits"]): string {
  const of = (limit: number | undefined, unit = "") => (limit === undefined ? "" : ` (${limit}${unit})`);
  if (/no space left on device|disk quota exceeded/i.test(output)) return diskFull;
  if (noMoreProcesses.test(output))
    return `hugo reached its limit of processes and threads${of(limits.tasks)}. Raise hooks[].site.limits.tasks.`;
  // Go's own words, where the kernel denied memory instead of killing hugo (LimitDATA=).
  const memoryDenied = /^fatal error: .*(out of memory|cannot allocate memory)/m.test(output);
  const said = lastLines(output);
  switch (memoryDenied ? "oom-kill" : result) {
    case "oom-kill":
      return `the build reached its memory limit${of(limits.memoryMiB, " MiB")}. Raise hooks[].site.limits.memoryMiB.`;
    case "timeout":
      if (code === "exited") return "hugo ended, and its unit did not: the host is too busy to build. Reduce its load.";
      return `the build took longer than its ${limits.seconds} s. Raise hooks[].site.limits.seconds.`;
    case "signal":
    case "core-dump":
      return `hugo was ended by the signal ${status}: by a person, or by a host without memory. See journalctl -k.`;
    case "resources":
      return "the host lacks the resources to start hugo. See journalctl -u 'pushgate-hugo-*'.";
    case "exit-code":
      // systemd's status where it can't execute a program.
      if (status === "203")
        return "hugo can't be started. Run apt-get install hugo, or correct hooks[].site.hugo.path.";
      return `${templateOf(output) ?? "hugo failed"}: ${said}`;
    default:
      return `the unit of hugo ended by ${printable(result, 30)}. See journalctl -u 'pushgate-hugo-*'. Its output: ${said}`;
  }
}

const templateOf = (output: string): string | undefined => {
  const path = /((?:themes\/[^\s":]+\/)?layouts\/[^\s":]+):\d+/.exec(output)?.[1];
  return path && `the template ${printable(path, 200)} failed`;
};

/** hugo's errors, without greeting, totals and its whole security configuration. */
function lastLines(output: string): string {
  const lines = [...new Set(output.split("\n").map((line) => line.trim()))].filter(
    (line) => line !== "" && !/^(Start building|hugo v|Total in|\||-+\+|WARN)|logged \d+ error\(s\)$/.test(line),
  );
  const errors = lines.filter((line) => /^(ERROR|Error:|panic:|fatal)/.test(line));
  const words = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-3)).map((line) =>
    line.replace(/^(ERROR|Error:) (\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d )?|; the current security configuration is:$/g, ""),
  );
  return printable(words.join(" | "), 1_000);
}
