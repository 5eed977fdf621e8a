/** The reporter. Exits 78 (EX_CONFIG) on faulty settings, and 3 where a recipient rejected a report. */
import { setbackOf } from "../builder/run/setback.ts";
import { isConfined } from "../confined.ts";
import { SettingsFault } from "../settings.ts";
import { channelsOf } from "./channels.ts";
import { sendAll } from "./send.ts";
import { readReporter } from "./settings.ts";

async function main(): Promise<void> {
  const reporter = readReporter();
  const { hook, folder } = reporter.settings;
  const journal = (line: object) => void process.stdout.write(`${JSON.stringify({ hook, ...line })}\n`);
  if (!(await sendAll(folder, channelsOf(reporter), journal, isConfined))) process.exitCode = 3;
}

// journald closes its end of the pipe when it restarts: a lost line must not stop a report.
process.stdout.on("error", () => {});

main().catch((error: unknown) => {
  const { message } = error instanceof SettingsFault ? error : setbackOf(error);
  process.stderr.write(`pushgate-reporter: ${message}\n`);
  process.exit(error instanceof SettingsFault ? 78 : 1);
});
