/**
 * A site of previews: its release has a folder for each branch. A run builds one branch, and carries the folders of the others
 * along. A branch whose build failed has a note, so that it delays no other.
 */
import { mkdirSync, renameSync } from "node:fs";
import { printable } from "../../printable.ts";
import { tried } from "../../tried.ts";
import { setAside } from "../build/build.ts";
import { movedFrom } from "../build/content.ts";
import { type Build, pagesOf } from "../build/gate.ts";
import { readJson, writeWhole } from "../files.ts";
import type { Places } from "../places.ts";
import { crypto } from "../release/hashed.ts";
import { makeRelease, type Source } from "../release/make-release.ts";
import { deployed, intact } from "../release/releases.ts";
import { admit, type BuildContext, branchHeads, fetchHead } from "../source/repository.ts";
import { buildCommit, publish } from "./build-commit.ts";
import type { Marker } from "./markers.ts";
import type { Preview, Run } from "./status.ts";

type Notes = Readonly<Record<string, { readonly commit: string; readonly attempts: number }>>;

/** As many as may be kept. A person may push any number of branches. */
const mostNoted = 50;

/** By the timer; more only by a push or a request. */
const mostAttempts = 4;

/** Folders built for the present markers: none is tried twice. */
const again = new Set<string>();

/** None of builds with other settings: with the current ones each may succeed. */
function notesOf({ settings, places }: BuildContext): Notes {
  const found = readJson(places.unbuilt);
  return found?.settings === JSON.stringify(settings) ? found.notes : {};
}

export function noteUnbuilt(context: BuildContext, run: Run): void {
  const { settings, places } = context;
  if (run.preview === undefined) return;
  const { folder, commit } = run.preview;
  const { [folder]: former, ...others } = notesOf(context);
  const attempts = former?.commit === commit ? former.attempts + 1 : 1;
  const notes = Object.fromEntries([...Object.entries(others), [folder, { commit, attempts }]].slice(-mostNoted));
  run.isNoted = tried(() => {
    writeWhole(places.unbuilt, JSON.stringify({ settings: JSON.stringify(settings), notes }), 0o600);
    return true;
  });
}

/** Fit for a path and a URL. Two branches never have the same one, whatever their names are. */
export function folderOf(branch: string): string {
  const plain = (branch.toLowerCase().match(/[a-z0-9]+/g) ?? []).join("-");
  if (plain === branch && plain.length <= 40) return plain;
  return `${plain.slice(0, 40) || "branch"}_${crypto().createHash("sha256").update(branch).digest("hex").slice(0, 8)}`;
}

export async function advancePreviews(context: BuildContext, markers: readonly Marker[], run: Run): Promise<void> {
  const { settings, places } = context;
  const { keep, url } = settings.previews!;
  const has = (kind: Marker["kind"]) => markers.some((marker) => marker.kind === kind);
  const published = deployed(places);
  const built = published?.previews ?? {};
  await run.timed("fetch", () => fetchHead(context));
  const heads = await run.timed("decide", () => branchHeads(context));
  const wanted = heads.slice(0, keep).map(({ branch, commit }): Preview => {
    const folder = folderOf(branch);
    return { branch, commit, folder, url: `${url}${folder}/` };
  });
  const notes = notesOf(context);
  const stale = wanted.filter(({ folder, commit }) => {
    const [former, note] = [built[folder], notes[folder]];
    const isSame = former?.commit === commit && !movedFrom({ ...former, release: "" }, settings);
    if (isSame || note?.commit !== commit) return !isSame;
    return !again.has(folder) && (has("request") || (has("tick") && note.attempts < mostAttempts));
  });
  const [next] = stale;
  const isWanted = (folder: string) => wanted.some((one) => one.folder === folder);
  const kept = Object.keys(built).filter((folder) => folder !== next?.folder && isWanted(folder));
  const gone = Object.keys(built).filter((folder) => !isWanted(folder));
  run.preview = next;
  // Where the build fails, another run removes what is gone.
  run.more = stale.length > 1 || (next !== undefined && gone.length > 0);
  if (!run.more) again.clear();
  else if (next) again.add(next.folder);

  const release = async (source: Source, found: Build, intact: ReadonlySet<string>) => {
    await publish(context, run, await makeRelease(settings, places, source, found, intact, kept));
    run.more = stale.length > 1;
  };
  const ofKept = Object.fromEntries(kept.map((folder) => [folder, built[folder]!]));
  const { last } = run;
  if (next) {
    const { branch, commit, folder } = next;
    last.commit = commit;
    last.reason = `the branch ${printable(branch, 100)}, at ${next.url}`;
    await admit(context, commit);
    await buildCommit(context, commit, run, built[folder]?.pages, (source, found, intact) => {
      const own = { branch, commit, pages: pagesOf(found.files), from: source.from };
      const previews = { ...ofKept, [folder]: own };
      return release({ ...source, previews }, moved(places, folder, found), intact);
    });
  } else if (published && gone.length > 0) {
    last.reason = `removed: ${gone.map((folder) => built[folder]!.branch).join(", ")}`;
    const none = { folders: [], files: [], links: [], others: [], hashes: new Map() };
    const { commit, from } = published;
    const source = { commit, from, warnings: last.warnings, previews: ofKept };
    await run.timed("publish", async () => release(source, none, await intact(places, published.release)));
  } else {
    const failing = wanted.filter(({ folder, commit }) => notes[folder]?.commit === commit);
    const except = failing.length > 0 ? `, but for ${failing.map(({ branch }) => branch).join(", ")}` : "";
    last.reason = `${wanted.length} branches are published as they are${except}`;
  }
}

/** The build, in a folder of its own. */
function moved(places: Places, folder: string, found: Build): Build {
  const { out } = places;
  const aside = `${out}.one`;
  setAside(places, aside);
  renameSync(out, aside);
  mkdirSync(out);
  renameSync(aside, `${out}/${folder}`);
  const at = (path: string) => `${folder}/${path}`;
  const hashes = new Map([...found.hashes].map(([path, hashed]) => [at(path), hashed]));
  return { ...found, folders: [folder, ...found.folders.map(at)], files: found.files.map(at), hashes };
}
