/**
 * Back to a release that is kept, on every machine that is there.
 *
 *   npm run rollback -- site                          to the release before the current one
 *   npm run rollback -- site 000012-0123456789ab      to this one; a commit will do, of seven letters or more
 *   npm run rollback -- site --host web1              on one machine alone
 *   npm run rollback -- site --stack prod             another stack than the selected one
 *
 * The builder does it: it verifies the release first, and does not publish again the commit that was turned away from,
 * until a newer one is pushed. All machines are asked before the first one changes.
 */
import { parseArgs } from "node:util";
import { look, readStatus } from "./look.ts";
import { chosen, rollbackScript } from "./releases.ts";
import { onMachine, type Target } from "./run-on-host.ts";
import { main, Refused, readStack, stackArgs } from "./stack.ts";

/** Seconds a builder has for it. It verifies each file of the release; a hundred thousand of them take some ten. */
const patience = 90;

async function choose(host: Target, hook: string, wanted: string | undefined): Promise<string> {
  const { now, hooks } = await look(host, [{ name: hook, built: true }]);
  const status = hooks[0]?.status;
  try {
    if (status === undefined) throw new Refused(`${hook} has no release yet: no build has ended here`);
    return chosen(status, now, wanted);
  } catch (error) {
    throw error instanceof Refused ? new Refused(`${host.name}: ${error.message}`) : error;
  }
}

async function rollBack(host: Target, hook: string, release: string): Promise<void> {
  const said = await onMachine(host, rollbackScript(hook, release, patience), patience + 60);
  if (said === "")
    throw new Refused(
      `${host.name}: the builder did something else since, so what came of it is not known: npm run status`,
    );
  const { last } = readStatus(`${host.name}: ${hook}`, Buffer.from(said, "base64").toString("utf8"));
  if (last.result !== "rolled back") throw new Refused(`${host.name}: ${last.result}: ${last.reason}`);
  console.log(`${host.name}: ${last.result}: ${last.reason}`);
}

/** Waits for all, and throws all that went wrong as one. */
async function all<T>(asked: readonly Promise<T>[]): Promise<T[]> {
  const ended = await Promise.allSettled(asked);
  const wrong = ended.flatMap((one) => (one.status === "rejected" ? [one.reason as Error] : []));
  const bug = wrong.find((error) => !(error instanceof Refused));
  if (bug) throw bug;
  if (wrong.length > 0) throw new Refused(wrong.map(({ message }) => message).join("\n"));
  return ended.map((one) => (one as PromiseFulfilledResult<T>).value);
}

await main("rollback", async () => {
  const { values, positionals } = parseArgs({
    options: { host: { type: "string" }, stack: { type: "string" } },
    allowPositionals: true,
  });
  const [name, wanted, ...more] = positionals;
  const { hosts, hooks } = await readStack(stackArgs(values.stack));
  const sites = hooks.filter(({ site }) => site !== undefined).map((hook) => hook.name);
  const names = sites.length === 0 ? "no hook of this stack has a site" : `hooks with a site: ${sites.join(", ")}`;
  if (name === undefined || more.length > 0) throw new Refused(`write npm run rollback -- <hook> [release]; ${names}`);
  if (!sites.includes(name)) throw new Refused(`${JSON.stringify(name)} has no releases: ${names}`);
  const there = hosts.filter(({ state }) => state === "present");
  const asked = there.filter((host) => values.host === undefined || host.name === values.host);
  if (asked.length === 0)
    throw new Refused(`no such machine: present are ${there.map((host) => host.name).join(", ")}`);
  const releases = await all(asked.map((host) => choose(host, name, wanted)));
  await all(asked.map((host, i) => rollBack(host, name, releases[i]!)));
});
