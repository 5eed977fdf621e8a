/** Prints the state of each hook on each host: the published release, the last result, and the work that waits. */
import { command, type Options, ofStack, targets } from "../command.ts";
import { readStack, UserError } from "../stack.ts";
import { type Hook, readHost } from "./host-report.ts";
import { faultsOf, type Host, reportText, type Seen } from "./report-text.ts";

async function see(host: Host, hooks: readonly Hook[]): Promise<Seen> {
  if (host.state !== "present") return { host, fault: `is declared ${host.state}, so it was not queried` };
  try {
    return { host, report: await readHost(host, hooks) };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { host, fault: error.message };
  }
}

export const status = command({
  takes: ["host", "json"],
  examples: [
    [
      "status",
      "exits 1 if a host is unreachable, a build is failing, a systemd unit is down or the guard has no proof",
    ],
    ["status --json", "for a monitor"],
  ],
}).action(async (options: Options) => {
  const { hosts, hooks } = await readStack(ofStack(options));
  const named = hooks.map(({ name, site }) => ({
    ...{ name, built: site !== undefined },
    scheduled: site?.schedule !== undefined,
  }));
  const wanted = options.host === undefined ? hosts : targets(hosts, options);
  const seen = await Promise.all(wanted.map((host) => see(host, named)));
  const faults = seen.flatMap((one) => faultsOf(one));
  if (options.json) {
    const reports = seen.map(({ host: { name, ssh, state }, report, fault }) => ({
      ...{ name, ssh, state },
      ...(report ?? { fault }),
    }));
    console.log(JSON.stringify({ hosts: reports, faults }, null, 2));
  } else {
    for (const one of seen) console.log(reportText(one, hooks).join("\n"));
    console.log(faults.length === 0 ? "No faults." : `Faults:\n  ${faults.join("\n  ")}`);
  }
  if (faults.length > 0) process.exitCode = 1;
});
