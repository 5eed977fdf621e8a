/** What the reporter is to send of a run (decision 027). What cannot be written is a warning of the run. */
import { printable } from "../../printable.ts";
import { readJson, readText, writeWhole } from "../files.ts";
import { add, type Report } from "../outbox.ts";
import { heldHead, type Places } from "../places.ts";
import { changedBetween, deployed, filesOf, readManifest } from "../release/releases.ts";
import type { BuilderSettings } from "../settings.ts";
import type { Failing } from "./pauses.ts";
import { setbackOf } from "./setback.ts";
import { isGood, type Run } from "./status.ts";

type Given = { readonly settings: Pick<BuilderSettings, "reports">; readonly places: Places };
type Result = Pick<Report, "reason" | "url"> & {
  readonly commit: string;
  readonly state: "pending" | "success" | "failure";
};
type Turn = "failure" | "success" | undefined;

/** Whether runs began to fail or to succeed: known again to the next builder until status.json is written. */
export function turnOf(before: Failing | undefined, after: Failing | undefined): Turn {
  if ((before === undefined) === (after === undefined)) return undefined;
  return after ? "failure" : "success";
}

const longest = 500; // characters: a git host takes 255 at most

const oneLine = (text: string): string => printable(text.replace(/\s+/g, " ").trim(), longest);

const urlOf = ({ preview }: Run): Pick<Report, "url"> => (preview ? { url: preview.url } : {});

/** A commit is pending once: a build that is tried again leaves its failure in place. */
export function reportBegin(given: Given, commit: string, run: Run): void {
  attempt(given, run, () => {
    const last = reported(given.places);
    if (last?.commit === commit) return;
    endFormer(given, last);
    set(given, { commit, state: "pending", reason: "The build runs.", ...urlOf(run) });
  });
}

export function reportResult(given: Given, run: Run, turn: Turn): void {
  const { result, reason, commit, warnings } = run.last;
  attempt(given, run, () => {
    const last = reported(given.places);
    const isOpen = last?.state === "pending";
    const built = commit ?? run.head ?? (isOpen ? last.commit : null);
    if (built !== last?.commit) endFormer(given, last);
    // Most runs build nothing, and report only if a power cut interrupted a build after its publish, or if the commit that
    // is published failed since.
    const isPublished = () => deployed(given.places)?.commit === built && heldHead(given.places) !== built;
    const isDue = last?.commit === built && (isOpen || (last?.state === "failure" && isPublished()));
    if (built !== null && (result !== "nothing" || isDue)) {
      const state = isGood(run.last) ? "success" : "failure";
      const count = `${warnings.length} warning${warnings.length === 1 ? "" : "s"}`;
      const published = warnings.length === 0 ? "Published." : `Published, with ${count}: ${warnings.join("; ")}`;
      const said = oneLine(result === "published" ? published : reason);
      const next: Result = { commit: built, state, reason: said, ...urlOf(run) };
      const isKnown = last?.commit === built && last.state === state && last.reason === next.reason;
      if (!isKnown) set(given, next);
    }
    const { notify, folder } = given.settings.reports!;
    for (const { name, published } of notify) {
      const state = turn ?? (published && result === "published" ? result : undefined);
      if (state) add(folder, { to: `notify.${name}`, commit: built, state, reason: oneLine(reason), at: now() });
    }
  });
}

/** Of a request: URLs that Cloudflare takes on each plan, and bytes that fit into a report. Requests: for one publish. */
const most = { urls: 30, requests: 10, bytes: 6 << 10 };

/**
 * What the published release changes at its URLs, once; all, where it is too much or the former release is not known.
 * Found by comparison, so that a rollback, and a publish before a power cut, are purged as well.
 */
export function reportPurge(given: Given, run: Run): void {
  const { settings, places } = given;
  if (!settings.reports?.purge) return;
  attempt(given, run, () => {
    const [current, former] = [deployed(places), readText(places.purged)];
    if (current === undefined || current.release === former) return;
    const isKnown = former !== undefined && readManifest(places, former) !== undefined;
    const changed = isKnown ? changedBetween(filesOf(places, former), filesOf(places, current.release)) : undefined;
    const report = { to: "purge", commit: current.commit, state: "success", reason: "", at: now() } as const;
    for (const paths of changed ? requestsOf(changed.flatMap(requested)) : [undefined])
      add(settings.reports!.folder, { ...report, ...(paths && { paths }) });
    writeWhole(places.purged, current.release, 0o600);
  });
}

/** Visitors request a folder's page by the folder's path. */
const requested = (path: string) => [path, ...(/^(.*\/)?index\.html$/.test(path) ? [path.slice(0, -10)] : [])];

function requestsOf(paths: readonly string[]): (readonly string[] | undefined)[] {
  const count = Math.ceil(paths.length / most.urls);
  const parts = Array.from({ length: count }, (_, i) => paths.slice(i * most.urls, (i + 1) * most.urls));
  const fits = count <= most.requests && parts.every((part) => Buffer.byteLength(JSON.stringify(part)) <= most.bytes);
  return fits ? parts : [undefined];
}

/** Ends a pending result of another commit, whose build a power cut or a kill interrupted. */
function endFormer(given: Given, last: Result | undefined): void {
  if (last?.state === "pending") set(given, { ...last, state: "failure", reason: "The build was interrupted." });
}

/** Writes to the outbox first: after a power cut in between, a report is sent twice rather than never. */
function set({ settings: { reports }, places }: Given, result: Result): void {
  if (reports?.status) add(reports.folder, { to: "status", ...result, at: now() });
  writeWhole(places.reported, `${JSON.stringify(result)}\n`, 0o600);
}

const now = (): string => new Date().toISOString();

const reported = ({ reported }: Places): Result | undefined => readJson(reported);

function attempt({ settings }: Given, run: Run, work: () => void): void {
  if (settings.reports === undefined) return;
  try {
    work();
  } catch (error) {
    run.last.warnings.push(`the result is not reported: ${setbackOf(error).message}`);
  }
}
