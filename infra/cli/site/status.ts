/** Prints the state of each hook on each host: the published release, the last result, and the work that waits. */
import { setTimeout as sleep } from "node:timers/promises";
import { Option } from "commander";
import { version } from "../../apply/version.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command, type Options, ofStack, targets } from "../command.ts";
import { type Declared, type Host, readStack } from "../stack.ts";
import { readHost } from "./host-report.ts";
import { faultsOf, reportText, type Seen } from "./report-text.ts";

async function see(host: Host, hooks: Declared["hooks"]): Promise<Seen> {
  if (host.state !== "present") return { host, fault: `is declared ${host.state}, so it was not queried` };
  const report = await orUserError(readHost(host, hooks));
  return report instanceof UserError ? { host, fault: report.message } : { host, report };
}

export const status = command({
  takes: ["host", "json"],
  examples: [
    ["status", "exits 1 if a host is unreachable, a build fails, a systemd unit is down or the guard has no proof"],
    ["status --json", "for a monitor"],
  ],
})
  .addOption(new Option("--watch", "print it again every two seconds, until Ctrl-C").conflicts("json"))
  .action(async (options: Options & { watch?: boolean }) => {
    if (options.watch) process.stdout.once("error", () => process.exit());
    do {
      const printed = await textOf(options);
      // In a terminal in place of the former one.
      console.log(options.watch && process.stdout.isTTY ? `\x1b[H\x1b[2J${printed}` : printed);
      if (options.watch) await sleep(2_000);
    } while (options.watch);
  });

/** Sets the exit status to 1 where there is a fault. */
async function textOf(options: Options): Promise<string> {
  const { hosts, hooksAndPreviews: hooks } = await readStack(ofStack(options));
  const wanted = options.host === undefined ? hosts : targets(hosts, options);
  const seen = await Promise.all(wanted.map((host) => see(host, hooks)));
  const faults = seen.flatMap(faultsOf);
  process.exitCode = faults.length > 0 ? 1 : 0;
  if (options.json) {
    const reports = seen.map(({ host: { name, ssh, state }, ...found }) => ({
      ...{ name, ssh, state },
      ...(found.report ?? found),
    }));
    return JSON.stringify({ version, hosts: reports, faults }, null, 2);
  }
  const lines = [`pushgate ${version}\n`, ...seen.flatMap((one) => reportText(one, hooks))];
  return [...lines, faults.length === 0 ? "No faults." : `Faults:\n  ${faults.join("\n  ")}`].join("\n");
}
