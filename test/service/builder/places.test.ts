/** The folders and files of a site. Their names last: an upgraded builder and the host's layers find what is there. */
import { chmodSync, existsSync, statSync } from "node:fs";
import { expect, test } from "vitest";
import { makePlaces, placesOf } from "../../../service/builder/places.ts";
import { onPlaces, places } from "./scene.ts";

onPlaces();

const mode = (path: string): string => (statSync(path).mode & 0o777).toString(8);

test("the names in a site's folder are those of every version", () => {
  const given = { site: "/s", spool: "/spool", requests: "/requests", rootRequests: "/root" };
  const { release, manifest, ...names } = placesOf(given);
  expect(Object.values(names).join(" ").replaceAll("/s/work/", "")).toBe(
    "/spool /requests /root /s /s/current /s/releases /s/status.json /s/work taken parked clone out cache cache/mounts cache/pages.csv " +
      "stats.json history wanted fetched dependencies lfs manifests held paused reported unbuilt.json purged runs room-for checked-out made-anew",
  );
  expect([release("2-a"), manifest("2-a")]).toEqual(["/s/releases/2-a", "/s/work/manifests/2-a.json"]);
});

test("the folder of the clone is closed to other accounts, and within it Hugo's account may write the cache", () => {
  expect([mode(places.work), mode(places.cache)]).toEqual(["700", "777"]);
  for (const path of [places.releases, places.manifests]) expect(existsSync(path)).toBe(true);
  chmodSync(places.cache, 0o755);
  makePlaces(places);
  expect(mode(places.cache)).toBe("777");
});
