/** Requests of root to a site's builder, and what it reports of them. */
import { runOnHost, type Target } from "../../apply/run-on-host.ts";
import { scriptBeside, variables } from "../../apply/shell.ts";
import { paths, units } from "../../host/paths.ts";
import { UserError } from "../../user-error.ts";
import { command, confirmHosts, ended, type Options, ofStack, siteNamed, targets } from "../command.ts";
import { readStack } from "../stack.ts";
import { lastRun, show as showRuns } from "./deploys.ts";
import { parseStatus } from "./host-report.ts";
import { withSteps } from "./progress.ts";

/** `file`: its name in root's folder says what is requested. `verb`: systemctl's, restart where the builder may hang in a build. */
type Request = { readonly file: string; readonly seconds: number; readonly verb: "start" | "restart" };
type Result = Readonly<Record<"host" | "result" | "reason", string>> & { readonly warnings: readonly string[] };

export function requestScript(hook: string, { file, seconds, verb }: Request): string {
  const how = { hook, request: file, seconds, verb, unit: units.build(hook) };
  const places = { rootRequests: paths.rootRequests, status: `${paths.sites}/${hook}/status.json` };
  return `${variables({ ...how, ...places })}\n${scriptBeside(import.meta.url, "request.sh")}`;
}

export async function request(host: Target, hook: string, wanted: Request): Promise<Result> {
  const effect = "the request may have arrived: see npx pushgate status";
  const answer = await runOnHost(host, requestScript(hook, wanted), wanted.seconds + 60, effect);
  if (answer === "")
    throw new UserError(
      `${host.name}: the builder has ended the request, and its status does not show the result. Run npx pushgate status.`,
    );
  const { result, reason, warnings } = parseStatus(`${host.name}: ${hook}`, answer).last;
  return { host: host.name, result, reason, warnings };
}

export async function show(running: readonly Promise<Result>[], wanted: string, { json }: Options): Promise<void> {
  const { values, faults } = await ended(running);
  if (json) console.log(JSON.stringify(values, null, 2));
  for (const { host, result, reason, warnings } of values) {
    const lines = [`${host}: ${result}: ${reason}`, ...warnings.map((text) => `${host}: warning: ${text}`)];
    if (result !== wanted) faults.push(...lines);
    else if (!json) console.log(lines.join("\n"));
  }
  if (faults.length > 0) throw new UserError(faults.join("\n"));
}

export const build = command({
  takes: ["host", "json", "yes"],
  examples: [["build site", "the newest commit, or after a rollback the commit that it chose"]],
}).action(async (name: string, options: Options) => {
  const { hosts, hooksAndPreviews: hooks } = await readStack(ofStack(options));
  const { site } = siteNamed(hooks, name);
  const on = targets(hosts, options);
  await confirmHosts(`builds ${name}`, on, options);
  // A running build ends first, and the repository is fetched.
  const seconds = 2 * site.limits.seconds + 120;
  const results = on.map((host) => request(host, name, { file: "build", seconds, verb: "start" }));
  const runs = await withSteps(on, name, async (rest) => {
    await ended(results);
    return options.json ? [] : rest((await ended(on.map((host) => lastRun(host, name)))).values.flat());
  });
  if (!options.json) showRuns(runs, options);
  await show(results, "published", options);
});
