/** One run: from the pending markers to a published site, or the reason why the former one stays. */
import { tried } from "../../tried.ts";
import { build, setAside } from "../build/build.ts";
import { fromOf, movedFrom, pagesListed } from "../build/content.ts";
import { provideDependencies } from "../build/dependencies.ts";
import { TooMuch } from "../build/disk-watch.ts";
import { gate } from "../build/gate.ts";
import { provideHistory } from "../build/history.ts";
import { makeRoom } from "../build/room.ts";
import { beginningOf, ifThere, readText, remove, writeWhole } from "../files.ts";
import { heldHead, holdHead, unholdHead } from "../places.ts";
import { crypto } from "../release/link-or-copy.ts";
import { makeRelease } from "../release/make-release.ts";
import {
  currentRelease,
  deployed,
  differences,
  filesOf,
  isSameBuild,
  prune,
  readManifest,
  releases,
  staying,
  switchTo,
} from "../release/releases.ts";
import { type Plan, plan, planBy } from "../source/decide.ts";
import {
  admit,
  type BuildContext,
  CloneFault,
  changes,
  checkOut,
  discardClone,
  fetchHead,
  lastHead,
} from "../source/repository.ts";
import { type Marker, named } from "./markers.ts";
import { reportBegin } from "./reports.ts";
import { aboutOf, beginRun } from "./runs.ts";
import { failed, listed, rejected, setbackOf } from "./setback.ts";
import { Run } from "./status.ts";

export async function runOnce(context: BuildContext, markers: readonly Marker[]): Promise<Run> {
  const run = new Run(named(markers));
  try {
    const [first] = markers;
    if (first?.kind === "rollback") return run.end(await rollBack(context, first.release ?? ""));
    try {
      await advance(context, markers, run);
    } catch (error) {
      if (!(error instanceof CloneFault || error instanceof TooMuch)) throw error;
      await makeAnew(context, error, run);
      await advance(context, markers, run).finally(() => writeWhole(context.places.madeAnew, run.head ?? ""));
    }
    return run.end();
  } catch (error) {
    const { result, message } = error instanceof CloneFault ? failed(error.message) : setbackOf(error);
    return run.end({ result, reason: message });
  }
}

async function advance(context: BuildContext, markers: readonly Marker[], run: Run): Promise<void> {
  const { settings, places } = context;
  const { last } = run;
  const published = deployed(places);
  await makeRoom(context);
  setImmediate(crypto);
  const head = await run.timed("fetch", () => fetchHead(context));
  run.head = head;
  const { commit, reason, unlessSame } = await run.timed("decide", () => decideFrom(context, head, markers));
  last.commit = commit ?? head;
  last.reason = reason;
  if (commit === null) return;
  reportBegin(context, commit, run);
  run.about = await aboutOf(context, commit);
  tried(() => beginRun(places, commit, run)); // its end is a warning of the run
  run.begins = (step) => context.progress?.({ hook: settings.hook, commit, step });

  const { links, files } = await run.timed("checkout", async () => {
    const found = await checkOut(context, commit);
    await provideHistory(context, commit, found.files);
    return found;
  });
  if (links.length > 0) last.warnings.push(`symbolic links are left out: ${listed(links)}`);
  await run.timed("dependencies", () => provideDependencies(settings, places, files));
  if (!published) remove(places.pages); // so that they are listed
  const { printed, version, advice } = await run.timed("build", () => build(settings, places, files, run));
  await run.timed("publish", async () => {
    const leftOut = links.length > 0 ? ` These links were left out: ${listed(links)}.` : "";
    const content = published ? 0 : pagesListed(ifThere(() => beginningOf(places.pages, 8 << 20)) ?? "");
    const found = gate(places.out, settings, published?.pages ?? null, content, leftOut + advice, version);
    const source = { commit, from: fromOf(settings, printed), warnings: last.warnings };
    const made = await makeRelease(settings, places, source, found);
    try {
      // The checkout is on the disk with the release.
      writeWhole(places.checkedOut, `${commit}\n`);
      const { release = "" } = published ?? {};
      if (unlessSame && published && isSameBuild(made, { release, files: filesOf(places, release) })) {
        last.reason = `${reason}: the build is the same as ${release}`;
        return;
      }
      const stay = staying(places, made.release);
      switchTo(places, made.release);
      run.stay = stay;
      last.result = "published";
      if (heldHead(places) !== head) unholdHead(places);
    } finally {
      // Only published releases stay, for a rollback: five others would take their places.
      const others = releases(places).filter((id) => id !== made.release);
      if (currentRelease(places) !== made.release) prune(places, others);
    }
  });
}

/** A commit that is compared or built is admitted. */
async function decideFrom(context: BuildContext, head: string, markers: readonly Marker[]): Promise<Plan> {
  const { places, settings } = context;
  const published = deployed(places);
  const has = (kind: Marker["kind"]) => markers.some((marker) => marker.kind === kind);
  const at = plan({
    head,
    deployed: published ?? null,
    held: heldHead(places),
    requested: has("request"),
    scheduled: has("schedule"),
    moved: published && movedFrom(published, settings),
    tampered: published && has("tick") ? differences(places, published.release) : [],
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
  const differ = differences(places, release);
  if (differ.length > 0)
    throw rejected(`${release} is not what was published: ${listed(differ)} differ. Use another release, or push.`);
  const head = (await lastHead(context)) ?? deployed(places)?.commit ?? null;
  // Before the switch: a builder that is killed in between must not publish the former head again.
  if (head === manifest.commit) unholdHead(places);
  else if (head !== null) holdHead(places, head);
  switchTo(places, release);
  const held = heldHead(places)?.slice(0, 12);
  const hint = held ? `; ${held} is not published again, a newer commit is` : "";
  return { result: "rolled back", commit: manifest.commit, reason: `${release} is published${hint}` } as const;
}

/** Removes the clone where git itself finds it broken, or, once for each head, where it may hold what earlier pushes left. */
async function makeAnew(context: BuildContext, fault: CloneFault | TooMuch, run: Run): Promise<void> {
  const { places, git } = context;
  if (fault instanceof TooMuch) {
    const head = run.head ?? (await lastHead(context));
    if (head === null || readText(places.madeAnew) === head) throw fault;
    setAside(places);
    run.last.warnings.push(`the clone is made anew, as earlier pushes may have filled it: ${fault.message}`);
  } else {
    const fsck = await git(["fsck", "--connectivity-only", "--no-dangling", "--no-progress"]);
    if (fsck.code === 0) throw failed(fault.message);
    run.last.warnings.push(`the clone was broken and is made anew: ${fault.message}`);
  }
  discardClone(places);
}
