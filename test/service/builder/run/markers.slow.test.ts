/** Many markers. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Places } from "../../../../service/builder/places.ts";
import { arrived, pending, take } from "../../../../service/builder/run/markers.ts";
import { onPlaces } from "../harness.ts";

let places: Places;
onPlaces((made) => {
  places = made;
});

test("25,000 requests of a member are three runs that take 10,000 each and name a thousand, and hide no delivery", () => {
  for (let i = 0; i < 25_000; i++) writeFileSync(join(places.requests, `${i}`), "");
  const began = performance.now();
  const { markers, left } = take(places);
  expect([markers.length, left.size, readdirSync(places.requests).length]).toEqual([1_000, 0, 15_000]);
  expect(arrived(places, left)).toBe(true);
  take(places);
  for (let i = 0; i < 1_002; i++) writeFileSync(join(places.spool, `${i}.json`), "");
  take(places);
  expect(readdirSync(places.requests)).toEqual([]);
  const noted = pending(places).map(({ kind }) => kind);
  for (const kind of ["delivery", "request"]) expect(noted.filter((each) => each === kind)).toHaveLength(1_000);
  expect(performance.now() - began).toBeLessThan(20_000);
});
