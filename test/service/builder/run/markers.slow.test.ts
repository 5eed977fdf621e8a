/** Many markers. */
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { arrived, pending, take } from "../../../../service/builder/run/markers.ts";
import { type Bench, onCopies } from "../harness.ts";

let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});

const kinds = () =>
  take(site.places)
    .markers.map(({ kind }) => kind)
    .sort();
const requests = () => site.builder.settings.requests;
const names = (folder: string) => readdirSync(folder).filter((name) => !name.startsWith("."));

describe("what a member puts into the folder of requests", () => {
  const at = (name: string) => join(requests(), name);

  test("25,000 files are three runs, of which each takes 10,000", () => {
    for (let i = 0; i < 25_000; i++) writeFileSync(at(`${i}`), "");
    const began = performance.now();
    const { markers, left } = take(site.places);
    expect(markers.length).toBe(1_000);
    expect(left.size).toBe(0);
    expect(names(requests())).toHaveLength(15_000);
    expect(arrived(site.places, left)).toBe(true);
    take(site.places);
    take(site.places);
    expect(names(requests())).toEqual([]);
    expect(pending(site.places)).toHaveLength(1_000);
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  test("the builder notes a thousand deliveries and a thousand requests", () => {
    for (let i = 0; i < 1_002; i++) {
      site.deliver();
      site.request(`${i}`);
    }
    const noted = kinds();
    for (const kind of ["delivery", "request"]) expect(noted.filter((each) => each === kind)).toHaveLength(1_000);
  });

  test("a thousand requests hide no delivery", () => {
    for (let i = 0; i < 1_001; i++) site.request(`${i}`);
    take(site.places);
    site.deliver();
    expect(new Set(kinds())).toEqual(new Set(["delivery", "request"]));
  });
});
