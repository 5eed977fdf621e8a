/**
 * How each hook is on each machine: what is published, what was tried last and why it ended so, what lies there unbuilt.
 *
 *   npm run status                    for a person
 *   npm run status -- --json          the same for a program
 *   npm run status -- --stack prod    another stack than the selected one
 *
 * Exit status 0: all is as it should be. 1: a machine did not answer, a build fails, or a unit does not stand.
 */
import { parseArgs } from "node:util";
import { type Asked, look } from "./look.ts";
import { main, Refused, readStack, stackArgs } from "./stack.ts";
import { faultsOf, type Host, type Seen, tell } from "./tell.ts";

async function ask(host: Host, hooks: readonly Asked[]): Promise<Seen> {
  if (host.state !== "present") return { host, fault: `is declared ${host.state}, so it was not asked` };
  try {
    return { host, report: await look(host, hooks) };
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { host, fault: error.message };
  }
}

await main("status", async () => {
  const { values } = parseArgs({ options: { json: { type: "boolean" }, stack: { type: "string" } } });
  const { hosts, hooks } = await readStack(stackArgs(values.stack));
  const asked = hooks.map(({ name, site }) => ({ name, built: site !== undefined }));
  const seen = await Promise.all(hosts.map((host) => ask(host, asked)));
  const faults = seen.flatMap((one) => faultsOf(one));
  if (values.json) {
    const machines = seen.map(({ host, report, fault }) => ({
      ...{ name: host.name, ssh: host.ssh, state: host.state },
      ...(report ?? { fault }),
    }));
    console.log(JSON.stringify({ machines, faults }, null, 2));
  } else {
    for (const one of seen) console.log(tell(one, hooks).join("\n"));
    console.log(faults.length === 0 ? "All is as it should be." : `Not as it should be:\n  ${faults.join("\n  ")}`);
  }
  if (faults.length > 0) process.exitCode = 1;
});
