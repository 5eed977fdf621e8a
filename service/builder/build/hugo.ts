/**
 * The build: a connection to the socket of Hugo's unit starts Hugo and brings its output. How the build ended is in a
 * file that root alone writes, after the last process of the build: the repository's code may write what it likes to
 * the connection, and close it when it likes.
 */
import { once } from "node:events";
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { printable } from "../../printable.ts";
import { ifThere, remove } from "../files.ts";
import type { Places } from "../places.ts";
import { diskFull, failed, rejected, type Setback } from "../run/setback.ts";
import type { BuilderSettings, UnitEnd } from "../settings.ts";
import { endOfFolders, mostPrinted } from "../source/content.ts";
import { watchDisk } from "./disk-watch.ts";

type Build = UnitEnd & { readonly output: string; readonly printed: string };

const mostOutput = 128 << 10; // characters of Hugo's output that are kept: a person reads the end of it
const slack = 60; // seconds beyond Hugo's own in which its unit starts and ends
const again = 250; // milliseconds between two tries while a former Hugo holds the socket's only connection
const soon = 10; // milliseconds between two looks for the result, which root writes just after the connection ends
/** The first line, the folders and the line after them; less than what is kept of the output. */
const mostFirst = mostPrinted + 200;
const firstLine = /^pushgate-hugo build=([0-9a-f]{32})\n/;

/** Builds into an empty `out`. Returns what the unit printed of the content's folders. Throws Setback. */
export async function build(settings: BuilderSettings, places: Places): Promise<string> {
  const { hugo, limits } = settings;
  // Hugo that still runs keeps writing into the former folder, which is removed.
  setAside(places);
  mkdirSync(places.out);
  chmodSync(places.out, 0o777);
  provideStats(places, settings.folder);
  let over: Setback | undefined;
  const unwatch = watchDisk(limits, places, (setback) => {
    over = setback;
    // If the connection fails, this builder exits, and systemd ends Hugo with it.
    stop(hugo.socket, () => process.exit(1));
  });
  const built = await bySocket(hugo, limits.seconds, () => over !== undefined).finally(unwatch);
  if (over) throw over;
  if (built.result !== "success" || built.code !== "exited") throw failed(reasonOf(built, limits));
  return built.printed;
}

/**
 * What Hugo writes with `build.writeStats` is in a file beside the clone, which its unit mounts over the one in the
 * source. A build begins with the repository's file, else with that of the last build.
 */
function provideStats({ clone, stats }: Places, folder = ""): void {
  const inSource = join(clone, folder, statsName);
  const stat = ifThere(() => lstatSync(inSource));
  if (stat && !stat.isFile()) throw rejected(`${statsName} in the repository is no file. Remove it.`);
  if (stat && stat.size > 0) writeAnew(stats, readFileSync(inSource));
  else if (!ifThere(() => lstatSync(stats))) writeAnew(stats, noStats);
  // The unit mounts the stats over this file. An empty one is the builder's, as Hugo never writes one.
  if (!stat) writeFileSync(inSource, "", { flag: "wx" });
}

const statsName = "hugo_stats.json";
/** The stats of a site without pages, as Hugo writes them. */
const noStats = '{"htmlElements":{"tags":[],"classes":[],"ids":[]}}\n';

function writeAnew(path: string, text: Buffer | string): void {
  remove(path);
  writeFileSync(path, text, { flag: "wx" });
  // Hugo's account writes it; no other account gets past `work`.
  chmodSync(path, 0o666);
}

/** A connection starts a unit of root that kills Hugo's and removes what the builder could not. */
const stop = (socket: string, orElse: () => void): Socket => connect(`${socket}.stop`).on("error", orElse).resume();

/** Moves the former output, or another folder that Hugo writes, away and removes it. */
export function setAside({ work, out }: Places, folder = out): void {
  ifThere(() => renameSync(folder, join(work, `former-${Date.now()}-${process.pid}`)));
  for (const name of readdirSync(work).filter((name) => name.startsWith("former-")))
    try {
      remove(join(work, name));
    } catch {
      // Folders that another account closed, or deeper than a path may be: root removes them.
    }
}

/** Has root remove what `setAside` could not. */
export function removeAsRoot({ hugo }: BuilderSettings, { work }: Places): void {
  if (readdirSync(work).some((name) => name.startsWith("former-"))) stop(hugo.socket, () => {});
}

/** How a build ends that the disk's watch has stopped. */
const stopped: UnitEnd = { result: "signal", code: "killed", status: "KILL" };

async function bySocket(
  { socket, result }: BuilderSettings["hugo"],
  seconds: number,
  isStopped: () => boolean,
): Promise<Build> {
  const until = Date.now() + (seconds + slack) * 1000;
  let busy = false;
  for (;;) {
    const { first, output } = await listen(socket, until - Date.now(), busy);
    const [line, id] = firstLine.exec(first) ?? [];
    if (line !== undefined) return { ...(await endOf(id!, result, until, isStopped)), ...parted(first, line, output) };
    if (first !== "") return { result: "no first line", code: "", status: "", output, printed: "" };
    // The disk watch stopped the former build. Do not start another: the disk is no longer watched.
    if (isStopped()) return { ...stopped, output, printed: "" };
    // A site has one builder: the build that has the connection is of one that was killed.
    if (!busy) await new Promise((resolve) => stop(socket, () => {}).once("close", resolve));
    busy = true;
    if (Date.now() > until) throw neverEnds(busy);
    await sleep(again);
  }
}

/** What the unit printed before Hugo built, and what came after it. */
function parted(first: string, line: string, output: string): Pick<Build, "output" | "printed"> {
  const end = `${endOfFolders}\n`;
  const at = first.indexOf(end);
  if (at < 0) return { output, printed: "" };
  return { printed: first.slice(line.length, at), output: output.slice(output.indexOf(end) + end.length) };
}

/** How the build of this id ended. A build may close the connection long before its end. */
async function endOf(id: string, file: string, until: number, isStopped: () => boolean): Promise<UnitEnd> {
  for (;;) {
    const text = ifThere(() => readFileSync(file, "utf8")) ?? "";
    const [build, result = "", code = "", status = ""] = text.trimEnd().split(" ");
    if (build === id) return { result, code, status };
    // systemd 257 kills root's report together with a build that is stopped for its size.
    if (isStopped()) return stopped;
    if (Date.now() > until) throw neverEnds();
    await sleep(soon);
  }
}

const neverEnds = (busy = false): Setback =>
  failed(
    busy
      ? "a former build does not end. Run systemctl stop 'pushgate-hugo-*'."
      : "Hugo's unit neither builds nor ends. Run systemctl status 'pushgate-hugo-*'.",
  );

/** The beginning and the end of what comes until the connection closes. `busy`: a former build held it until now. */
async function listen(socket: string, milliseconds: number, busy: boolean): Promise<{ first: string; output: string }> {
  let first = "";
  let output = "";
  const connection = connect(socket).setEncoding("utf8");
  connection.on("data", (part: string) => {
    if (first.length < mostFirst) first += part.slice(0, mostFirst);
    output = (output + part).slice(-mostOutput);
  });
  try {
    await once(connection, "close", { signal: AbortSignal.timeout(Math.max(1, Math.ceil(milliseconds))) });
  } catch (error) {
    connection.destroy();
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ABORT_ERR") throw neverEnds(busy);
    // A unit with its one connection may reset the second.
    if (code !== "ECONNRESET" && code !== "EPIPE")
      throw failed(`${socket} does not answer (${code}). Run systemctl restart 'pushgate-hugo-*.socket'.`);
  }
  return { first, output };
}

/** A lack of processes in the words of Go, of a C library, and of the shells and Node that start a site's tools. */
const noMoreProcesses =
  /pthread_create failed|failed to create new OS thread|fork\/exec \S+: resource temporarily unavailable|: Cannot fork\b|fork: (retry: )?Resource temporarily unavailable|spawn \S+ EAGAIN/;

function reasonOf({ result, code, status, output }: Build, limits: BuilderSettings["limits"]): string {
  const of = (limit: number | undefined, unit = "") => (limit === undefined ? "" : ` (${limit}${unit})`);
  if (/no space left on device|disk quota exceeded/i.test(output)) return diskFull;
  if (noMoreProcesses.test(output))
    return `Hugo reached its limit of processes and threads${of(limits.tasks)}. Raise hooks[].site.limits.tasks.`;
  // Go's own words, where the kernel denied memory instead of killing Hugo (LimitDATA=).
  const memoryDenied = /^fatal error: .*(out of memory|cannot allocate memory)/m.test(output);
  const said = lastLines(output);
  switch (memoryDenied ? "oom-kill" : result) {
    case "oom-kill":
      return `the build reached its memory limit${of(limits.memoryMiB, " MiB")}. Raise hooks[].site.limits.memoryMiB.`;
    case "timeout":
      if (code === "exited") return "Hugo ended, and its unit did not: the host is too busy to build. Reduce its load.";
      return `the build took longer than its ${limits.seconds} s. Raise hooks[].site.limits.seconds.`;
    // systemd calls SIGTERM a success.
    case "success":
    case "signal":
    case "core-dump":
      return `Hugo was ended by the signal ${status}: by a person, or by a host without memory. See journalctl -k.`;
    case "resources":
      return "the host lacks the resources to start Hugo. See journalctl -u 'pushgate-hugo-*'.";
    case "exit-code":
      // systemd's status where it cannot execute a program.
      if (status === "203")
        return "Hugo cannot be started. Run apt-get install hugo, or correct hooks[].site.hugo.path.";
      // The unit's own program did not start Hugo, and says why.
      if (status === "78") return said;
      return `${templateOf(output) ?? "Hugo failed"}: ${said}`;
    default:
      return `Hugo's unit ended by ${printable(result, 30)}. See journalctl -u 'pushgate-hugo-*'. Its output: ${said}`;
  }
}

const templateOf = (output: string): string | undefined => {
  const path = /((?:themes\/[^\s":]+\/)?layouts\/[^\s":]+):\d+/.exec(output)?.[1];
  return path && `the template ${printable(path, 200)} failed`;
};

/** Hugo's errors, without greeting, totals and its whole security configuration. */
function lastLines(output: string): string {
  const lines = [...new Set(output.split("\n").map((line) => line.trim()))].filter(
    (line) =>
      line !== "" &&
      !/^(pushgate-hugo build=|Start building|hugo v|Total in|\||-+\+|WARN)|logged \d+ error\(s\)$/.test(line),
  );
  const errors = lines.filter((line) => /^(ERROR|Error:|panic:|fatal)/.test(line));
  const words = (errors.length > 0 ? errors.slice(0, 3) : lines.slice(-3)).map((line) =>
    line.replace(/^(ERROR|Error:) (\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d )?|; the current security configuration is:/g, ""),
  );
  return printable(words.join(" | "), 1_000);
}
