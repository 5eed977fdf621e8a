/** Prints the state of each hook on each host: the published release, the last result, and the work that waits. */
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
}).action(async (options: Options) => {
  const { hosts, hooks } = await readStack(ofStack(options));
  const wanted = options.host === undefined ? hosts : targets(hosts, options);
  const seen = await Promise.all(wanted.map((host) => see(host, hooks)));
  const faults = seen.flatMap(faultsOf);
  if (options.json) {
    const reports = seen.map(({ host: { name, ssh, state }, ...found }) => ({
      ...{ name, ssh, state },
      ...(found.report ?? found),
    }));
    console.log(JSON.stringify({ hosts: reports, faults }, null, 2));
  } else {
    for (const one of seen) console.log(reportText(one, hooks).join("\n"));
    console.log(faults.length === 0 ? "No faults." : `Faults:\n  ${faults.join("\n  ")}`);
  }
  if (faults.length > 0) process.exitCode = 1;
});
