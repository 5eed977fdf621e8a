/**
 * Cuts the power at random moments while pushes arrive. After each cut every delivery that was answered 202 is pending
 * or published, `current` points to a complete release, and the builder publishes the newest push without manual help.
 */
import { readlinkSync } from "node:fs";
import { join } from "node:path";
import { random } from "../../fixtures.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { markedFiles, wholeRelease } from "./marked-site.ts";
import { type Disk, diskUnder } from "./power-cut-disk.ts";
import { placesOf } from "./site.ts";
import { idle, pending, published } from "./status.ts";
import type { Rebuild } from "./world.ts";

export type Cut = {
  readonly cuts: number;
  /** The states, after the cut, of the deliveries accepted in the seconds before it. */
  readonly accepted: Readonly<Record<State, number>>;
};

type State = "pending" | "published" | "both" | "lost";

const folders = [
  "/var/spool/pushgate",
  "/var/spool/pushgate-publish",
  "/var/spool/pushgate-root",
  "/var/lib/pushgate-sites",
];
const hooks = "pushgate-receiver-*.socket";
const watching = "pushgate-build@site.path pushgate-reconcile@site.timer pushgate-generator-site.socket";
const services = "pushgate-receiver.service pushgate-build@site.service 'pushgate-generator-site@*.service'";

type Accepted = { readonly delivery: string; readonly commit: string };

/** Moves spool, requests and sites of a host to a disk whose power can be cut. */
export async function onOwnDisk({ host }: Rebuild): Promise<Disk> {
  await idle(host);
  // The guard would start units that a cut has stopped.
  await host.inside("systemctl stop pushgate-guard.timer pushgate-guard.service");
  await stop(host);
  const disk = await diskUnder(host, folders);
  await start(host);
  return disk;
}

/** Throws with the delivery that was lost, or the release that was incomplete. */
export async function soakCuts(rebuild: Rebuild, disk: Disk, count: number, seed: number): Promise<Cut> {
  const { host } = rebuild;
  const next = random(seed);
  const states: Record<State, number> = { pending: 0, published: 0, both: 0, lost: 0 };
  let mark = 500_000;
  await published(host, await rebuild.push(markedFiles(mark)));
  for (let i = 0; i < count; i++) {
    const accepted: Accepted[] = [];
    let on = true;
    const sender = (async () => {
      while (on) {
        const commit = rebuild.repositories.site.push(markedFiles(mark + 1, mark));
        mark += 1;
        const { status, body } = await rebuild.deliver(commit);
        if (status === 202) accepted.push({ delivery: (JSON.parse(body) as { delivery: string }).delivery, commit });
        await new Promise((resolve) => setTimeout(resolve, next() * 3_000));
      }
    })();
    await new Promise((resolve) => setTimeout(resolve, 300 + next() * 6_000));
    const before = [...accepted];
    await disk.cut();
    await stop(host);
    on = false;
    await disk.unplug();
    await disk.plug();

    wholeRelease(host);
    for (const one of before) {
      const state = stateOf(rebuild, one);
      states[state] += 1;
      if (state === "lost") throw new Error(`cut ${i + 1}: delivery ${one.delivery} was answered 202 and is lost`);
    }
    await start(host);
    await sender;
    // The cut may have prevented the delivery of a push. The next delivery announces it too.
    const head = rebuild.repositories.site.head()!;
    const last = before.at(-1);
    if (last !== undefined) await atLeast(rebuild, last.commit);
    await rebuild.deliver(head);
    await published(host, head, { timeout: 60_000 });
    wholeRelease(host);
  }
  await idle(host);
  return { cuts: count, accepted: states };
}

async function stop(host: Host): Promise<void> {
  await host.inside(
    `systemctl kill --signal=KILL ${services} 2>/dev/null; systemctl stop ${hooks} ${watching}; systemctl stop ${services}; systemctl reset-failed 2>/dev/null; true`,
    { check: false },
  );
}

async function start(host: Host): Promise<void> {
  // systemctl's glob matches only loaded units, and stopped ones are not loaded.
  await host.inside(`systemctl start $(cd /etc/systemd/system && echo ${hooks}) ${watching}`);
}

const isIn = ({ repositories }: Rebuild, commit: string, later: string): boolean =>
  repositories.site.git("rev-list", "-1", later, `^${commit}^`) !== "" &&
  repositories.site.git("merge-base", commit, later) === commit;

/** The published commit, by the link alone: status.json may be older after a cut, never newer. */
function deployed(host: Host): string {
  const { site } = placesOf("site");
  return readlinkSync(join(host.root, site, "current"))
    .split("-")
    .at(-1)!;
}

function stateOf(rebuild: Rebuild, { delivery, commit }: Accepted): State {
  // The builder notes `<id>.json` as `delivery <id>` before it removes the file.
  const names = pending(rebuild.host);
  const waits = names.includes(`${delivery}.json`) || names.includes(`delivery ${delivery}`);
  const shown = isIn(rebuild, commit, deployed(rebuild.host));
  if (waits) return shown ? "both" : "pending";
  return shown ? "published" : "lost";
}

const atLeast = (rebuild: Rebuild, commit: string): Promise<true> =>
  until(
    `${commit}, accepted before the cut, is published after it`,
    () => isIn(rebuild, commit, deployed(rebuild.host)) || undefined,
    { timeout: 60_000, pause: 50 },
  );
