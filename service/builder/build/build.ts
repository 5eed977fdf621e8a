/** What a build begins with, its unit, and what is removed after it. */
import { chmodSync, copyFileSync, lstatSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tried } from "../../tried.ts";
import { beginningOf, eachName, ifThere, remove } from "../files.ts";
import { makeOpen, type Places } from "../places.ts";
import { failed, rejected } from "../run/setback.ts";
import type { Run } from "../run/status.ts";
import type { BuilderSettings } from "../settings.ts";
import { readsContent, statsName } from "./content.ts";
import { folderAdvice, isConfiguration, reasonOf, versionAdvice, warningsOf } from "./hugo.ts";
import { live } from "./live.ts";
import { rejectPointers } from "./pointers.ts";
import { runUnit, stop } from "./unit.ts";

const contentUnread =
  "hooks[].site.content is not read: contentDir of languages, or module.mounts, of the site's configuration outranks it. Set HUGO_LANGUAGES_<LANG>_CONTENTDIR to /content/<lang> in hooks[].site.hugo.variables for each language, or remove the mounts.";

/** Builds `files` into an empty `out`; `sent`: to the unit. Returns what the unit found of the folders. Adds to the run's warnings and output. Throws Setback. */
export async function build(
  settings: BuilderSettings,
  places: Places,
  files: readonly string[],
  run: Pick<Run, "last" | "output" | "shows">,
  sent = "",
) {
  const { limits } = settings;
  const { warnings } = run.last;
  // A former build that still runs keeps writing into the former folder, which is removed.
  setAside(places);
  makeOpen(places.out);
  provideStats(places, settings.folder);
  tried(() => remove(places.mounts));
  const shown = live(run.shows);
  const built = await runUnit(settings, places, "generator", { sent, shows: shown.add }).finally(shown.end);
  run.output = built.output;
  warnings.push(...warningsOf(built.output));
  const mounts = tried(() => beginningOf(places.mounts, 1 << 20)) ?? "";
  rejectPointers(places.clone, files, mounts, settings);
  const advice = folderAdvice(files, (path) => beginningOf(join(places.clone, path), 1 << 20), settings.folder);
  const version = versionAdvice(built.output, files);
  if (built.result !== "success" || built.code !== "exited") throw failed(reasonOf(built, limits, version) + advice);
  const { content, folder } = settings;
  if (content !== undefined && !readsContent(mounts, content)) throw rejected(contentUnread);
  // Hugo 0.168 builds without a configuration.
  const isBare = folder !== undefined || !files.some(isConfiguration);
  if (advice !== "" && isBare) warnings.push(advice.trim());
  return { mounts, version, advice };
}

/** The unit mounts the stats over the source's file. A build begins with the repository's, else with the last ones. */
function provideStats({ clone, stats }: Places, folder = ""): void {
  const inSource = join(clone, folder, statsName);
  const stat = ifThere(() => lstatSync(inSource));
  if (stat && !stat.isFile()) throw rejected(`${statsName} in the repository is no file. Remove it.`);
  const given = stat && stat.size > 0;
  if (given || !ifThere(() => lstatSync(stats))) {
    remove(stats);
    if (given) copyFileSync(inSource, stats);
    else writeFileSync(stats, '{"htmlElements":{"tags":[],"classes":[],"ids":[]}}\n', { flag: "wx" });
    chmodSync(stats, 0o666); // as the cache
  }
  // The unit mounts the stats over this file. An empty one is the builder's, as the generator never writes one.
  if (!stat) writeFileSync(inSource, "", { flag: "wx" });
}

export function setAside({ work, out }: Places, folder = out): void {
  ifThere(() => renameSync(folder, join(work, `former-${Date.now()}-${process.pid}`)));
  // Root removes folders that another account closed, and those that are deeper than a path may be.
  for (const name of readdirSync(work).filter((name) => name.startsWith("former-")))
    tried(() => remove(join(work, name)));
}

/** Where there is what the builder may not remove: of the generator's account, and folders that members put into requests. */
export function removeAsRoot(settings: BuilderSettings, { work, spool, requests, rootRequests }: Places) {
  for (const folder of [work, spool, requests, rootRequests, ...(settings.reports ? [settings.reports.folder] : [])])
    for (const name of eachName(folder)) if (/^(former|\.aside)-/.test(`${name}`)) return void stop(settings, () => {});
}
