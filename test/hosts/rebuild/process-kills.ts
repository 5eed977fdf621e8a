/**
 * Kills receiver and builder with SIGKILL at random moments between an accepted push and its page. In the end every
 * accepted push is published, and every page that a visitor saw belongs to one complete push.
 */
import { random } from "../../fixtures.ts";
import { until } from "../lab/process.ts";
import { markedFiles, markOf, wholeRelease } from "./marked-site.ts";
import { placesOf } from "./site.ts";
import { awaitStatus, published, statusOf } from "./status.ts";
import type { Rebuild } from "./world.ts";

export type Killed = {
  readonly kills: Readonly<Record<string, number>>;
  readonly pushes: number;
  readonly refused: number;
  readonly visits: number;
};

/** The most kills between an accepted push and its page. */
const killsPerPush = 10;

/** The processes to kill, as shares of ten. */
const victims = [
  "builder",
  "builder",
  "builder",
  "builder",
  "git or sync",
  "receiver",
  "receiver",
  "receiver",
  "hugo",
  "all",
] as const;

/** Shell commands that put the victims' process ids into `pids`. */
const pidsOf: Record<(typeof victims)[number], string> = {
  builder: "pids=$(systemctl show -P MainPID pushgate-build@site.service)",
  "git or sync": "pids=$(tail -n +2 /sys/fs/cgroup/system.slice/pushgate-build@site.service/cgroup.procs 2>/dev/null)",
  receiver: "pids=$(systemctl show -P MainPID pushgate-receiver.service)",
  hugo: "pids=$(cat /sys/fs/cgroup/system.slice/*pushgate*generator*/*/cgroup.procs /sys/fs/cgroup/system.slice/pushgate-generator-site@*/cgroup.procs 2>/dev/null)",
  all: "pids=$(systemctl show -P MainPID pushgate-build@site.service pushgate-receiver.service)",
};

/** Runs until `count` kills have hit at least one process each. */
export async function soakKills(rebuild: Rebuild, count: number, seed: number): Promise<Killed> {
  const { host, repositories } = rebuild;
  const next = random(seed);
  const kills: Record<string, number> = {};
  let total = 0;
  let refused = 0;
  // Shorter pauses after each kill: the real 2 s of systemd and up to 15 minutes of the builder would take hours.
  const soon = "[Service]\nRestartSec=100ms\n";
  const noPause = `ExecStopPost=/usr/bin/rm -f ${placesOf("site").paused}\n`;
  await host.writeFile("/run/systemd/system/pushgate-receiver.service.d/soon.conf", soon);
  await host.writeFile("/run/systemd/system/pushgate-build@site.service.d/soon.conf", soon + noPause);
  await host.inside("systemctl daemon-reload");

  let mark = 1;
  await published(host, await rebuild.push(markedFiles(mark)));
  const watch = watching(rebuild, () => mark);

  while (total < count) {
    const commit = repositories.site.push(markedFiles(mark + 1, mark));
    mark += 1;
    // While the receiver restarts, deliveries fail; this repeats them, as a sender's "Redeliver" would.
    await until("the delivery is accepted", async () => {
      const { status } = await rebuild.deliver(commit);
      if (status === 202) return true;
      refused += 1;
      return undefined;
    });
    for (let i = 0; i < killsPerPush && total < count; i++) {
      await new Promise((resolve) => setTimeout(resolve, next() * 500));
      if (statusOf(host)?.deployed?.commit === commit) break;
      const victim = victims[Math.floor(next() * victims.length)]!;
      const { stdout } = await host.inside(
        `${pidsOf[victim]}; n=0; for p in $pids; do [ "$p" = 0 ] || { kill -9 "$p" 2>/dev/null && n=$((n + 1)); }; done; echo "$n"`,
        { check: false },
      );
      if (Number(stdout) === 0) continue;
      total += 1;
      kills[victim] = (kills[victim] ?? 0) + 1;
    }
    await awaitStatus(host, `push ${mark} is published`, ({ deployed }) => deployed?.commit === commit, {
      timeout: 60_000,
    });
    if (wholeRelease(host) !== mark)
      throw new Error(`status.json reports push ${mark} as published, but push ${wholeRelease(host)} is`);
  }
  const visits = await watch.end();
  await host.inside("rm -r /run/systemd/system/pushgate-*.d && systemctl daemon-reload");
  return { kills, pushes: mark, refused, visits };
}

/** Visits the site until `end`, which throws with the first page that was not one complete push. */
function watching(rebuild: Rebuild, newest: () => number) {
  let over = false;
  let visits = 0;
  let wrong: string | undefined;
  let seen = 0;
  const loop = (async () => {
    while (!over && wrong === undefined) {
      const { status, body } = await rebuild.visit();
      const mark = markOf(body);
      visits += 1;
      if (status !== 200 || mark === undefined || mark > newest())
        wrong = `${status}: ${JSON.stringify(body.slice(0, 300))}`;
      else if (mark < seen) wrong = `push ${mark} after push ${seen}`;
      else seen = mark;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  })();
  return {
    async end(): Promise<number> {
      over = true;
      await loop;
      if (wrong !== undefined) throw new Error(`a visitor got ${wrong}`);
      return visits;
    },
  };
}
