/**
 * Publishes a kept release again. The builder verifies it first, and does not publish the abandoned commit again until a
 * newer one is pushed. Every host is read before the first one changes.
 */
import { all, command, confirmHosts, type Options, ofStack, siteNamed, targets } from "../command.ts";
import type { Target } from "../run-on-host.ts";
import { readStack, UserError } from "../stack.ts";
import { readHost } from "./host-report.ts";
import { chosen } from "./releases.ts";
import { request, show } from "./requests.ts";

/** Seconds that a builder has. It verifies each file of the release: about ten seconds for a hundred thousand files. */
const patience = 90;

async function choose(host: Target, hook: string, wanted: string | undefined): Promise<string> {
  const { now, hooks } = await readHost(host, [{ name: hook, built: true }]);
  const status = hooks[0]?.status;
  try {
    if (status === undefined) throw new UserError(`${hook} has no release yet: no build has ended here`);
    return chosen(status, now, wanted);
  } catch (error) {
    throw error instanceof UserError ? new UserError(`${host.name}: ${error.message}`) : error;
  }
}

export const rollback = command({
  takes: ["host", "json", "yes"],
  examples: [
    ["rollback site", "the release before the current one"],
    ["rollback site 000012-0123456789ab", "this release, as `status` lists it"],
    ["rollback site 0123456 --host web1", "the release of a commit, given by seven or more of its digits, on one host"],
  ],
}).action(async (name: string, wanted: string | undefined, options: Options) => {
  const { hosts, hooks } = await readStack(ofStack(options));
  const { name: hook } = siteNamed(hooks, name);
  const on = targets(hosts, options);
  const releases = await all(on.map((host) => choose(host, hook, wanted)));
  await confirmHosts(`publishes a former release of ${hook}`, on, options);
  const roll = (host: Target, i: number) =>
    request(host, hook, { file: `rollback-${releases[i]}`, seconds: patience, restart: true });
  await show(on.map(roll), "rolled back", options);
});
