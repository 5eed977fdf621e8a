/**
 * The last runs of a site for `npx pushgate deploys`, a file each: a line of JSON, and one with what its build printed. A
 * build has its file from its start, so that a power cut leaves one that says so. A failure that is tried again stays one
 * run.
 */
import { join } from "node:path";
import { printable } from "../../printable.ts";
import { tried } from "../../tried.ts";
import { beginningOf, eachName, isNumberedName, numberedName, remove, writeWhole } from "../files.ts";
import type { Places } from "../places.ts";
import { deployed, readManifest } from "../release/releases.ts";
import type { BuildContext } from "../source/repository.ts";
import { type Marker, named } from "./markers.ts";
import type { Last, Run, RunLine } from "./status.ts";

const mostKept = 50;
const mostTriggers = 100;
const mostCommits = 100;
const mostLine = 64 << 10; // bytes

type Kept = Pick<Last, "reason" | "commit"> & { readonly number: number; readonly result: string };

const pathOf = ({ runs }: Places, number: number): string => join(runs, numberedName(number));

/** The newest first. */
function numbers({ runs }: Places): number[] {
  const names = [...eachName(runs)].map(String).filter(isNumberedName);
  return names.map((name) => Number.parseInt(name, 10)).sort((a, b) => b - a);
}

/** The newest number, the run before, and the run of a build that has not ended. */
function newest(places: Places): { number: number; former?: Kept | undefined; open?: Kept } {
  const [number = 0, before = 0] = numbers(places);
  const [last, former] = [number, before].map((number): Kept | undefined =>
    tried(() => JSON.parse(beginningOf(pathOf(places, number), mostLine).split("\n")[0]!)),
  );
  return last?.result === "running" ? { number, former, open: last } : { number, former: last };
}

const write = (places: Places, run: Kept, output = ""): void =>
  writeWhole(pathOf(places, run.number), `${JSON.stringify(run)}\n${JSON.stringify(output)}\n`, 0o600);

/** Subject, author, and the commits since the published one; {} where git cannot say: no run fails for that. */
export async function aboutOf({ git, places }: Pick<BuildContext, "git" | "places">, commit: string) {
  try {
    const since = deployed(places)?.commit;
    const range = [commit, ...(since === undefined ? [] : [`^${since}`])];
    // Both at once, as a push waits for them.
    const [shown, listed] = await Promise.all([
      git(["show", "--no-patch", "--format=%s%n%an", commit]),
      git(["rev-list", `--max-count=${mostCommits}`, "--abbrev-commit", "--abbrev=12", ...range]),
    ]);
    if (shown.code !== 0) return {};
    const [subject, author] = shown.stdout.split("\n").map((text) => printable(text, 200));
    return { subject, author, commits: listed.stdout.split("\n").filter(Boolean) };
  } catch {
    return {};
  }
}

export function beginRun(places: Places, commit: string, { last, about }: Run): void {
  const { number, open } = newest(places);
  if (open) write(places, { ...open, result: "failed", reason: "the build was interrupted" });
  const begun = { ...last, ...about, commit, result: "running", at: new Date().toISOString() };
  write(places, { ...begun, number: number + 1 });
}

/** Most comparisons that the timer starts find nothing, and would take the places of all other runs. */
export const isIdle = ({ result }: Pick<Last, "result">, markers: readonly Marker[]): boolean =>
  result === "nothing" && markers.every(({ kind }) => kind === "tick");

export function endRun(places: Places, line: RunLine, markers: readonly Marker[], { about, output }: Run): void {
  const { number, former, open } = newest(places);
  if (isIdle(line, markers) && !open) return;
  const commit = line.commit ?? open?.commit ?? null;
  const isAgain = line.failing && former?.reason === line.reason && former.commit === commit;
  const pages = line.release === null ? undefined : readManifest(places, line.release)?.pages;
  const ended = { ...open, ...line, ...about, commit, pages, trigger: named(markers, mostTriggers) };
  write(places, { ...ended, number: isAgain ? former!.number : open ? number : number + 1 }, output);
  if (isAgain && open) remove(pathOf(places, number));
  for (const old of numbers(places).slice(mostKept)) remove(pathOf(places, old));
}
