/** The lists of `npm run mutate` name lines and files that exist. */
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { areaOf, areas, notMutated } from "./areas.ts";
import { byHand } from "./by-hand.ts";

const text = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");

test("what each mutant by hand replaces is in its file once, and its test exists", () => {
  for (const [file, from, to, by] of byHand) {
    expect(text(file).split(from).length - 1, `${file}: ${from}`).toBe(1);
    expect(to).not.toBe(from);
    expect(existsSync(new URL(`../../${by}`, import.meta.url)), by).toBe(true);
  }
});

test("each area has its sources and tests, and a file belongs to the area of its nearest folder", () => {
  for (const path of [...areas.flatMap(({ sources, tests }) => [...sources, ...tests]), ...notMutated])
    expect(existsSync(new URL(`../../${path}`, import.meta.url)), path).toBe(true);
  const found = ["service/git-hosts/api/gitlab.ts", "service/pause.ts"].map((file) => areaOf(file)?.name);
  expect(found).toEqual(["git-hosts", "git-hosts"]);
});
