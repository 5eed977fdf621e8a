/**
 * Prints the state of each hook on each host: the published release, the last result, and the work that waits.
 *
 *   npm run status                    for a person
 *   npm run status -- --json          the same for a program
 *   npm run status -- --stack prod    another stack than the selected one
 *
 * Exit status 1 if a host is unreachable, a build is failing or a systemd unit is down; otherwise 0.
 */
import { parseArgs } from "node:util";
import { type Hook, readHost } from "./host-report.ts";
import { faultsOf, type Host, reportText, type Seen } from "./report-text.ts";
import { main, readStack, stackArgs, UserError } from "./stack.ts";

async function see(host: Host, hooks: readonly Hook[]): Promise<Seen> {
  if (host.state !== "present") return { host, fault: `is declared ${host.state}, so it was not queried` };
  try {
    return { host, report: await readHost(host, hooks) };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { host, fault: error.message };
  }
}

await main("status", async () => {
  const { values } = parseArgs({ options: { json: { type: "boolean" }, stack: { type: "string" } } });
  const { hosts, hooks } = await readStack(stackArgs(values.stack));
  const named = hooks.map(({ name, site }) => ({ name, built: site !== undefined }));
  const seen = await Promise.all(hosts.map((host) => see(host, named)));
  const faults = seen.flatMap((one) => faultsOf(one));
  if (values.json) {
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
