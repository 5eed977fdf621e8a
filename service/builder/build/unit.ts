/** A connection to the socket of a unit starts it and brings its output; root reports its end (decision 020). */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ifThere } from "../files.ts";
import type { Places } from "../places.ts";
import { failed, type Setback } from "../run/setback.ts";
import type { BuilderSettings, Ended, UnitEnd } from "../settings.ts";
import { firstLine } from "./content.ts";
import { watchDisk } from "./disk-watch.ts";

type Kind = "generator" | "fetcher";

const mostOutput = 128 << 10; // characters of the output that are kept: a person reads the end of it
const slack = 60; // seconds beyond the unit's own in which it starts and ends
const again = 250; // milliseconds between two tries while a former build holds the socket's only connection
const soon = 10; // milliseconds between two looks for the result, where a build closes its connection before its end
const mostFirst = 100; // characters, of which the first line has fewer

/** `sent`: on its standard input. `shows` gets what it prints as it comes. */
type Talk = { readonly sent?: string; readonly shows?: (part: string) => void };

/** Ends it where it takes too much of the disk. Throws Setback. */
export async function runUnit(settings: BuilderSettings, places: Places, kind: Kind, talk: Talk = {}): Promise<Ended> {
  let over: Setback | undefined;
  const unwatch = watchDisk(settings.limits, places, (setback) => {
    over = setback;
    // If the connection fails, this builder exits, and systemd ends the unit with it.
    stop(settings, () => process.exit(1));
  });
  const ended = await bySocket(settings, kind, talk, () => over !== undefined).finally(unwatch);
  if (over) throw over;
  return ended;
}

/** A connection starts a unit of root that kills generator and fetcher, and removes what the builder could not. */
export const stop = ({ generator }: Pick<BuilderSettings, "generator">, orElse: () => void): Socket =>
  connect(`${generator.socket}.stop`).on("error", orElse).resume();

const stopped: UnitEnd = { result: "signal", code: "killed", status: "KILL" };

async function bySocket(settings: BuilderSettings, kind: Kind, talk: Talk, isStopped: () => boolean): Promise<Ended> {
  const { socket, result } = settings[kind];
  const until = Date.now() + (settings.limits.seconds + slack) * 1000;
  let busy = false;
  for (;;) {
    const { first, output } = await listen(kind, socket, talk, until, busy);
    const [, id] = firstLine.exec(first) ?? [];
    if (id !== undefined)
      return { ...(await endOf(kind, id, result, until, isStopped)), output: output.replace(firstLine, "") };
    if (first !== "") return { result: "no first line", code: "", status: "", output };
    // The disk watch stopped the former build, and watches no other.
    if (isStopped()) return { ...stopped, output };
    // A site has one builder: the build that has the connection is of one that was killed.
    if (!busy) await new Promise((resolve) => stop(settings, () => {}).once("close", resolve));
    busy = true;
    if (Date.now() > until) throw neverEnds(kind, busy);
    await sleep(again);
  }
}

/** How the build of this id ended. A build may close the connection long before its end. */
async function endOf(kind: Kind, id: string, file: string, until: number, isStopped: () => boolean): Promise<UnitEnd> {
  for (;;) {
    const text = ifThere(() => readFileSync(file, "utf8")) ?? "";
    const [build, result = "", code = "", status = ""] = text.trimEnd().split(" ");
    if (build === id) return { result, code, status };
    // systemd 257 kills root's report together with a build that is stopped for its size.
    if (isStopped()) return stopped;
    if (Date.now() > until) throw neverEnds(kind);
    await sleep(soon);
  }
}

const neverEnds = (kind: Kind, busy = false): Setback => {
  if (busy) return failed(`a former build does not end. Run systemctl stop 'pushgate-${kind}-*'.`);
  return failed(`The ${kind}'s unit neither works nor ends. Run systemctl status 'pushgate-${kind}-*'.`);
};

/** The beginning and the end of what comes until the connection closes. `busy`: a former build held it until now. */
async function listen(kind: Kind, socket: string, talk: Talk, until: number, busy: boolean) {
  const { sent = "", shows = () => {} } = talk;
  let first = "";
  let output = "";
  const connection = connect(socket).setEncoding("utf8");
  connection.write(sent);
  connection.on("data", (part: string) => {
    if (first.length < mostFirst) first += part.slice(0, mostFirst);
    output = (output + part).slice(-mostOutput);
    shows(part);
  });
  try {
    const signal = AbortSignal.timeout(Math.max(1, Math.ceil(until - Date.now())));
    await once(connection, "close", { signal });
  } catch (error) {
    connection.destroy();
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ABORT_ERR") throw neverEnds(kind, busy);
    // A unit with its one connection may reset the second.
    if (code !== "ECONNRESET" && code !== "EPIPE")
      throw failed(`${socket} does not answer (${code}). Run systemctl restart 'pushgate-${kind}-*.socket'.`);
  }
  return { first, output };
}
