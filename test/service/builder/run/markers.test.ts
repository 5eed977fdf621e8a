/**
 * What starts a build: deliveries, requests of the writers' group, requests of root. Members of groups put anything into
 * their folders, and stop nothing.
 */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { releases } from "../../../../service/builder/release/releases.ts";
import { arrived, type Marker, named, pending, removeDone, take } from "../../../../service/builder/run/markers.ts";
import { moduleWithout } from "../../module-without.ts";
import { cannotMount, mountTmpfs, unmount } from "../harness.ts";
import { onCopies, onPlaces, places, site } from "../scene.ts";

onPlaces();
const at = (name: string) => join(places.requests, name);
const put = (folder: string, name: string) => {
  writeFileSync(join(places.site, ".new"), "");
  renameSync(join(places.site, ".new"), join(folder, name));
};
const deliver = () => put(places.spool, "delivery-1.json");
const tick = () => put(places.rootRequests, "tick");
const kinds = (of = take(places).markers) => of.map(({ kind }) => kind).sort();
const names = (folder: string) => readdirSync(folder).filter((name) => !name.startsWith("."));

test("a request in root's folder is a tick, a schedule, a rollback or a build, by its name; in the members' it is a build, named so", () => {
  const given = ["tick", "schedule", "rollback-000002-abc", "please", "rollback-000002-abc\nof two lines"];
  for (const name of given) put(places.rootRequests, name);
  expect(kinds()).toEqual(["request", "request", "rollback", "schedule", "tick"]);
  for (const name of given) put(places.requests, name);
  const open = { ...places, rootRequests: places.requests };
  expect(kinds(pending(open))).toContain("rollback");
  expect(named(pending(places), 10)).toContain("request of root (please)");
  for (const name of given) rmSync(join(places.rootRequests, name));
  const { markers } = take(places);
  expect(new Set(kinds(markers))).toEqual(new Set(["request"]));
  expect(named(markers)).toContain("request of a writer (please)");
});

test("a request of root comes by its age, after the deliveries", () => {
  const ages = { "a-new-one": 1, "b-old-one": 100, "c-middle": 50, "an-old-rollback-000002-abc": 200 };
  for (const [name, age] of Object.entries(ages)) {
    put(places.rootRequests, name);
    utimesSync(join(places.rootRequests, name), Date.now() / 1000 - age, Date.now() / 1000 - age);
  }
  deliver();
  const names = ["an-old-rollback-000002-abc", "b-old-one", "c-middle", "a-new-one"];
  expect(take(places).markers.map(({ kind, name }) => `${kind}: ${name}`)).toEqual([
    ...["delivery: delivery delivery-1", ...names.map((name) => `request: request of root (${name})`)],
  ]);
});

test("a request of root stays until it is done, and one that replaces it meanwhile stays longer", () => {
  tick();
  const { markers, left } = take(places);
  expect([names(places.rootRequests), arrived(places, left)]).toEqual([["tick"], false]);
  tick();
  expect(arrived(places, left)).toBe(true);
  removeDone(places, markers);
  expect(names(places.rootRequests)).toEqual(["tick"]);
  const again = take(places).markers;
  removeDone(places, again);
  expect(names(places.rootRequests)).toEqual([]);
  // Root has taken it back.
  removeDone(places, again);
});

test("a request of a member is noted, so that the next start finds it after a kill, until it is done", () => {
  put(places.spool, "1.json.2.json");
  const { markers, left } = take(places);
  expect(markers).toEqual([{ kind: "delivery", name: "delivery 1.json.2" }]);
  expect(arrived(places, left)).toBe(false);
  expect(pending(places)).toEqual(markers);
  removeDone(places, markers);
  expect(pending(places)).toEqual([]);
});

const outside = () => join(places.site, "outside");
test.each<[string, () => unknown]>([
  ["an empty folder", () => mkdirSync(at("x"))],
  ["a folder with files", () => mkdirSync(at("x/in/it"), { recursive: true })],
  ["a pipe", () => execFileSync("mkfifo", [at("x")])],
  ["a link to a file outside", () => symlinkSync(outside(), at("x"))],
  ["a link to a folder outside", () => symlinkSync(places.releases, at("x"))],
  ["a name that is not UTF-8", () => writeFileSync(Buffer.from(`${places.requests}/\xff\n\x1b`, "latin1"), "")],
])("what a member puts into the folder of requests requests one build, and is gone: %s", (_, make) => {
  writeFileSync(outside(), "of another program");
  make();
  deliver();
  const { markers, faults } = take(places);
  expect([kinds(markers), faults]).toEqual([["delivery", "request"], []]);
  expect(names(places.requests)).toEqual([]);
  removeDone(places, markers);
  expect([take(places).markers, pending(places)]).toEqual([[], []]);
  expect(readFileSync(outside(), "utf8")).toBe("of another program");
});

test("what a member puts into the folder of requests is a warning for at most five folders with files, which stay under other names; without these each is a fault again and again", async () => {
  for (let i = 0; i < 7; i++) mkdirSync(at(`folder-${i}/in`), { recursive: true });
  const reason = / is a folder with files in it, which root removes\. Make a file in its place\.$/;
  expect(take(places).warnings).toEqual(Array(5).fill(expect.stringMatching(reason)));
  for (const name of readdirSync(places.requests)) expect(existsSync(at(`${name}/in`))).toBe(true);
  put(places.requests, "please");
  expect(take(places).warnings).toEqual([]);

  mkdirSync(at("x/in"), { recursive: true });
  const words = ["moveAside(folder, from)", "(0, import_node_fs.rmdirSync)(from)"] as const;
  const less = await moduleWithout<{ take: typeof take }>("builder/run/markers.ts", places.site, [words]);
  for (const _ of [1, 2])
    expect(less.take(places).faults).toEqual([`${at("x")} cannot be removed (ENOTEMPTY). Remove it.`]);
});

test("what the builder cannot remove requests one build, also where it stays; and one more once another has taken its place", ({
  skip,
}) => {
  const mounted = at("mounted");
  skip(!mountTmpfs(mounted), cannotMount);
  try {
    const fault = `${mounted} cannot be removed (EBUSY). Remove it.`;
    const first = take(places);
    expect(first).toMatchObject({ markers: [{ kind: "request" }], faults: [fault] });
    removeDone(places, first.markers);
    expect(take(places)).toMatchObject({ markers: [], faults: [fault] });
    expect([arrived(places), arrived(places, new Set())]).toEqual([false, true]);
    put(places.requests, "another");
    expect(arrived(places)).toBe(true);
    const others = take(places);
    expect(others.markers.map(({ name }) => name)).toEqual([expect.stringContaining("(another)")]);
    expect(arrived(places, others.left)).toBe(false);
    removeDone(places, others.markers);
    // The folder below has another inode, and the root of a new tmpfs the same as the former one's.
    unmount(mounted);
    const after = take(places);
    expect(after.faults).toEqual([]);
    removeDone(places, after.markers);
    mountTmpfs(mounted);
    expect(take(places).markers).toHaveLength(1);
  } finally {
    unmount(mounted);
  }
});

test("what the builder cannot remove is one fault where a file is in the folder's place, and the markers of the other folders are taken", () => {
  rmSync(places.requests, { recursive: true });
  writeFileSync(places.requests, "");
  deliver();
  const { markers, faults } = take(places);
  expect([kinds(markers), faults]).toEqual([["delivery"], [expect.stringContaining("ENOTDIR")]]);
});

test("what the builder cannot remove stays where it cannot be noted", () => {
  mkdirSync(join(places.taken, "in the way"), { recursive: true });
  deliver();
  const { markers, faults, left } = take(places);
  expect([markers, faults.length, left.size, names(places.spool).length]).toEqual([[], 2, 1, 1]);
});

describe("a run", () => {
  onCopies(1);

  test("reports the first of two missing folders, and a rollback, which runs alone, and a tick goes on", async () => {
    for (const folder of [places.spool, places.requests]) rmSync(folder, { recursive: true });
    site.tick();
    site.rollback(releases(places)[0]!);
    const { last, failing } = await site.work();
    const runs = site.journal.map(({ result, trigger }) => `${result}: ${trigger.length}`);
    expect(runs).toEqual(["rolled back: 1", "nothing: 1", "failed: 0"]);
    expect(last.reason).toBe(`${places.spool} is missing. Run systemd-tmpfiles --create, which makes it. And 1 more.`);
    expect(failing).toMatchObject({ attempts: 1 });
  });
});

test("of all markers status.json and the journal name ten at most, first root's, which their commands look for", () => {
  const deliveries = Array.from({ length: 13 }, (_, i): Marker => ({ kind: "delivery", name: `delivery ${i}` }));
  const all = deliveries.map(({ name }) => name);
  expect(named(deliveries.slice(0, 10))).toEqual(all.slice(0, 10));
  expect(named(deliveries)).toEqual([...all.slice(0, 10), "3 more"]);
  tick();
  expect(named([...deliveries, ...take(places).markers])).toEqual(["tick", ...all.slice(0, 9), "4 more"]);
});
