/**
 * One run, read downward: from what is pending to what is published, or why not. Whatever ends it, the site is the
 * former or the new one, whole; and what asked for the run stays pending until `main.ts` knows it to be on the disk.
 */
import { statSync } from "node:fs";
import type { Builder } from "../settings.ts";
import { compare, isAdoptable, registerAdopted } from "./adopt.ts";
import { deployed } from "./current.ts";
import { type Plan, plan, planBy } from "./decide.ts";
import { remove, writeWhole } from "./files.ts";
import { gate } from "./gate.ts";
import { heldHead, letGo } from "./held.ts";
import { build } from "./hugo.ts";
import type { Manifest } from "./manifest.ts";
import type { Marker } from "./markers.ts";
import { makeRelease, publish } from "./release.ts";
import { Report } from "./report.ts";
import { CloneFault, changes, checkOut, discard, fetchHead, isBroken, type Site } from "./repository.ts";
import { rollBack } from "./rollback.ts";
import { failed, listed, setbackOf } from "./setback.ts";
import { differences } from "./verify.ts";

/** Never rejects: what goes wrong is in the report. */
export async function run(builder: Builder, site: Site, markers: readonly Marker[], debounce: number): Promise<Report> {
  const report = new Report(markers, debounce);
  try {
    registerAdopted(site.places, builder.settings.keep);
    const [first] = markers;
    if (first?.kind === "rollback") await rollback(site, first.release ?? "", report);
    else
      try {
        await advance(builder, site, markers, report);
      } catch (error) {
        if (!(error instanceof CloneFault)) throw error;
        await afresh(site, error, report);
        await advance(builder, site, markers, report);
      }
  } catch (error) {
    const setback = error instanceof CloneFault ? failed(error.message) : setbackOf(error);
    report.result = setback.result;
    report.reason = setback.message;
  }
  return report;
}

async function rollback(site: Site, release: string, report: Report): Promise<void> {
  const { commit, reason } = await rollBack(site, release);
  report.result = "rolled back";
  report.commit = commit;
  report.reason = reason;
}

/** From the branch's head to the site. */
async function advance(builder: Builder, site: Site, markers: readonly Marker[], report: Report): Promise<void> {
  const { settings } = builder;
  const adopting = markers[0]?.kind === "adopt";
  if (adopting && !isAdoptable(settings.webRoot)) {
    report.reason = `${settings.webRoot} is no folder any more: there is nothing to adopt`;
    return;
  }
  const published = deployed(site.places);
  const head = await report.timed("fetch", () => fetchHead(site));
  report.head = head;
  const { commit, reason } = await report.timed("decide", (): Plan | Promise<Plan> =>
    adopting ? { commit: head, reason: "to compare" } : decide(site, head, published, markers),
  );
  report.commit = commit ?? head;
  report.reason = reason;
  if (commit === null) return;

  const links = await report.timed("checkout", () => checkOut(site, commit));
  if (links.length > 0) report.warnings.push(`symbolic links are left out: ${listed(links)}`);
  const out = await report.timed("hugo", () => {
    needContent(settings.content);
    return build(builder, site.places);
  });
  await report.timed("publish", async () => {
    const found = gate(out, settings, adopting ? null : (published?.pages ?? null), links);
    const made = await makeRelease(settings, site.places, commit, out, found, report.warnings);
    // Its work tree is on the disk with the rest.
    writeWhole(site.places.checkedOut, `${commit}\n`);
    if (adopting) {
      report.adoption = compare(settings, made);
      const lost = report.adoption.files.length + report.adoption.more;
      report.reason = `${settings.webRoot} was compared with ${made.release}: ${lost} files are neither built nor kept`;
      return;
    }
    report.stay = publish(site.places, made.release);
    report.result = "published";
    if (heldHead(site.places) !== head) letGo(site.places);
  });
}

async function decide(
  site: Site,
  head: string,
  published: Manifest | undefined,
  markers: readonly Marker[],
): Promise<Plan> {
  const { places, settings } = site;
  const has = (kind: Marker["kind"]) => markers.some((marker) => marker.kind === kind);
  const held = heldHead(places);
  const known = {
    head,
    deployed: published ?? null,
    held,
    asked: has("ask"),
    tampered: published && has("tick") ? differences(places, published) : [],
  };
  const at = plan(known);
  if (at) return at;
  const by = planBy(await changes(site, published!.commit!, head), settings.paths, head);
  // A new head that builds nothing ends a rollback as well: what is published is what it would build.
  if (by.commit === null && held !== null) letGo(places);
  return by;
}

/** hugo exits 0 without it. Only where it is surely not there: what a sandbox hides from us, hugo may see. */
function needContent(content: string): void {
  let isFolder: boolean;
  try {
    isFolder = statSync(content).isDirectory();
  } catch (error) {
    isFolder = (error as NodeJS.ErrnoException).code === "EACCES";
  }
  if (!isFolder)
    throw failed(`the content folder ${content} is not there: is it mounted? hooks[].site.content names it`);
}

/** The clone is thrown away where git itself finds it broken; else it is not the clone's fault. */
async function afresh(site: Site, fault: CloneFault, report: Report): Promise<void> {
  if (!(await isBroken(site))) throw failed(fault.message);
  report.warnings.push(`the clone was broken and is made anew: ${fault.message}`);
  discard(site.places);
  remove(`${site.places.clone}.new`);
}
