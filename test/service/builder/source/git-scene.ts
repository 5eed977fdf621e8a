/** A site of a real git host, and git on a host whose owner has configured git for other programs. */
import { afterAll, afterEach, beforeEach } from "vitest";
import { makePlaces } from "../../../../service/builder/places.ts";
import type { Git } from "../../../../service/builder/source/git.ts";
import { checkOut, discardClone, fetchHead } from "../../../../service/builder/source/repository.ts";
import type { GitHost } from "../../../fakes/git-host.ts";
import { type Bench, bench, cannotBuild, closeGitHost, gitHost } from "../harness.ts";
import { type HostileHost, hostileHost, noHostileHost } from "../hostile-host.ts";
import { type Changes, gitWith } from "./git-lines.ts";

export let host: GitHost;
export let site: Bench;
export let hostile: HostileHost;

/** Makes them once for all tests of a file; each begins without a clone. */
export function onHostileHost(): void {
  let isMade = false;
  beforeEach(async ({ skip }) => {
    skip(cannotBuild !== undefined, cannotBuild);
    skip(noHostileHost !== undefined, noHostileHost);
    if (isMade) return discardClone(site.places);
    isMade = true;
    host = await gitHost();
    site = await bench();
    hostile = hostileHost(site.folder);
    makePlaces(site.places);
  });
  afterEach(() => {
    for (const fault of ["status", "trickles"] as const) delete host?.faults[fault];
    if (host) Object.assign(host.lfs, { href: undefined, trickles: false });
  });
  afterAll(async () => {
    site?.remove();
    await closeGitHost();
  });
}

export const git = (changes: Changes = {}, seconds?: number) =>
  gitWith({ ...site.builder, path: hostile.path }, changes, seconds);

/** Fetches the head and checks it out, as a run does. Returns why it cannot. */
export async function checkedOut(by: Git, submodules = false): Promise<string | undefined> {
  const at = { settings: { ...site.builder.settings, submodules }, places: site.places, git: by };
  try {
    await checkOut(at, await fetchHead(at));
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
