/** Publishes a kept release again, after the builder has verified it. Every host is read before the first one changes. */
import type { Target } from "../../apply/run-on-host.ts";
import { UserError } from "../../user-error.ts";
import { all, command, confirmHosts, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { age } from "../format.ts";
import { readStack } from "../stack.ts";
import { request, show } from "./build.ts";
import { readHost, type Status } from "./host-report.ts";

export function chosen(host: string, { releases, deployed }: Status, now: string, wanted: string | undefined): string {
  const current = releases.findIndex(({ id }) => id === deployed?.release);
  const isWanted = ({ id, commit }: Status["releases"][number]): boolean =>
    id === wanted || (/^[0-9a-f]{7,64}$/.test(wanted ?? "") && commit?.startsWith(wanted!) === true);
  // Several releases of one commit differ only in their content: the newest.
  const found = wanted === undefined ? releases[current + 1] : releases.find(isWanted);
  if (found !== undefined) return found.id;
  const listed = releases.map(({ id, at }, i) => `\n    ${id}  ${age(at, now)}${i === current ? "  <- current" : ""}`);
  const what = wanted === undefined ? "no release before the current one is kept" : `there is no release "${wanted}"`;
  throw new UserError(`${host}: ${what}. Existing releases:${listed.join("") || " none"}`);
}

async function choose(host: Target, hook: ReturnType<typeof siteNamed>, wanted: string | undefined): Promise<string> {
  const { now, hooks } = await readHost(host, [hook]);
  const status = hooks[0]?.status;
  if (status !== undefined) return chosen(host.name, status, now, wanted);
  throw new UserError(`${host.name}: ${hook.name} has no release yet: no build has ended here`);
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
  const hook = siteNamed(hooks, name);
  const on = targets(hosts, options);
  const releases = await all(on.map((host) => choose(host, hook, wanted)));
  await confirmHosts(`publishes a former release of ${name}`, on, options);
  // The builder verifies each file of the release: about ten seconds for a hundred thousand files.
  const how = { seconds: 90, verb: "restart" } as const;
  const roll = (host: Target, i: number) => request(host, name, { file: `rollback-${releases[i]}`, ...how });
  await show(on.map(roll), "rolled back", options);
});
