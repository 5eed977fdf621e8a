/**
 * What starts a build: deliveries, requests of the writers' group, requests of root. Members of groups put anything into
 * their folders, and stop nothing.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Places } from "../../../../service/builder/places.ts";
import { releases } from "../../../../service/builder/release/releases.ts";
import { arrived, type Marker, named, pending, removeDone, take } from "../../../../service/builder/run/markers.ts";
import {
  type Bench,
  bundledBuilder,
  cannotMount,
  finish,
  mountTmpfs,
  onCopies,
  onPlaces,
  start,
  unmount,
} from "../harness.ts";

let places: Places;
onPlaces((made) => {
  places = made;
  for (const folder of [places.spool, places.requests, places.rootRequests]) mkdirSync(folder);
});
const put = (folder: string, name: string) => {
  writeFileSync(join(places.site, ".new"), "");
  renameSync(join(places.site, ".new"), join(folder, name));
};
const deliver = () => put(places.spool, "delivery-1.json");
const tick = () => put(places.rootRequests, "tick");

const kinds = () =>
  take(places)
    .markers.map(({ kind }) => kind)
    .sort();
const requests = () => places.requests;
const names = (folder: string) => readdirSync(folder).filter((name) => !name.startsWith("."));

describe("a request", () => {
  test("in root's folder is a tick, a schedule, a rollback or a build, by its name", () => {
    tick();
    put(places.rootRequests, "schedule");
    put(places.rootRequests, "rollback-000002-abc");
    writeFileSync(join(places.rootRequests, "please"), "");
    writeFileSync(join(places.rootRequests, "rollback-000002-abc\nof two lines"), "");
    expect(kinds()).toEqual(["request", "request", "rollback", "schedule", "tick"]);
  });

  test("in the members' folder is a build, whatever its name; with root's folder open to them it would be a rollback", () => {
    for (const name of ["hello", "tick", "schedule", "rollback-000002-abc"]) put(places.requests, name);
    expect(kinds()).toEqual(["request", "request", "request", "request"]);
    put(places.requests, "rollback-000002-abc");
    const open = { ...places, rootRequests: places.requests };
    expect(pending(open).map(({ kind }) => kind)).toContain("rollback");
  });

  test("of root come by their age, after the deliveries", () => {
    const root = (name: string, age: number) => {
      const path = join(places.rootRequests, name);
      writeFileSync(path, "");
      utimesSync(path, Date.now() / 1000 - age, Date.now() / 1000 - age);
    };
    root("a-new-one", 1);
    root("b-old-one", 100);
    root("c-middle", 50);
    root("an-old-rollback-000002-abc", 200);
    deliver();
    take(places);
    expect(pending(places).map(({ kind, name }) => [kind, /\((.*)\)$/.exec(name)?.[1] ?? name])).toEqual([
      ["delivery", "delivery delivery-1"],
      ["request", "an-old-rollback-000002-abc"],
      ["request", "b-old-one"],
      ["request", "c-middle"],
      ["request", "a-new-one"],
    ]);
  });

  test("of root stays until it is done, and one that replaces it meanwhile stays longer", () => {
    tick();
    const { markers, left } = take(places);
    expect(names(places.rootRequests)).toEqual(["tick"]);
    expect(arrived(places, left)).toBe(false);
    tick();
    expect(arrived(places, left)).toBe(true);
    removeDone(places, markers);
    expect(names(places.rootRequests)).toEqual(["tick"]);
    removeDone(places, take(places).markers);
    expect(names(places.rootRequests)).toEqual([]);
  });

  test("of root that root takes back during its build is done, too", () => {
    tick();
    const { markers } = take(places);
    rmSync(join(places.rootRequests, "tick"));
    removeDone(places, markers);
    expect(names(places.rootRequests)).toEqual([]);
  });

  test("has the account that made it in its name", ({ skip }) => {
    skip(process.getuid?.() !== 0, "only root can give a file to another account");
    put(places.requests, "content");
    chownSync(join(requests(), "content"), 12_345, 0);
    expect(take(places).markers.map(({ name }) => name)).toEqual(["request of uid 12345 (content)"]);
  });

  test("of a writer is noted, so that the next start finds it after a kill, until it is done", () => {
    deliver();
    const { markers, left } = take(places);
    expect(markers).toHaveLength(1);
    expect(arrived(places, left)).toBe(false);
    expect(pending(places)).toEqual(markers);
    removeDone(places, markers);
    expect(pending(places)).toEqual([]);
  });
});

describe("what a member puts into the folder of requests", () => {
  const at = (name: string) => join(requests(), name);
  const outside = () => join(places.site, "outside");
  const tricks: Record<string, () => unknown> = {
    "an empty folder": () => mkdirSync(at("x")),
    "a folder with files": () => mkdirSync(at("x/in/it"), { recursive: true }),
    "a pipe": () => execFileSync("mkfifo", [at("x")]),
    "a socket": () =>
      new Promise((resolve) =>
        createServer()
          .listen(at("x"), resolve as () => void)
          .unref(),
      ),
    "a link to a file outside": () => symlinkSync(outside(), at("x")),
    "a link to a folder outside": () => symlinkSync(places.releases, at("x")),
    "a hard link": () => linkSync(outside(), at("x")),
    "a file that no one may read": () => writeFileSync(at("x"), "", { mode: 0 }),
    "a name that is not UTF-8": () =>
      writeFileSync(Buffer.concat([Buffer.from(`${requests()}/`), Buffer.from([0xff, 0x0a, 0x1b])]), ""),
    "a long name": () => writeFileSync(at("x".repeat(255)), ""),
  };

  test.each(Object.entries(tricks))("%s requests one build, and is gone", async (_, make) => {
    writeFileSync(outside(), "of another program");
    await make();
    deliver();
    const { markers, faults } = take(places);
    expect([markers.map(({ kind }) => kind), faults]).toEqual([["delivery", "request"], []]);
    expect(names(requests())).toEqual([]);
    removeDone(places, markers);
    expect([take(places).markers, pending(places)]).toEqual([[], []]);
    expect(readFileSync(outside(), "utf8")).toBe("of another program");
  });

  test("the builder warns of at most five folders with files, and of no file that it removed", () => {
    for (let i = 0; i < 7; i++) {
      mkdirSync(at(`folder-${i}`));
      writeFileSync(at(`folder-${i}/in`), "");
    }
    expect(take(places).warnings).toHaveLength(5);
    put(places.requests, "please");
    expect(take(places).warnings).toEqual([]);
  });

  test("a delivery's name is the file's without its last ending", () => {
    writeFileSync(join(places.spool, "1.json.2.json"), "");
    expect(take(places).markers).toEqual([{ kind: "delivery", name: "delivery 1.json.2" }]);
  });

  test("each look closes the folders that it opens", () => {
    const open = () => readdirSync("/proc/self/fd").length;
    put(places.requests, "please");
    const before = open();
    for (let i = 0; i < 20; i++) arrived(places);
    take(places);
    expect(open()).toBe(before);
  });
});

describe("what the builder cannot remove", () => {
  const at = () => join(requests(), "mounted");

  test("requests one build, also where it stays; and one more once another has taken its place", ({ skip }) => {
    skip(!mountTmpfs(at()), cannotMount);
    try {
      const fault = `${at()} cannot be removed (EBUSY). Remove it.`;
      const first = take(places);
      expect(first).toMatchObject({ markers: [{ kind: "request" }], faults: [fault] });
      removeDone(places, first.markers);
      expect(take(places)).toMatchObject({ markers: [], faults: [fault] });
      expect(arrived(places)).toBe(false);
      expect(arrived(places, new Set())).toBe(true);
      put(places.requests, "another");
      expect(arrived(places)).toBe(true);
      const others = take(places);
      expect(others.markers.map(({ name }) => name)).toEqual([expect.stringContaining("(another)")]);
      expect(arrived(places, others.left)).toBe(false);
      removeDone(places, others.markers);
      // The folder below has another inode, and the root of a new tmpfs the same as the former one's.
      unmount(at());
      const after = take(places);
      expect(after.faults).toEqual([]);
      removeDone(places, after.markers);
      mountTmpfs(at());
      expect(take(places).markers).toHaveLength(1);
    } finally {
      unmount(at());
    }
  });

  test("counts again once it could be removed, also a new file with the same inode", ({ skip }) => {
    put(places.requests, "mounted");
    const other = join(places.site, "other-name");
    linkSync(at(), other);
    skip(spawnSync("mount", ["--bind", at(), at()]).status !== 0, cannotMount);
    try {
      const { markers } = take(places);
      expect(markers).toHaveLength(1);
      removeDone(places, markers);
    } finally {
      unmount(at());
    }
    expect(take(places)).toMatchObject({ markers: [], faults: [] });
    linkSync(other, at());
    expect(take(places).markers).toHaveLength(1);
  });

  test("a folder that is a file is one fault, and the markers of the others are taken", () => {
    rmSync(requests(), { recursive: true });
    writeFileSync(requests(), "");
    deliver();
    const { markers, faults } = take(places);
    expect(markers.map(({ kind }) => kind)).toEqual(["delivery"]);
    expect(faults).toEqual([expect.stringContaining("ENOTDIR")]);
  });

  test("nothing is removed before it is noted", () => {
    mkdirSync(join(places.taken, "in the way"), { recursive: true });
    deliver();
    const { markers, faults, left } = take(places);
    expect([markers, faults.length, left.size]).toEqual([[], 2, 1]);
    expect(names(places.spool)).toHaveLength(1);
  });
});

describe("a run", () => {
  let site: Bench;
  onCopies(2, (copy) => {
    site = copy;
    places = site.places;
  });

  test("is one of a request of root and a delivery beside it, and leaves neither", async () => {
    site.tick();
    site.deliver();
    await site.work();
    expect(site.journal.map(({ trigger }) => trigger)).toEqual([["tick", "delivery delivery-1"]]);
    expect([pending(places), names(places.rootRequests)]).toEqual([[], []]);
  });

  test("gives a folder with files a name that counts no more, which the status reports once", async () => {
    const folder = join(requests(), "x");
    mkdirSync(join(folder, "in/it"), { recursive: true });
    const { last } = await site.work();
    const aside = join(requests(), readdirSync(requests())[0]!);
    expect(last.result).toBe("published");
    expect(last.warnings).toEqual([`${folder} is a folder with files in it, and is ${aside} now. Remove it.`]);
    expect(existsSync(join(aside, "in/it"))).toBe(true);
    site.deliver();
    expect((await site.work()).last.warnings).toEqual([]);
  });

  test("would fail again and again without that name, and even so requests one build", async () => {
    const folder = join(requests(), "x");
    mkdirSync(join(folder, "in/it"), { recursive: true });
    const bundle = await bundledBuilder(site.folder, ["markers.ts", "moveAside(folder, from)", "rmdirSync(from)"]);
    site.deliver();
    const child = start(site, bundle);
    let said = "";
    child.stdout?.on("data", (part: Buffer) => {
      said += part;
    });
    const { last, failing } = await finish(site, child);
    expect(failing).toMatchObject({ attempts: 1 });
    expect(last.reason).toBe(`${folder} cannot be removed (ENOTEMPTY). Remove it.`);
    const results = said
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).result);
    expect(results).toEqual(["published", "failed"]);
  });

  test("reports a missing folder, and a rollback and deliveries go on", async () => {
    rmSync(requests(), { recursive: true });
    site.deliver();
    site.rollback(releases(places)[1]!);
    const { last, failing } = await site.work();
    expect(site.journal.map(({ result }) => result)).toEqual(["rolled back", "nothing", "failed"]);
    expect(last.reason).toBe(`${requests()} is missing. Run systemd-tmpfiles --create, which makes it.`);
    expect(failing).toMatchObject({ attempts: 1 });
  });
});

test("a list of markers begins with root's requests, which their commands look for in it", () => {
  const deliveries = Array.from({ length: 12 }, (_, i): Marker => ({ kind: "delivery", name: `delivery ${i}` }));
  tick();
  const [ofRoot] = take(places).markers;
  expect(named([...deliveries, ofRoot!]).slice(0, 2)).toEqual(["tick", "delivery 0"]);
});

test.each([
  [2, ["delivery 0", "delivery 1"]],
  [10, Array.from({ length: 10 }, (_, i) => `delivery ${i}`)],
  [13, [...Array.from({ length: 10 }, (_, i) => `delivery ${i}`), "3 more"]],
])("of %d markers status.json and the journal name ten at most", (count, names) => {
  const markers = Array.from({ length: count }, (_, i): Marker => ({ kind: "delivery", name: `delivery ${i}` }));
  expect(named(markers)).toEqual(names);
});
