/** Builds a site now, without a push: the newest commit of its branch, or after a rollback the commit that it chose. */
import { command, confirmHosts, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { readStack } from "../stack.ts";
import { request, show } from "./requests.ts";

export const build = command({
  takes: ["host", "yes"],
  examples: [["build site", "the newest commit, or after a rollback the commit that it chose"]],
}).action(async (name: string, options: Options) => {
  const { hosts, hooks } = await readStack(ofStack(options));
  const { site } = siteNamed(hooks, name);
  const on = targets(hosts, options);
  await confirmHosts(`builds ${name}`, on, options);
  // A running build ends first, and the repository is fetched.
  const seconds = 2 * site.limits.seconds + 120;
  const results = on.map((host) => request(host, name, { file: "build", seconds, restart: false }));
  await show(results, "published");
});
