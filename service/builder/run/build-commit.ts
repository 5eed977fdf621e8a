/** From a commit to a build that may be published, and its publish. */
import { tried } from "../../tried.ts";
import { build } from "../build/build.ts";
import { fromOf, pagesListed } from "../build/content.ts";
import { provideDependencies } from "../build/dependencies.ts";
import { type Build, gate } from "../build/gate.ts";
import { provideHistory } from "../build/history.ts";
import { beginningOf, remove, writeWhole } from "../files.ts";
import type { Source } from "../release/make-release.ts";
import { currentRelease, intact, type Manifest, prune, releases, staying, switchTo } from "../release/releases.ts";
import { type BuildContext, checkOut } from "../source/repository.ts";
import { reportBegin } from "./reports.ts";
import { aboutOf, beginRun } from "./runs.ts";
import { listed } from "./setback.ts";
import type { Run } from "./status.ts";

/** `former`: the pages of what is published. `use` gets what may be published, and which published files are as they were. Throws Setback, CloneFault. */
export async function buildCommit(
  context: BuildContext,
  commit: string,
  run: Run,
  former: number | undefined,
  use: (source: Source, found: Build, intact: ReadonlySet<string>) => Promise<void>,
): Promise<void> {
  const { settings, places } = context;
  const { last, preview } = run;
  reportBegin(context, commit, run);
  run.about = await aboutOf(context, commit);
  tried(() => beginRun(places, commit, run)); // its end is a warning of the run
  const about = { hook: settings.hook, commit };
  run.begins = (step) => context.progress?.({ ...about, step });
  run.shows = (output) => context.progress?.({ ...about, output });

  const { links, files } = await run.timed("checkout", async () => {
    const found = await checkOut(context, commit);
    await provideHistory(context, commit, found.files);
    return found;
  });
  if (links.length > 0) last.warnings.push(`symbolic links are left out: ${listed(links)}`);
  await run.timed("dependencies", () => provideDependencies(settings, places, files));
  if (former === undefined) remove(places.pages); // so that they are listed
  const sent = preview && `${preview.url}\n`;
  const { mounts, version, advice, same } = await run.timed("build", async () => {
    const building = build(settings, places, files, run, sent);
    const looked = intact(places, currentRelease(places)); // while the generator starts
    return { ...(await building.finally(() => looked)), same: await looked };
  });
  await run.timed("publish", () => {
    const leftOut = links.length > 0 ? ` These links were left out: ${listed(links)}.` : "";
    const content = former === undefined ? pagesListed(beginningOf(places.pages, 8 << 20)) : 0;
    const found = gate(places.out, settings, former ?? null, content, leftOut + advice, version, run.output);
    return use({ commit, from: fromOf(settings, mounts), warnings: last.warnings }, found, same);
  });
}

/** Publishes a release that was made, unless it `isWanted` no more. */
export async function publish({ places }: BuildContext, run: Run, made: Manifest, isWanted = () => true) {
  try {
    // The checkout is on the disk with the release.
    writeWhole(places.checkedOut, `${made.commit}\n`);
    if (!isWanted()) return;
    const stay = staying(places, made.release);
    switchTo(places, made.release);
    run.stay = stay;
    run.last.result = "published";
  } finally {
    // Only published releases stay, for a rollback: five others would take their places.
    const others = releases(places).filter((id) => id !== made.release);
    if (currentRelease(places) !== made.release) prune(places, others);
  }
}
