/**
 * Kills receiver, builder and Hugo with SIGKILL at random moments between an accepted push and its page, while visitors
 * read every page and asset. Each push renames all assets, and each file of a release has the number of its push, the
 * mark. So a visitor notices a page of two pushes, a truncated file and a missing one; and as a page stays open longer
 * than a publish takes, visitors read assets of the former release, too.
 */
import type { Files } from "../../fakes/git-repository.ts";
import { random } from "../../fixtures.ts";
import { until } from "../lab/process.ts";
import { placesOf } from "./site.ts";
import { published, statusOf } from "./status.ts";
import type { Rebuild } from "./world.ts";

/** The number of assets: enough that writing a release takes a moment. */
const assets = 40;
const visitors = 8;
const mostKillsPerPush = 10;

function markedFiles(mark: number): Files {
  const each = (of: number, text: string | null) =>
    Array.from({ length: assets }, (_, i) => [`static/a/style-${i}-${of}.css`, text]);
  const links = each(mark, "").map(([path]) => `<link rel="stylesheet" href="${path!.replace("static", "")}">`);
  const html = `<!doctype html>\n<title>mark-${mark}</title>\n${links.join("\n")}\n{{ range .Site.RegularPages }}<a href="{{ .RelPermalink }}">.</a>{{ end }}\n<p>end-${mark}</p>\n`;
  return {
    ...Object.fromEntries(mark > 1 ? each(mark - 1, null) : []),
    ...Object.fromEntries(each(mark, `/* mark-${mark} ${"x".repeat(2_000)} */\n`)),
    "layouts/index.html": html,
    "layouts/_default/single.html": html,
    "layouts/_default/list.html": html,
  };
}

const markOf = (html: string): number => {
  const mark = /mark-(\d+)/.exec(html)?.[1];
  return html.includes(`end-${mark}`) ? Number(mark) : Number.NaN;
};

/** Reads the front page and all that it refers to; returns its mark, and throws at the first file that is not whole. */
async function readSite({ visit }: Rebuild, counted: { reads: number }): Promise<number> {
  const read = async (path: string, isWhole: (body: string) => boolean) => {
    const { status, body } = await visit(path);
    counted.reads += 1;
    if (status !== 200 || !isWhole(body)) throw new Error(`${path}: ${status} ${JSON.stringify(body.slice(0, 300))}`);
    return body;
  };
  const isPage = (html: string) => markOf(html) > 0;
  const front = await read("/", isPage);
  const mark = markOf(front);
  for (const [, path] of front.matchAll(/href="?([^"> ]+)/g))
    await read(
      path!,
      path!.endsWith(".css") ? (text) => text.includes(`mark-${mark} `) && /\*\/\s*$/.test(text) : isPage,
    );
  return mark;
}

/** The processes to kill, as shares of ten: shell commands that print their ids. */
const builder = "systemctl show -P MainPID pushgate-build@site.service";
const receiver = "systemctl show -P MainPID pushgate-receiver.service";
const gitOrSync = "tail -n +2 /sys/fs/cgroup/system.slice/pushgate-build@site.service/cgroup.procs";
const hugo =
  "cat /sys/fs/cgroup/system.slice/*pushgate*generator*/*/cgroup.procs /sys/fs/cgroup/system.slice/pushgate-generator-site@*/cgroup.procs";
const victims = [...Array(4).fill(builder), ...Array(3).fill(receiver), gitOrSync, hugo, `${builder}; ${receiver}`];

/** Runs until `count` kills have hit at least one process each. */
export async function soakKills(rebuild: Rebuild, count: number, seed: number) {
  const { host, repositories } = rebuild;
  const next = random(seed);
  const counted = { kills: 0, pushes: 0, rejected: 0, reads: 0 };
  // Shorter pauses after each kill: the real 2 s of systemd and up to 15 minutes of the builder would take hours.
  const soon = "[Service]\nRestartSec=100ms\n";
  const noPause = `ExecStopPost=/usr/bin/rm -f ${placesOf("site").paused}\n`;
  await host.writeFile("/run/systemd/system/pushgate-receiver.service.d/soon.conf", soon);
  await host.writeFile("/run/systemd/system/pushgate-build@site.service.d/soon.conf", soon + noPause);
  await host.inside("systemctl daemon-reload");

  let over = false;
  let wrong: unknown;
  const watch = async () => {
    for (let seen = 0; !over && wrong === undefined; ) {
      const mark = await readSite(rebuild, counted);
      if (mark < seen || mark > counted.pushes) throw new Error(`a visitor saw push ${mark} after push ${seen}`);
      seen = mark;
    }
  };
  let watches: Promise<unknown>[] = [];
  while (counted.kills < count && wrong === undefined) {
    counted.pushes += 1;
    const commit = repositories.site.push(markedFiles(counted.pushes));
    // While the receiver restarts, deliveries fail; this repeats them, as a sender's "Redeliver" would.
    await until("the delivery is accepted", async () => {
      if ((await rebuild.deliver(commit)).status === 202) return true;
      counted.rejected += 1;
      return undefined;
    });
    for (let i = 0; counted.pushes > 1 && i < mostKillsPerPush && counted.kills < count; i++) {
      await new Promise((resolve) => setTimeout(resolve, next() * 500));
      if (statusOf(host)?.deployed?.commit === commit) break;
      const victim = victims[Math.floor(next() * victims.length)]!;
      const kill = `n=0; for p in $(${victim}); do [ "$p" = 0 ] || { kill -9 "$p" && n=1; }; done 2>/dev/null; echo "$n"`;
      counted.kills += Number((await host.inside(kill, { check: false })).stdout);
    }
    await published(host, commit, { timeout: 60_000 });
    const mark = await readSite(rebuild, counted);
    if (mark !== counted.pushes)
      throw new Error(`status.json has push ${counted.pushes}, but push ${mark} is published`);
    if (watches.length === 0)
      watches = Array.from({ length: visitors }, () =>
        watch().catch((error) => {
          wrong = error;
        }),
      );
  }
  over = true;
  await Promise.all(watches);
  if (wrong !== undefined) throw wrong;
  await host.inside("rm -r /run/systemd/system/pushgate-*.d && systemctl daemon-reload");
  return counted;
}
