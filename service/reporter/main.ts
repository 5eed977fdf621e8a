/** The reporter. Exits 78 (EX_CONFIG) on faulty settings, and 3 where a recipient rejected a report. */
import { setbackOf } from "../builder/run/setback.ts";
import { isConfined } from "../confined.ts";
import { environment, start } from "../settings.ts";
import { channelsOf } from "./channels.ts";
import { sendAll, testAll } from "./send.ts";
import { readReporter } from "./settings.ts";

async function main(): Promise<void> {
  const reporter = readReporter();
  const { hook, folder } = reporter.settings;
  const journal = (line: object) => void process.stdout.write(`${JSON.stringify({ hook, ...line })}\n`);
  const channels = channelsOf(reporter);
  const { PUSHGATE_TEST: test } = environment;
  if (test) journal({ test, answers: await testAll(channels, isConfined) });
  if (!(await sendAll(folder, channels, journal, isConfined))) process.exitCode = 3;
}

start("pushgate-reporter", main, setbackOf);
