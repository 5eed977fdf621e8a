/**
 * The build: a connection to the hugo unit's socket. The builder sends nothing; the unit sends hugo's output and last a
 * line that reports how hugo ended. The builder reads what hugo wrote only after that line.
 */
import { chmodSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Builder } from "../settings.ts";
import { ifThere, remove } from "./files.ts";
import type { Places } from "./places.ts";
import { diskFull, failed, printable, type Setback } from "./setback.ts";

type Build = { readonly result: string; readonly code: string; readonly status: string; readonly output: string };

/** Characters of hugo's output that are kept: a person reads the end of it. */
const mostOutput = 64 << 10;

/** Seconds beyond hugo's own for its unit to start, to end and to say so. */
const slack = 60;

/** Milliseconds between two tries while a former builder's hugo still runs: it takes one connection at a time. */
const again = 250;

/** Builds, and returns the folder with what was written. Throws Setback. */
export async function build(builder: Builder, places: Places): Promise<string> {
  const { hugo, limits } = builder.settings;
  const out = freshOut(places);
  const built = await bySocket(hugo.socket, limits.seconds);
  if (built.result !== "success") throw setback(built, limits);
  return out;
}

/**
 * A folder nobody has open: the former one is moved away, so that a hugo that still runs writes into what is thrown
 * away. Its folders are opened to us by its unit when it ends.
 */
function freshOut(places: Places): string {
  retireOut(places);
  mkdirSync(places.out);
  chmodSync(places.out, 0o777);
  return places.out;
}

export function retireOut({ work, out }: Places): void {
  ifThere(() => renameSync(out, join(work, `former-${Date.now()}-${process.pid}`)));
  clearFormer(work);
}

/** What can't be removed is another user's, of a hugo that was cut off: it is tried again each time. */
function clearFormer(work: string): void {
  for (const name of readdirSync(work))
    if (name.startsWith("former-"))
      try {
        remove(join(work, name));
      } catch {}
}

async function bySocket(socket: string, seconds: number): Promise<Build> {
  const until = Date.now() + (seconds + slack) * 1000;
  for (;;) {
    const said = await listen(socket, until - Date.now());
    const last = said.trimEnd().split("\n").at(-1) ?? "";
    const told = /^pushgate-hugo result=(\S*) code=(\S*) status=(\S*)$/.exec(last);
    if (told) {
      const output = said.slice(0, said.lastIndexOf(last));
      return { result: told[1]!, code: told[2]!, status: told[3]!, output };
    }
    if (said !== "") return { result: "no last line", code: "", status: "", output: said };
    if (Date.now() > until) throw failed("a former build does not end: systemctl stop 'pushgate-hugo-*'");
    await sleep(again);
  }
}

/** The end of what the unit sends until it closes the connection. */
function listen(socket: string, milliseconds: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const connection = connect(socket).setEncoding("utf8");
    const timer = setTimeout(() => {
      connection.destroy();
      reject(failed("hugo's unit neither builds nor ends: systemctl status 'pushgate-hugo-*'"));
    }, milliseconds);
    connection.on("data", (part: string) => {
      said += part;
      if (said.length > 2 * mostOutput) said = said.slice(-mostOutput);
    });
    connection.on("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      // A unit at its one connection may reset the second.
      if (error.code === "ECONNRESET" || error.code === "EPIPE") resolve(said);
      else
        reject(
          failed(`hugo's socket ${socket} does not answer (${error.code}): systemctl restart 'pushgate-hugo-*.socket'`),
        );
    });
    connection.on("close", () => {
      clearTimeout(timer);
      resolve(said);
    });
  });
}

/** In the words of Go, of a C library, and of the shells and Node that site tools are started by. */
const noMoreProcesses =
  /pthread_create failed|failed to create new OS thread|fork\/exec \S+: resource temporarily unavailable|: Cannot fork\b|fork: (retry: )?Resource temporarily unavailable|spawn \S+ EAGAIN/;

/** How a build that failed is told; systemd.exec(5) names the results. */
function setback({ result, code, status, output }: Build, limits: Builder["settings"]["limits"]): Setback {
  if (/no space left on device|disk quota exceeded/i.test(output)) return failed(diskFull);
  if (noMoreProcesses.test(output))
    return failed(`hugo met its limit of processes and threads${of(limits.tasks)}: raise hooks[].site.limits.tasks`);
  // Go's own words, where the kernel refused instead of killing (LimitDATA=).
  const memoryRefused = /^fatal error: .*(out of memory|cannot allocate memory)/m.test(output);
  const tail = lastLines(output);
  switch (memoryRefused ? "oom-kill" : result) {
    case "oom-kill":
      return failed(
        `the build was ended by its memory limit${of(limits.memoryMiB, " MiB")}: raise hooks[].site.limits.memoryMiB`,
      );
    case "timeout":
      // hugo ended by itself: it was what follows it that took too long.
      if (code === "exited") return failed("hugo ended, and its unit did not: the machine is too busy to build");
      return failed(`the build took longer than its ${limits.seconds} s: raise hooks[].site.limits.seconds`);
    case "signal":
    case "core-dump":
      return failed(`hugo was ended by the signal ${status}: by hand, or by a machine without memory (journalctl -k)`);
    case "resources":
      return failed("the machine has not the resources to start hugo: journalctl -u 'pushgate-hugo-*'");
    case "exit-code":
      if (status === "203")
        return failed("hugo can't be started: apt-get install hugo, or correct hooks[].site.hugo.path");
      return failed(`${templateOf(output) ?? "hugo failed"}: ${tail}`);
    default:
      return failed(
        `hugo's unit ended by ${printable(result, 30)}: journalctl -u 'pushgate-hugo-*'${tail && `; it said: ${tail}`}`,
      );
  }
}

const of = (limit: number | undefined, unit = ""): string => (limit === undefined ? "" : ` (${limit}${unit})`);

const templateOf = (output: string): string | undefined => {
  const path = /((?:themes\/[^\s":]+\/)?layouts\/[^\s":]+):\d+/.exec(output)?.[1];
  return path && `the template ${printable(path, 200)} failed`;
};

/** hugo's errors, without what it says beside them: greeting, totals, and its whole security configuration. */
function lastLines(output: string): string {
  const lines = [...new Set(output.split("\n").map((line) => line.trim()))].filter(
    (line) => line !== "" && !/^(Start building|hugo v|Total in|\||-+\+|WARN)|logged \d+ error\(s\)$/.test(line),
  );
  const errors = lines.filter((line) => /^(ERROR|Error:|panic:|fatal)/.test(line));
  const words = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-3)).map((line) =>
    line
      .replace(/^(ERROR|Error:) (\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d )?/, "")
      .replace(/; the current security configuration is:$/, ""),
  );
  return printable(words.join(" | "), 1_000);
}
