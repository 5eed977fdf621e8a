/** Builds a site now, without a push: the newest commit of its branch, or after a rollback the commit that it chose. */
import { command, confirmHosts, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { readStack } from "../stack.ts";
import { request, show } from "./requests.ts";

/** Seconds beyond the build's own: a running build ends first, and the repository is fetched. */
const more = 120;

export const build = command({
  takes: ["host", "json", "yes"],
  examples: [
    ["build site", "the newest commit, or after a rollback the commit that it chose"],
    ["build site --host web1 --json", "for a program"],
  ],
}).action(async (name: string, options: Options) => {
  const { hosts, hooks } = await readStack(ofStack(options));
  const { name: hook, site } = siteNamed(hooks, name);
  const on = targets(hosts, options);
  await confirmHosts(`builds ${hook}`, on, options);
  const seconds = 2 * site.limits.seconds + more;
  const results = on.map((host) => request(host, hook, { file: "build", seconds, restart: false }));
  await show(results, "published", options);
});
