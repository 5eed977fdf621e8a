/**
 * The builder: works as long as markers are pending, and ends. Exits 78 (EX_CONFIG) on faulty settings, and 69
 * (EX_UNAVAILABLE) where the egress table does not limit its account: root loads it, and systemd starts the next builder.
 */
import { isConfined } from "../confined.ts";
import { start } from "../settings.ts";
import { makePlaces, placesOf } from "./places.ts";
import { buildPending, removeLeftovers } from "./run/build-pending.ts";
import { pausesOf } from "./run/pauses.ts";
import { setbackOf } from "./run/setback.ts";
import { reportEnd } from "./run/unit-end.ts";
import { readBuilder, readUnitEnd } from "./settings.ts";
import { gitOf } from "./source/git.ts";

async function main(): Promise<void> {
  const builder = readBuilder();
  process.umask(0o022); // other accounts read what is published
  const { settings } = builder;
  const places = placesOf(settings);
  const journal = (entry: object) => void process.stdout.write(`${JSON.stringify(entry)}\n`);
  if (process.argv[2] === "ended") {
    const entry = reportEnd(settings, places, readUnitEnd());
    if (entry) journal(entry);
    return;
  }
  makePlaces(places);
  removeLeftovers(places);
  const context = { settings, places, git: gitOf(builder), progress: journal };
  if (!(await buildPending(context, journal, pausesOf(settings), isConfined))) process.exitCode = 69;
}

start("pushgate-builder", main, setbackOf);
