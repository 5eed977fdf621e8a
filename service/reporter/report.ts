/** The reporter: sends what the builder has put into the outbox. It runs in a unit of its own, from the builder's bundle. */
import { isConfined } from "../confined.ts";
import { channelsOf } from "./channels.ts";
import { sendAll } from "./send.ts";
import type { Reporter } from "./settings.ts";

/** systemd starts the unit again after any other failure. */
const rejected = 3;

/** Returns the exit code. */
export async function report(reporter: Reporter): Promise<number> {
  const { hook, folder } = reporter.settings;
  const journal = (line: object) => void process.stdout.write(`${JSON.stringify({ hook, ...line })}\n`);
  return (await sendAll(folder, channelsOf(reporter), journal, isConfined)) ? 0 : rejected;
}
