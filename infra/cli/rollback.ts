/**
 * Publishes a kept release again, on every host whose state is present.
 *
 *   npm run rollback -- site                          the release before the current one
 *   npm run rollback -- site 000012-0123456789ab      this one; a commit will do, of seven letters or more
 *   npm run rollback -- site --host web1              on one host only
 *   npm run rollback -- site --stack prod             another stack than the selected one
 *
 * The builder verifies the release first, and does not publish the abandoned commit again until a newer one is pushed.
 * Every host is read before the first one changes.
 */
import { parseArgs } from "node:util";
import { parseStatus, readHost } from "./host-report.ts";
import { chosen, rollbackScript } from "./releases.ts";
import { runOnHost, type Target } from "./run-on-host.ts";
import { main, readStack, stackArgs, UserError } from "./stack.ts";

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

async function rollBack(host: Target, hook: string, release: string): Promise<void> {
  const answer = await runOnHost(host, rollbackScript(hook, release, patience), patience + 60);
  if (answer === "")
    throw new UserError(`${host.name}: the builder has run again since, so the result is unknown. Run npm run status.`);
  const { last } = parseStatus(`${host.name}: ${hook}`, answer);
  const text = `${host.name}: ${last.result}: ${last.reason}`;
  if (last.result !== "rolled back") throw new UserError(text);
  console.log(text);
}

/** Waits for all, and throws their UserErrors as one. */
async function all<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const ended = await Promise.allSettled(promises);
  const errors = ended.flatMap((one) => (one.status === "rejected" ? [one.reason as Error] : []));
  const bug = errors.find((error) => !(error instanceof UserError));
  if (bug) throw bug;
  if (errors.length > 0) throw new UserError(errors.map(({ message }) => message).join("\n"));
  return Promise.all(promises);
}

await main("rollback", async () => {
  const { values, positionals } = parseArgs({
    options: { host: { type: "string" }, stack: { type: "string" } },
    allowPositionals: true,
  });
  const [name, wanted, ...more] = positionals;
  const { hosts, hooks } = await readStack(stackArgs(values.stack));
  const sites = hooks.filter(({ site }) => site !== undefined).map((hook) => hook.name);
  const names = sites.length === 0 ? "No hook of this stack has a site." : `Hooks with a site: ${sites.join(", ")}.`;
  if (name === undefined || more.length > 0)
    throw new UserError(`name one hook: npm run rollback -- <hook> [release]. ${names}`);
  if (!sites.includes(name)) throw new UserError(`${JSON.stringify(name)} has no releases. ${names}`);
  const present = hosts.filter(({ state }) => state === "present");
  const targets = present.filter((host) => values.host === undefined || host.name === values.host);
  if (targets.length === 0)
    throw new UserError(`no such host. Hosts that are present: ${present.map((host) => host.name).join(", ")}.`);
  const releases = await all(targets.map((host) => choose(host, name, wanted)));
  await all(targets.map((host, i) => rollBack(host, name, releases[i]!)));
});
