/** What the rebuild says of itself, on the machine: status.json, the journal, its folders. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { units } from "../../../infra/host/paths.ts";
import type { Last, Status } from "../../../service/builder/status.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { type HookName, placesOf } from "./site.ts";

/** Read past the machine, so that looking costs it nothing; undefined while there is none. */
export function statusOf(host: Host, hook: HookName = "site"): Status | undefined {
  const file = join(host.root, placesOf(hook).site, "status.json");
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Status) : undefined;
}

/** The first status that `fits`; after `timeout` milliseconds throws with the last one and the journal. */
export async function awaitStatus(
  host: Host,
  what: string,
  fits: (status: Status) => boolean,
  { hook = "site" as HookName, timeout = 30_000 } = {},
): Promise<Status> {
  try {
    return await until(
      what,
      () => {
        const status = statusOf(host, hook);
        return status !== undefined && fits(status) ? status : undefined;
      },
      { timeout },
    );
  } catch (error) {
    throw await explained(host, hook, error as Error);
  }
}

/** The error with what the machine says of itself. */
async function explained(host: Host, hook: HookName, { message }: Error): Promise<Error> {
  const journal = await host.read(
    `journalctl --boot --no-pager -o short-precise -u 'pushgate-*-${hook}*' | tail -n 30`,
  );
  const units = await host.read(`systemctl list-units --all --no-legend --plain 'pushgate-*${hook}*' || true`);
  const { last, failing } = statusOf(host, hook) ?? {};
  return new Error(
    `${message}\n${JSON.stringify({ last, failing, pending: pending(host, hook) })}\n${units}\n${journal}`,
  );
}

export const published = (host: Host, commit: string, options: { hook?: HookName; timeout?: number } = {}) =>
  awaitStatus(host, `${commit.slice(0, 12)} is published`, ({ deployed }) => deployed?.commit === commit, options);

/** The first result other than those before this moment; `since` is a status read before the cause. */
export const nextResult = (
  host: Host,
  since: Status | undefined,
  result: Last["result"],
  options: { hook?: HookName; timeout?: number } = {},
) =>
  awaitStatus(
    host,
    `the next "${result}"`,
    ({ last }) => last?.result === result && last.at !== since?.last?.at,
    options,
  );

export type Run = Pick<Last, "result" | "reason" | "commit" | "trigger">;

/** One line a run, as the journal has them. */
export async function runs(host: Host, hook: HookName = "site"): Promise<Run[]> {
  const text = await host.read(`journalctl --boot --no-pager -o cat -u pushgate-build-${hook}.service`);
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Run)
    .filter(({ result }) => result !== undefined);
}

/** Markers that nothing has taken, and those whose build is not published. */
export function pending(host: Host, hook: HookName = "site"): string[] {
  const { spool, asks } = placesOf(hook);
  return [spool, join(spool, ".taken"), asks, join(asks, ".taken")].flatMap((folder) => {
    const at = join(host.root, folder);
    return existsSync(at) ? readdirSync(at).filter((name) => name !== ".taken") : [];
  });
}

/** Nothing is pending and no build runs. */
export async function idle(host: Host, hook: HookName = "site", timeout = 60_000): Promise<void> {
  try {
    await until(
      `the builder of ${hook} has nothing to do`,
      async () => {
        if (pending(host, hook).length > 0) return undefined;
        const state = await host.inside(`systemctl is-active pushgate-build-${hook}.service`, { check: false });
        return state.stdout.trim() === "inactive" || undefined;
      },
      { timeout, pause: 100 },
    );
  } catch (error) {
    throw await explained(host, hook, error as Error);
  }
}

/**
 * Nothing mends by itself any more: a minute after each boot, whatever their period, timers look at each repository, and
 * the build that follows puts the egress table back; so does the guard, each minute. For tests that take something away,
 * or count what runs.
 */
export async function timersEnd(host: Host): Promise<void> {
  const running = "systemctl list-units --no-legend --state=active,activating,deactivating";
  const begun = `'pushgate-reconcile-*.service' 'pushgate-build-*.service' ${units.guard}`;
  await host.inside(`systemctl stop 'pushgate-*.timer'; while ${running} ${begun} | grep -q .; do sleep 0.1; done`);
}

/** They are as declared again; what those begin whose minute is over has ended. */
export async function timersBegin(host: Host): Promise<void> {
  const declared = "systemctl list-unit-files --no-legend --state=enabled 'pushgate-*.timer' | cut -d' ' -f1";
  await host.inside(`systemctl start $(${declared})`);
  for (const hook of ["site", "docs"] as const) await idle(host, hook);
}
