/** One run: from the pending markers to a published site, or the reason why the former one stays. */
import { movedFrom } from "../build/content.ts";
import { TooMuch } from "../build/disk-watch.ts";
import { haveRoom, makeAnew } from "../build/room.ts";
import { writeWhole } from "../files.ts";
import { heldHead, holdHead, unholdHead } from "../places.ts";
import { crypto } from "../release/hashed.ts";
import { makeRelease } from "../release/make-release.ts";
import { deployed, differences, filesOf, isSameBuild, readManifest, releases, switchTo } from "../release/releases.ts";
import { type Plan, plan, planBy } from "../source/decide.ts";
import { admit, type BuildContext, CloneFault, changes, fetchHead, lastHead } from "../source/repository.ts";
import { buildCommit, publish } from "./build-commit.ts";
import { type Marker, named } from "./markers.ts";
import { advancePreviews, noteUnbuilt } from "./previews.ts";
import { failed, listed, rejected, setbackOf } from "./setback.ts";
import { Run } from "./status.ts";

export async function runOnce(context: BuildContext, markers: readonly Marker[]): Promise<Run> {
  const run = new Run(named(markers));
  try {
    const [first] = markers;
    if (first?.kind === "rollback") return run.end(await rollBack(context, first.release ?? ""));
    await haveRoom(context);
    setImmediate(crypto);
    const work = context.settings.previews === undefined ? advance : advancePreviews;
    try {
      await work(context, markers, run);
    } catch (error) {
      if (!(error instanceof CloneFault || error instanceof TooMuch)) throw error;
      await makeAnew(context, error, run);
      await work(context, markers, run).finally(() => writeWhole(context.places.madeAnew, run.head ?? ""));
    }
    return run.end();
  } catch (error) {
    const { result, message } = error instanceof CloneFault ? failed(error.message) : setbackOf(error);
    noteUnbuilt(context, run);
    return run.end({ result, reason: message });
  }
}

async function advance(context: BuildContext, markers: readonly Marker[], run: Run): Promise<void> {
  const { settings, places } = context;
  const { last } = run;
  const published = deployed(places);
  const head = await run.timed("fetch", () => fetchHead(context));
  run.head = head;
  const { commit, reason, unlessSame } = await run.timed("decide", () => decideFrom(context, head, markers));
  last.commit = commit ?? head;
  last.reason = reason;
  if (commit === null) return;
  await buildCommit(context, commit, run, published?.pages, async (source, found, intact) => {
    const made = await makeRelease(settings, places, source, found, intact);
    await publish(context, run, made, () => {
      const { release = "" } = published ?? {};
      if (!unlessSame || !published || !isSameBuild(made, { release, files: filesOf(places, release) })) return true;
      last.reason = `${reason}: the build is the same as ${release}`;
      return false;
    });
    if (last.result === "published" && commit === head) unholdHead(places);
  });
}

/** A commit that is compared or built is admitted. */
async function decideFrom(context: BuildContext, head: string, markers: readonly Marker[]): Promise<Plan> {
  const { places, settings } = context;
  const published = deployed(places);
  const moved = published && movedFrom(published, settings);
  // The settings of a former build of the head, to which a rollback led, are set again.
  if (published?.commit === head && moved === undefined) unholdHead(places);
  const has = (kind: Marker["kind"]) => markers.some((marker) => marker.kind === kind);
  const at = plan({
    head,
    deployed: published ?? null,
    held: heldHead(places),
    requested: has("request"),
    scheduled: has("schedule"),
    moved,
    tampered: published && has("tick") ? await differences(places, published.release) : [],
  });
  const commit = at ? at.commit : head;
  if (commit !== null) await admit(context, commit);
  if (at) return at;
  const changed = await changes(context, published!.commit, head);
  const by = planBy(changed, settings.paths, head, published!.from.read);
  // A new head that builds nothing ends a rollback as well: what is published is what it would build.
  if (by.commit === null) unholdHead(places);
  return by;
}

/** Publishes a kept release again, without the git host and the generator. Throws Setback with nothing changed. */
export async function rollBack(context: BuildContext, release: string) {
  const { places } = context;
  const known = releases(places);
  const manifest = known.includes(release) ? readManifest(places, release) : undefined;
  if (!manifest) throw rejected(`there is no release ${listed([release])}. Use one of ${listed(known)}.`);
  const differ = await differences(places, release);
  if (differ.length > 0)
    throw rejected(`${release} is not what was published: ${listed(differ)} differ. Use another release, or push.`);
  const head = (await lastHead(context)) ?? deployed(places)?.commit ?? null;
  // Before the switch: a builder that is killed in between must not publish the former head again.
  if (head === manifest.commit && movedFrom(manifest, context.settings) === undefined) unholdHead(places);
  else if (head !== null) holdHead(places, head);
  switchTo(places, release);
  const held = heldHead(places);
  const again = held === manifest.commit ? "built again with the current settings" : "published again";
  const hint = held ? `; ${held.slice(0, 12)} is not ${again} until a newer commit arrives` : "";
  return { result: "rolled back", commit: manifest.commit, reason: `${release} is published${hint}` } as const;
}
