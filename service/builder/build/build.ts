/** A connection to the generator's socket starts a build and brings its output; root reports its end (decision 020). */
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { eachName, ifThere, remove } from "../files.ts";
import type { Places } from "../places.ts";
import { failed, rejected, type Setback } from "../run/setback.ts";
import type { BuilderSettings, UnitEnd } from "../settings.ts";
import { beginOfBuild, endOfFolders, mostPrinted, statsName } from "./content.ts";
import { watchDisk } from "./disk-watch.ts";
import { folderAdvice, reasonOf, versionAdvice, warningsOf } from "./hugo.ts";
import { pointerWarnings } from "./pointers.ts";

type Build = UnitEnd & { readonly output: string; readonly printed: string };

const mostOutput = 128 << 10; // characters of the output that are kept: a person reads the end of it
const slack = 60; // seconds beyond the build's own in which the unit starts and ends
const again = 250; // milliseconds between two tries while a former build holds the socket's only connection
const soon = 10; // milliseconds between two looks for the result, which root writes just after the connection ends
/** The first line, the folders and the line after them. */
const mostFirst = mostPrinted + 200;
const firstLine = new RegExp(`^${beginOfBuild}([0-9a-f]{32})\n`);

/** Builds `files` into an empty `out`. Returns what the unit printed of the folders. Adds to `warnings`. Throws Setback. */
export async function build(settings: BuilderSettings, places: Places, files: readonly string[], warnings: string[]) {
  const { generator, limits } = settings;
  // A former build that still runs keeps writing into the former folder, which is removed.
  setAside(places);
  mkdirSync(places.out);
  chmodSync(places.out, 0o777);
  provideStats(places, settings.folder);
  let over: Setback | undefined;
  const unwatch = watchDisk(limits, places, (setback) => {
    over = setback;
    // If the connection fails, this builder exits, and systemd ends the generator with it.
    stop(generator.socket, () => process.exit(1));
  });
  const built = await bySocket(settings, () => over !== undefined).finally(unwatch);
  if (over) throw over;
  warnings.push(...warningsOf(built.output), ...pointerWarnings(places.clone, files, built.printed, settings));
  const advice = folderAdvice(files, settings.folder);
  const version = versionAdvice(built.output, files);
  if (built.result !== "success" || built.code !== "exited") throw failed(reasonOf(built, limits, version) + advice);
  if (advice !== "") warnings.push(advice.trim()); // Hugo 0.168 builds without a configuration
  return { printed: built.printed, version, advice };
}

/** The unit mounts the stats over the source's file. A build begins with the repository's, else with the last ones. */
function provideStats({ clone, stats }: Places, folder = ""): void {
  const inSource = join(clone, folder, statsName);
  const stat = ifThere(() => lstatSync(inSource));
  if (stat && !stat.isFile()) throw rejected(`${statsName} in the repository is no file. Remove it.`);
  const given = stat && stat.size > 0;
  if (given || !ifThere(() => lstatSync(stats))) {
    remove(stats);
    if (given) copyFileSync(inSource, stats);
    else writeFileSync(stats, '{"htmlElements":{"tags":[],"classes":[],"ids":[]}}\n', { flag: "wx" });
    chmodSync(stats, 0o666); // as the cache
  }
  // The unit mounts the stats over this file. An empty one is the builder's, as the generator never writes one.
  if (!stat) writeFileSync(inSource, "", { flag: "wx" });
}

/** A connection starts a unit of root that kills the generator's and removes what the builder could not. */
const stop = (socket: string, orElse: () => void): Socket => connect(`${socket}.stop`).on("error", orElse).resume();

/** Moves the former output, or another folder that it writes, away and removes it. */
export function setAside({ work, out }: Places, folder = out): void {
  ifThere(() => renameSync(folder, join(work, `former-${Date.now()}-${process.pid}`)));
  for (const name of readdirSync(work).filter((name) => name.startsWith("former-")))
    try {
      remove(join(work, name));
    } catch {} // folders that another account closed, or deeper than a path may be: root removes them
}

/** Where there is what the builder may not remove: of the generator's account, and folders that members put into requests. */
export function removeAsRoot({ generator, reports }: BuilderSettings, { work, spool, requests, rootRequests }: Places) {
  for (const folder of [work, spool, requests, rootRequests, ...(reports ? [reports.folder] : [])])
    for (const name of eachName(folder))
      if (/^(former|\.aside)-/.test(`${name}`)) return void stop(generator.socket, () => {});
}

const stopped: UnitEnd = { result: "signal", code: "killed", status: "KILL" };

async function bySocket({ generator, limits }: BuilderSettings, isStopped: () => boolean): Promise<Build> {
  const { socket, result } = generator;
  const until = Date.now() + (limits.seconds + slack) * 1000;
  let busy = false;
  for (;;) {
    const { first, output } = await listen(socket, until - Date.now(), busy);
    const [line, id] = firstLine.exec(first) ?? [];
    if (line !== undefined) return { ...(await endOf(id!, result, until, isStopped)), ...parted(first, line, output) };
    if (first !== "") return { result: "no first line", code: "", status: "", output, printed: "" };
    // The disk watch stopped the former build, and watches no other.
    if (isStopped()) return { ...stopped, output, printed: "" };
    // A site has one builder: the build that has the connection is of one that was killed.
    if (!busy) await new Promise((resolve) => stop(socket, () => {}).once("close", resolve));
    busy = true;
    if (Date.now() > until) throw neverEnds(busy);
    await sleep(again);
  }
}

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

const neverEnds = (busy = false): Setback => {
  if (busy) return failed("a former build does not end. Run systemctl stop 'pushgate-generator-*'.");
  return failed("The generator's unit neither builds nor ends. Run systemctl status 'pushgate-generator-*'.");
};

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
      throw failed(`${socket} does not answer (${code}). Run systemctl restart 'pushgate-generator-*.socket'.`);
  }
  return { first, output };
}
