/**
 * Random pushes, valid and broken, writes of content, requests, rollbacks and ticks: after every step, the bytes,
 * owners and dates in the content folder are exactly those that its owner wrote.
 */
import { random } from "../../fixtures.ts";
import { until } from "../lab/process.ts";
import { front, page, placesOf, writeContent } from "./site.ts";
import { pending, statusOf } from "./status.ts";
import type { Rebuild } from "./world.ts";

export type Walk = {
  readonly steps: Readonly<Record<string, number>>;
  readonly results: Readonly<Record<string, number>>;
};

const { content } = placesOf("site");

/** All paths of the content folder with type, mode, owner, size, date, link target and checksum. */
const contentOf = ({ host }: Rebuild): Promise<string> =>
  host.read(
    `cd ${content} && find . -printf '%p %y %m %U:%G %s %T@ %l\\n' | sort && find . -type f -exec sha256sum {} + | sort`,
  );

/** Throws with the first difference. The account guest must be in the writers' group of the hook `site`. */
export async function soakWalk(rebuild: Rebuild, count: number, seed: number): Promise<Walk> {
  const { host } = rebuild;
  const next = random(seed);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(next() * of.length)]!;
  let written = await contentOf(rebuild);
  const write = async (work: () => Promise<unknown>): Promise<void> => {
    await work();
    written = await contentOf(rebuild);
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
    request: () => rebuild.request(`request-${text()}`, "guest"),
    tick: () => rebuild.request("tick"),
    rollback: () => rebuild.request(`rollback-${pick(statusOf(host)!.releases).id}`),
    "builder killed": () =>
      host.inside("systemctl kill --signal=KILL pushgate-build@site.service 2>/dev/null", { check: false }),
  };
  const steps: Record<string, number> = {};
  const results: Record<string, number> = {};
  for (let i = 0; i < count; i++) {
    const name = pick(Object.keys(actions));
    steps[name] = (steps[name] ?? 0) + 1;
    const before = statusOf(host)?.last?.at;
    await actions[name]!();
    // Some steps are awaited; others are still in progress at the next step.
    if (next() < 0.6) await settled(rebuild, before);
    const { last } = statusOf(host)!;
    if (last !== undefined && last.at !== before) results[last.result] = (results[last.result] ?? 0) + 1;
    const now = await contentOf(rebuild);
    if (now !== written)
      throw new Error(
        `step ${i + 1}, ${name}: the content differs from what its owner wrote:\n${now}\n-- instead of --\n${written}`,
      );
  }
  await good();
  await settled(rebuild, statusOf(host)?.last?.at);
  if ((await contentOf(rebuild)) !== written)
    throw new Error("at the end the content differs from what its owner wrote");
  return { steps, results };
}

/** Waits until nothing is pending, or the last run has failed and reported it. */
async function settled({ host }: Rebuild, before: string | undefined): Promise<void> {
  await until(
    "the builder has published or reported a failure",
    () => {
      if (pending(host).length === 0) return true;
      const { last } = statusOf(host) ?? {};
      return (last !== undefined && last.at !== before && ["failed", "rejected"].includes(last.result)) || undefined;
    },
    { timeout: 60_000 },
  );
}
