/** Which former releases go where a site has no room for them. bounds.test.ts has a build that needs the room. */
import { rmSync } from "node:fs";
import { expect, test } from "vitest";
import { measure } from "../../../service/builder/disk.ts";
import { gitOf } from "../../../service/builder/git.ts";
import { currentRelease, releases, sizeOf, switchTo } from "../../../service/builder/releases.ts";
import { makeRoom } from "../../../service/builder/room.ts";
import { type Bench, onCopies } from "./harness.ts";

let site: Bench;
onCopies(3, (copy) => {
  site = copy;
});

/** The releases that stay where a share is as large as half of all but the releases, and these. */
async function staying(...fit: readonly string[]): Promise<string[]> {
  const { places, builder } = site;
  // A cache above its own share goes first.
  rmSync(places.cache, { recursive: true, force: true });
  const others = (await measure(places.work)).bytes + 4096;
  const releaseBytes = Math.ceil((others + sizeOf(places, fit)) / 2);
  const settings = { ...builder.settings, limits: { ...builder.settings.limits, releaseBytes } };
  await makeRoom({ settings, places, git: gitOf(builder) });
  return releases(places);
}

test("all stay where they fit, then the oldest goes first, and the published one last", async () => {
  const [third, second, first] = releases(site.places) as [string, string, string];
  expect(await staying(third, second, first)).toEqual([third, second, first]);
  expect(await staying(third, second)).toEqual([third, second]);
  expect(await staying()).toEqual([third]);
});

test("the published one stays also where it is the oldest", async () => {
  const [third, , first] = releases(site.places) as [string, string, string];
  switchTo(site.places, first);
  expect(await staying(third, first)).toEqual([third, first]);
  expect(await staying()).toEqual([first]);
  expect(currentRelease(site.places)).toBe(first);
});
