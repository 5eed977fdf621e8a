/**
 * The order in which the builder brings its work to the disk: a name leads to what was synced before, and a promise is
 * removed after what it promised was synced. `soak -- --rebuild` cuts the power at each of these calls.
 */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { type Bench, bench, bundledBuilder, finish, start } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

let bundle: string;
onCopies(1);
beforeEach(async () => {
  bundle = await bundledBuilder(site.folder);
});

/** The calls of a run that make something last: no folders, no modes, no names that are removed before they are made. */
async function calls(site: Bench, ...args: readonly string[]): Promise<string[]> {
  const list = join(site.folder, "calls");
  const env = {
    CALLS: list,
    CALLS_BELOW: site.folder,
    NODE_OPTIONS: `--require ${new URL("calls.cjs", import.meta.url).pathname}`,
  };
  rmSync(list, { force: true });
  await finish(site, start(site, bundle, env, ...args));
  const text = readFileSync(list, "utf8")
    .trimEnd()
    .replaceAll(/\b\d{6}-[0-9a-f]{12}\b/g, "ID");
  const passing = /^(chmod|mkdir) |^unlink \S+\.new$| site\/work\/(out|former-\S+)(\/|$| )/;
  const lines = text.split("\n").filter((line) => !passing.test(line));
  const short = lines.map((line) =>
    line.replace(/^git (?:-c \S+ )?(?!init )(\S+) .*/, "git $1").replace(/ (site\/releases\/ID)\/.*/, " $1"),
  );
  // A release's files are one line.
  return short.filter(
    (line, i) => !(/^(write|link) site\/releases\/ID$/.test(line) && /releases\/ID$/.test(short[i - 1]!)),
  );
}

const whole = (path: string, folder: string): string[] => [
  `write ${path}.new`,
  `sync ${path}.new`,
  `rename ${path}.new ${path}`,
  `sync ${folder}`,
];
const taken = (name: string): string[] => [
  ...[...whole("site/work/taken", "site/work"), `unlink spool/${name}.json`],
  "unlink site/work/room-for",
];
const fetched = ["git fetch", "git ls-tree", "git merge-base", "git diff-tree", "git ls-tree"];
/** The file of a run, at the start of a build and at its end. */
const noted = (number: number): string[] => whole(`site/work/runs/00000000${number}.json`, "site/work/runs");
const begun = (number: number): string[] => ["git show", "git rev-list", ...noted(number)];
const noHistory = "unlink site/work/history";
const checkedOut = (...history: string[]) => [
  ...["unlink site/work/checked-out", "git read-tree", "git ls-files"],
  ...history,
  ...["unlink site/work/dependencies/modules", "rmdir site/work/clone/_vendor"],
  ...["unlink site/work/dependencies/packages", "rmdir site/work/clone/node_modules"],
];
const noMounts = "unlink site/work/cache/mounts";
const released = [
  "write site/releases/ID",
  "write site/work/manifests/ID.json.new",
  "sync -f site",
  "rename site/work/manifests/ID.json.new site/work/manifests/ID.json",
  "sync site/work/manifests",
  ...whole("site/work/checked-out", "site/work"),
];
const built = [...checkedOut("rmdir site/work/history/.git", "rmdir site/work/history"), noMounts, ...released];
const switched = ["symlink site/current.new releases/ID", "rename site/current.new site/current", "sync site"];
const status = whole("site/status.json", "site");
const rested = ["git gc", "write site/work/room-for"];
const done = (number: number): string[] => [
  ...[...status, ...noted(number)],
  ...["unlink site/work/taken", "unlink site/work/parked", ...rested],
];

test("the first run gives a clone its name when git has made it, and syncs all of it before it publishes", async () => {
  const first = await bench();
  onTestFinished(first.remove);
  first.deliver();
  expect(await calls(first)).toEqual([
    ...taken("delivery-1"),
    ...["unlink site/work/checked-out", "unlink site/work/clone", noHistory, "unlink site/work/lfs"],
    ...["git init --quiet site/work/clone.new", "rename site/work/clone.new site/work/clone"],
    // There is no release to compare the commit with.
    ...["git fetch", "git ls-tree", ...begun(1)],
    ...checkedOut(noHistory),
    "unlink site/work/cache/pages.csv",
    ...["unlink site/work/stats.json", "write site/work/stats.json", "write site/work/clone/hugo_stats.json"],
    ...[noMounts, ...released, ...switched, ...done(1)],
  ]);
});

test("the builder syncs each thing before it relies on it", async () => {
  site.push(siteFiles(2));
  expect(await calls(site), "a push").toEqual([
    ...[...taken("delivery-1"), ...fetched, ...begun(2)],
    ...[...built, ...switched, ...done(2)],
  ]);

  site.rollback(site.status().releases[1]!.id);
  expect(await calls(site), "a rollback").toEqual([
    "git rev-parse",
    ...whole("site/work/held", "site/work"),
    ...[...switched, ...status, ...begun(3)],
    ...["unlink root/rollback-ID", "sync root", ...rested],
  ]);

  site.push(siteFiles(3));
  expect(await calls(site), "a push that ends the rollback").toEqual([
    ...[...taken("delivery-2"), ...fetched, ...begun(4), ...built, ...switched],
    ...["unlink site/work/held", "sync site/work"],
    ...done(4),
  ]);

  site.deliver();
  expect(await calls(site, "ended"), "the report of a builder that was killed").toEqual([
    ...whole("site/work/paused", "site/work"),
    ...[...status, ...noted(5)],
  ]);
});
