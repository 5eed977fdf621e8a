/**
 * Random pushes, good and broken, writes of content, asks, rollbacks and ticks: whatever comes, the content folder is
 * byte for byte, owner for owner and date for date what its owner wrote.
 */
import { random } from "../../random.ts";
import { until } from "../lab/process.ts";
import { front, page, placesOf, writeContent } from "./site.ts";
import { pending, statusOf } from "./status.ts";
import type { Rebuild } from "./world.ts";

export type Walk = {
  readonly steps: Readonly<Record<string, number>>;
  readonly results: Readonly<Record<string, number>>;
};

const { content } = placesOf("site");

/** Everything there is to know of it. */
const look = ({ host }: Rebuild): Promise<string> =>
  host.read(
    `cd ${content} && find . -printf '%p %y %m %U:%G %s %T@ %l\\n' | sort && find . -type f -exec sha256sum {} + | sort`,
  );

/** The hook `site` must have writers of whom guest is one. Throws with the first difference. */
export async function soakWalk(rebuild: Rebuild, count: number, seed: number): Promise<Walk> {
  const { host } = rebuild;
  const next = random(seed);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)]!;
  let written = await look(rebuild);
  const write = async (work: () => Promise<unknown>): Promise<void> => {
    await work();
    written = await look(rebuild);
  };
  const text = () => `${Math.floor(next() * 1e9)}`;
  const good = () => rebuild.push({ "layouts/index.html": front(text()) });
  const actions: Record<string, () => Promise<unknown>> = {
    push: good,
    "push of README": () => rebuild.push({ "README.md": text() }),
    "push of content": async () => {
      await rebuild.push({ "content/posts/one.md": text(), "static/x": text() });
      rebuild.repositories.site.push({ "content/posts/one.md": null });
    },
    "broken push": () => rebuild.push({ "layouts/index.html": `{{ .Nothing${text()} }}` }),
    "missing layouts": () => rebuild.push({ "layouts/index.html": null, "static/x": text() }),
    "rewritten history": async () => {
      const { site } = rebuild.repositories;
      const tree = site.git("rev-parse", "main^{tree}");
      site.point(site.git("commit-tree", "-m", text(), tree));
      await rebuild.deliver(site.head()!);
    },
    "write of content": () =>
      write(() =>
        writeContent(host, content, { [`posts/${pick(["two", "three", "four"])}.md`]: page(text(), text()) }),
      ),
    "removal of content": () => write(() => host.inside(`rm -f ${content}/posts/${pick(["two", "three", "four"])}.md`)),
    ask: () => rebuild.ask(`ask-${text()}`, "guest"),
    tick: () => rebuild.ask("tick"),
    rollback: () => rebuild.ask(`rollback-${pick(statusOf(host)!.releases).id}`),
    "builder killed": () =>
      host.inside("systemctl kill --signal=KILL pushgate-build-site.service 2>/dev/null", { check: false }),
  };
  const steps: Record<string, number> = {};
  const results: Record<string, number> = {};
  for (let i = 0; i < count; i++) {
    const name = pick(Object.keys(actions));
    steps[name] = (steps[name] ?? 0) + 1;
    const before = statusOf(host)?.last?.at;
    await actions[name]!();
    // Some are waited for, some meet the next one at work.
    if (next() < 0.6) await settled(rebuild, before);
    const { last } = statusOf(host)!;
    if (last !== undefined && last.at !== before) results[last.result] = (results[last.result] ?? 0) + 1;
    const now = await look(rebuild);
    if (now !== written)
      throw new Error(
        `step ${i + 1}, ${name}: the content is not what its owner wrote:\n${now}\n-- but --\n${written}`,
      );
  }
  await good();
  await settled(rebuild, statusOf(host)?.last?.at);
  if ((await look(rebuild)) !== written) throw new Error("in the end the content is not what its owner wrote");
  return { steps, results };
}

/** Either nothing waits any more, or the last run came to no good and has said so. */
async function settled({ host }: Rebuild, before: string | undefined): Promise<void> {
  await until(
    "the builder has done, or said why not",
    () => {
      if (pending(host).length === 0) return true;
      const { last } = statusOf(host) ?? {};
      return (last !== undefined && last.at !== before && ["failed", "refused"].includes(last.result)) || undefined;
    },
    { timeout: 60_000 },
  );
}
