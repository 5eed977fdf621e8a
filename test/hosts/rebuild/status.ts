/** Reads the builder's reports on the host: status.json, the journal and its folders. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { units } from "../../../infra/host/paths.ts";
import type { Last, Status } from "../../../service/builder/run/status.ts";
import { tried } from "../../../service/tried.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { type HookName, placesOf } from "./site.ts";

/** Reads status.json from the lab, so that polling costs the host nothing; undefined if the file is missing. */
export function statusOf(host: Host, hook: HookName = "site"): Status | undefined {
  const file = join(host.root, placesOf(hook).site, "status.json");
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Status) : undefined;
}

/** Waits for what `probe` finds; after `timeout` milliseconds throws with the host's status, units and journal. */
async function awaited<T>(
  host: Host,
  hook: HookName,
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  terms: Parameters<typeof until>[2],
): Promise<T> {
  try {
    return await until(what, probe, terms);
  } catch (error) {
    const lines = "journalctl --boot --no-pager -o short-precise -u";
    const journal = await host.read(`${lines} 'pushgate-*-${hook}*' | tail -n 30`);
    const units = await host.read(`systemctl list-units --all --no-legend --plain 'pushgate-*${hook}*' || true`);
    const { last, failing } = statusOf(host, hook) ?? {};
    const status = JSON.stringify({ last, failing, pending: pending(host, hook) });
    throw new Error(`${(error as Error).message}\n${status}\n${units}\n${journal}`);
  }
}

/** Waits for a status that `fits`. */
export const awaitStatus = (
  host: Host,
  what: string,
  fits: (status: Status) => boolean,
  { hook = "site" as HookName, timeout = 30_000 } = {},
): Promise<Status> => {
  const fitting = () => {
    const status = statusOf(host, hook);
    return status && fits(status) ? status : undefined;
  };
  return awaited(host, hook, what, fitting, { timeout });
};

export const published = (host: Host, commit: string, options: { hook?: HookName; timeout?: number } = {}) =>
  awaitStatus(host, `${commit.slice(0, 12)} is published`, ({ deployed }) => deployed?.commit === commit, options);

/** Waits for the next such result; `since` is the status before the event that causes it. */
export const nextResult = (host: Host, since: Status, result: Last["result"]) =>
  awaitStatus(host, `the next "${result}"`, ({ last }) => last?.result === result && last.at !== since.last?.at);

/** Does `work`, and waits for the result of the run that it causes. */
export async function runOf(
  host: Host,
  work: () => Promise<unknown>,
  { hook = "site" as HookName, timeout = 60_000 } = {},
): Promise<Last> {
  const before = statusOf(host, hook)?.last?.at;
  await work();
  return (await awaitStatus(host, "the run ends", ({ last }) => last!.at !== before, { hook, timeout })).last!;
}

/** The builder's runs since boot: the journal has one line for each. */
export async function runs(host: Host, hook: HookName = "site"): Promise<Last[]> {
  const text = await host.read(`journalctl --boot --no-pager -o cat -u pushgate-build@${hook}.service`);
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Last)
    .filter(({ result }) => result !== undefined);
}

/** The files in the spool and among the requests that the builder has not taken, or not published yet. */
export function pending(host: Host, hook: HookName = "site"): string[] {
  const { spool, requests, rootRequests, taken } = placesOf(hook);
  const waiting = [spool, requests, rootRequests].flatMap((folder) => {
    const at = join(host.root, folder);
    return existsSync(at) ? readdirSync(at).filter((name) => !name.startsWith(".")) : [];
  });
  // The builder may remove the file at any moment, so a look before the read would not help.
  const lines = tried(() => readFileSync(join(host.root, taken), "utf8").trim().split("\n"));
  return [...waiting, ...(lines ?? [])];
}

/** The processes of the builder's unit, which ends with its last build. */
const processes = (hook: HookName) =>
  `{ cat /sys/fs/cgroup/system.slice/pushgate-build@${hook}.service/cgroup.procs 2>/dev/null || :; } | wc -l`;

/** Waits until nothing is pending and no build runs. */
export async function idle(host: Host, hook: HookName = "site"): Promise<void> {
  let times = 0;
  const isIdle = async () => {
    const works =
      pending(host, hook).length > 0 ||
      Number(await host.read(processes(hook))) > 0 ||
      (await host.read(`systemctl list-units --no-legend 'pushgate-*-${hook}@*.service'`)) !== "";
    // Twice: a builder starts a moment after its marker came.
    times = works ? 0 : times + 1;
    return times > 1 || undefined;
  };
  await awaited(host, hook, `the builder of ${hook} is idle`, isIdle, { timeout: 60_000, pause: 50 });
}

export async function bothIdle(host: Host): Promise<void> {
  for (const hook of ["site", "docs"] as const) await idle(host, hook);
}

/**
 * Stops all timers until the next boot, so that nothing repairs itself: a minute after each boot, whatever their period,
 * they start a build of each site, which restores the egress table; the guard restores it each minute. For tests that
 * remove a protection or count runs.
 */
export async function timersEnd(host: Host): Promise<void> {
  const running = "systemctl list-units --no-legend --state=active,activating,deactivating";
  const begun = `'pushgate-reconcile@*.service' ${units.guard}`;
  await host.inside(`systemctl stop 'pushgate-*.timer'; while ${running} ${begun} | grep -q .; do sleep 0.1; done`);
  await bothIdle(host);
}
