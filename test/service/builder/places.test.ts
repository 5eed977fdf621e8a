/** The folders and files of a site. Their names last: an upgraded builder and the host's layers find what is there. */
import { chmodSync, existsSync, statSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { makePlaces, type Places, placesOf, unholdHead } from "../../../service/builder/places.ts";
import { onPlaces } from "./harness.ts";

let places: Places;
onPlaces((own) => {
  places = own;
});

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

test("the names in a site's folder are those of every version", () => {
  const { release, manifest, ...names } = placesOf({
    ...{ site: "/s", spool: "/spool", requests: "/requests", rootRequests: "/root" },
  });
  expect(names).toEqual({
    spool: "/spool",
    requests: "/requests",
    rootRequests: "/root",
    site: "/s",
    current: "/s/current",
    releases: "/s/releases",
    status: "/s/status.json",
    work: "/s/work",
    taken: "/s/work/taken",
    parked: "/s/work/parked",
    clone: "/s/work/clone",
    out: "/s/work/out",
    cache: "/s/work/cache",
    stats: "/s/work/stats.json",
    manifests: "/s/work/manifests",
    held: "/s/work/held",
    paused: "/s/work/paused",
    reported: "/s/work/reported",
    checkedOut: "/s/work/checked-out",
  });
  expect([release("000002-abc"), manifest("000002-abc")]).toEqual([
    "/s/releases/000002-abc",
    "/s/work/manifests/000002-abc.json",
  ]);
});

test("the folder of the clone is closed to other accounts, and within it Hugo's account may write the cache", () => {
  expect([mode(places.work), mode(places.cache)]).toEqual(["700", "777"]);
  for (const path of [places.releases, places.manifests]) expect(existsSync(path)).toBe(true);
  chmodSync(places.cache, 0o755);
  makePlaces(places);
  expect(mode(places.cache)).toBe("777");
});

test("a head that is held no longer leaves no file, and none is needed", () => {
  unholdHead(places);
  writeFileSync(places.held, "a head\n");
  unholdHead(places);
  expect(existsSync(places.held)).toBe(false);
});
