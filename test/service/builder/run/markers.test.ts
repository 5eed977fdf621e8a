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
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { releases } from "../../../../service/builder/release/releases.ts";
import { arrived, type Marker, named, pending, removeDone, take } from "../../../../service/builder/run/markers.ts";
import {
  type Bench,
  bundledBuilder,
  cannotMount,
  finish,
  gitHost,
  mountTmpfs,
  onCopies,
  start,
  unmount,
} from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

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

describe("a request", () => {
  test("in root's folder is a tick, a schedule, a rollback or a build, by its name", () => {
    site.tick();
    site.scheduled();
    site.rollback("000002-abc");
    writeFileSync(join(site.places.rootRequests, "please"), "");
    writeFileSync(join(site.places.rootRequests, "rollback-000002-abc\nof two lines"), "");
    expect(kinds()).toEqual(["request", "request", "rollback", "schedule", "tick"]);
  });

  test("in the members' folder is a build, whatever its name; with root's folder open to them it would be a rollback", () => {
    for (const name of ["hello", "tick", "schedule", "rollback-000002-abc"]) site.request(name);
    expect(kinds()).toEqual(["request", "request", "request", "request"]);
    site.request("rollback-000002-abc");
    const open = { ...site.places, rootRequests: site.places.requests };
    expect(pending(open).map(({ kind }) => kind)).toContain("rollback");
  });

  test("of root come by their age, after the deliveries", () => {
    const root = (name: string, age: number) => {
      const path = join(site.places.rootRequests, name);
      writeFileSync(path, "");
      utimesSync(path, Date.now() / 1000 - age, Date.now() / 1000 - age);
    };
    root("a-new-one", 1);
    root("b-old-one", 100);
    root("c-middle", 50);
    root("an-old-rollback-000002-abc", 200);
    site.deliver();
    take(site.places);
    expect(pending(site.places).map(({ kind, name }) => [kind, /\((.*)\)$/.exec(name)?.[1] ?? name])).toEqual([
      ["delivery", "delivery delivery-1"],
      ["request", "an-old-rollback-000002-abc"],
      ["request", "b-old-one"],
      ["request", "c-middle"],
      ["request", "a-new-one"],
    ]);
  });

  test("of root stays until it is done, and one that replaces it meanwhile stays longer", () => {
    site.tick();
    const { markers, left } = take(site.places);
    expect(names(site.places.rootRequests)).toEqual(["tick"]);
    expect(arrived(site.places, left)).toBe(false);
    site.tick();
    expect(arrived(site.places, left)).toBe(true);
    removeDone(site.places, markers);
    expect(names(site.places.rootRequests)).toEqual(["tick"]);
    removeDone(site.places, take(site.places).markers);
    expect(names(site.places.rootRequests)).toEqual([]);
  });

  test("of root and a delivery beside it are one run", async () => {
    site.tick();
    site.deliver();
    await site.work();
    expect(site.journal.map(({ trigger }) => trigger)).toEqual([["tick", "delivery delivery-1"]]);
  });

  test("of root that root takes back during its build is done, too", () => {
    site.tick();
    const { markers } = take(site.places);
    rmSync(join(site.places.rootRequests, "tick"));
    removeDone(site.places, markers);
    expect(names(site.places.rootRequests)).toEqual([]);
  });

  test("has the account that made it in its name", ({ skip }) => {
    skip(process.getuid?.() !== 0, "only root can give a file to another account");
    site.request("content");
    chownSync(join(requests(), "content"), 12_345, 0);
    expect(take(site.places).markers.map(({ name }) => name)).toEqual(["request of uid 12345 (content)"]);
  });

  test("is removed after its build is published, and not before", async () => {
    site.deliver();
    const { markers, left } = take(site.places);
    expect(markers).toHaveLength(1);
    // After a kill here the next start finds it.
    expect(arrived(site.places, left)).toBe(false);
    expect(pending(site.places)).toEqual(markers);
    expect((await site.work()).last).toMatchObject({ result: "nothing", trigger: [markers[0]?.name] });
    expect(pending(site.places)).toEqual([]);
  });
});

describe("what a member puts into the folder of requests", () => {
  const at = (name: string) => join(requests(), name);
  const outside = () => join(site.folder, "outside");
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
    "a link to a folder outside": () => symlinkSync(site.places.releases, at("x")),
    "a hard link": () => linkSync(outside(), at("x")),
    "a file that no one may read": () => writeFileSync(at("x"), "", { mode: 0 }),
    "a name that is not UTF-8": () =>
      writeFileSync(Buffer.concat([Buffer.from(`${requests()}/`), Buffer.from([0xff, 0x0a, 0x1b])]), ""),
    "a long name": () => writeFileSync(at("x".repeat(255)), ""),
  };

  test.each(Object.entries(tricks))("%s requests one build, and is gone", async (_, make) => {
    writeFileSync(outside(), "of another program");
    const before = releases(site.places);
    await make();
    site.deliver();
    const { last, failing } = await site.work();
    expect(last).toMatchObject({ result: "published", reason: "requested" });
    expect(failing).toBeUndefined();
    expect(site.journal).toHaveLength(1);
    expect([names(requests()), pending(site.places)]).toEqual([[], []]);
    expect(readFileSync(outside(), "utf8")).toBe("of another program");
    expect(releases(site.places)).toEqual(expect.arrayContaining(before));
  });

  test("a folder with files gets a name that counts no more, which the status reports", async () => {
    tricks["a folder with files"]!();
    const { last } = await site.work();
    const [aside] = readdirSync(requests());
    expect(last.warnings).toEqual([`${at("x")} is a folder with files in it, and is ${at(aside!)} now. Remove it.`]);
    expect(existsSync(at(`${aside}/in/it`))).toBe(true);
    // The next run does not mention it.
    site.deliver();
    expect((await site.work()).last.warnings).toEqual([]);
  });

  test("the builder warns of at most five folders with files, and of no file that it removed", () => {
    for (let i = 0; i < 7; i++) {
      mkdirSync(at(`folder-${i}`));
      writeFileSync(at(`folder-${i}/in`), "");
    }
    expect(take(site.places).warnings).toHaveLength(5);
    site.request("please");
    expect(take(site.places).warnings).toEqual([]);
  });

  test("it would fail the builder again and again, without another name for it", async () => {
    tricks["a folder with files"]!();
    const bundle = await bundledBuilder(site.folder, ["markers.ts", "moveAside(folder, from)", "rmdirSync(from)"]);
    const { last, failing } = await finish(site, start(site, bundle));
    expect(failing).toMatchObject({ attempts: 1 });
    expect(last.reason).toBe(`${at("x")} cannot be removed (ENOTEMPTY). Remove it.`);
  });

  test("a folder that stays requests one build, not one after the other, and delays no delivery", async () => {
    tricks["a folder with files"]!();
    const bundle = await bundledBuilder(site.folder, ["markers.ts", "moveAside(folder, from)", "rmdirSync(from)"]);
    site.deliver();
    const child = start(site, bundle);
    let said = "";
    child.stdout?.on("data", (part: Buffer) => {
      said += part;
    });
    await finish(site, child);
    const results = said
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).result);
    expect(results).toEqual(["published", "failed"]);
  });

  test("a delivery's name is the file's without its last ending", () => {
    writeFileSync(join(site.places.spool, "1.json.2.json"), "");
    expect(take(site.places).markers).toEqual([{ kind: "delivery", name: "delivery 1.json.2" }]);
  });

  test("each look closes the folders that it opens", () => {
    const open = () => readdirSync("/proc/self/fd").length;
    site.request("please");
    const before = open();
    for (let i = 0; i < 20; i++) arrived(site.places);
    take(site.places);
    expect(open()).toBe(before);
  });
});

describe("what the builder cannot remove", () => {
  const at = () => join(requests(), "mounted");

  test("requests one build, also where it stays; and one more once another has taken its place", ({ skip }) => {
    skip(!mountTmpfs(at()), cannotMount);
    try {
      const fault = `${at()} cannot be removed (EBUSY). Remove it.`;
      const first = take(site.places);
      expect(first).toMatchObject({ markers: [{ kind: "request" }], faults: [fault] });
      removeDone(site.places, first.markers);
      expect(take(site.places)).toMatchObject({ markers: [], faults: [fault] });
      expect(arrived(site.places)).toBe(false);
      expect(arrived(site.places, new Set())).toBe(true);
      site.request("another");
      expect(arrived(site.places)).toBe(true);
      const others = take(site.places);
      expect(others.markers.map(({ name }) => name)).toEqual([expect.stringContaining("(another)")]);
      expect(arrived(site.places, others.left)).toBe(false);
      removeDone(site.places, others.markers);
      // The folder below has another inode, and the root of a new tmpfs the same as the former one's.
      unmount(at());
      const after = take(site.places);
      expect(after.faults).toEqual([]);
      removeDone(site.places, after.markers);
      mountTmpfs(at());
      expect(take(site.places).markers).toHaveLength(1);
    } finally {
      unmount(at());
    }
  });

  test("counts again once it could be removed, also a new file with the same inode", ({ skip }) => {
    site.request("mounted");
    const other = join(site.folder, "other-name");
    linkSync(at(), other);
    skip(spawnSync("mount", ["--bind", at(), at()]).status !== 0, cannotMount);
    try {
      const { markers } = take(site.places);
      expect(markers).toHaveLength(1);
      removeDone(site.places, markers);
    } finally {
      unmount(at());
    }
    expect(take(site.places)).toMatchObject({ markers: [], faults: [] });
    linkSync(other, at());
    expect(take(site.places).markers).toHaveLength(1);
  });

  test("a folder that is a file is one fault, and the markers of the others are taken", () => {
    rmSync(requests(), { recursive: true });
    writeFileSync(requests(), "");
    site.deliver();
    const { markers, faults } = take(site.places);
    expect(markers.map(({ kind }) => kind)).toEqual(["delivery"]);
    expect(faults).toEqual([expect.stringContaining("ENOTDIR")]);
  });

  test("nothing is removed before it is noted", () => {
    mkdirSync(join(site.places.taken, "in the way"), { recursive: true });
    site.deliver();
    const { markers, faults, left } = take(site.places);
    expect([markers, faults.length, left.size]).toEqual([[], 2, 1]);
    expect(names(site.places.spool)).toHaveLength(1);
  });
});

describe("a missing folder", () => {
  test("is reported, and a rollback and deliveries go on", async () => {
    rmSync(requests(), { recursive: true });
    site.deliver();
    site.rollback(releases(site.places)[1]!);
    const { last, failing } = await site.work();
    expect(site.journal.map(({ result }) => result)).toEqual(["rolled back", "nothing", "failed"]);
    expect(last.reason).toBe(`${requests()} is missing. Run systemd-tmpfiles --create, which makes it.`);
    expect(failing).toMatchObject({ attempts: 1 });
  });
});

describe("old releases", () => {
  /** Copies of the current release, as if the builder had been killed before it removed them. */
  const pileUp = () => {
    const [current] = releases(site.places);
    for (let i = 10; i < 20; i++) {
      const id = `0000${i}-abc`;
      execFileSync("cp", ["-a", site.places.release(current!), site.places.release(id)]);
      const manifest = readFileSync(site.places.manifest(current!), "utf8").replaceAll(current!, id);
      writeFileSync(site.places.manifest(id), manifest);
    }
    expect(releases(site.places)).toHaveLength(12);
    return current;
  };

  test("are removed although no run succeeds", async () => {
    const current = pileUp();
    const { faults } = await gitHost();
    faults.status = 500;
    site.repository.push(siteFiles(3));
    site.deliver();
    try {
      expect((await site.work()).last.result).toBe("failed");
    } finally {
      delete faults.status;
    }
    expect(readdirSync(site.places.releases)).toHaveLength(5);
    expect(releases(site.places)).toContain(current);
  });

  test("are removed at the start, without any marker", async () => {
    pileUp();
    await site.work();
    expect(readdirSync(site.places.releases)).toHaveLength(5);
  });
});

test("a list of markers begins with root's requests, which their commands look for in it", () => {
  const deliveries = Array.from({ length: 12 }, (_, i): Marker => ({ kind: "delivery", name: `delivery ${i}` }));
  site.tick();
  const [tick] = take(site.places).markers;
  expect(named([...deliveries, tick!]).slice(0, 2)).toEqual(["tick", "delivery 0"]);
});

test.each([
  [2, ["delivery 0", "delivery 1"]],
  [10, Array.from({ length: 10 }, (_, i) => `delivery ${i}`)],
  [13, [...Array.from({ length: 10 }, (_, i) => `delivery ${i}`), "3 more"]],
])("of %d markers status.json and the journal name ten at most", (count, names) => {
  const markers = Array.from({ length: count }, (_, i): Marker => ({ kind: "delivery", name: `delivery ${i}` }));
  expect(named(markers)).toEqual(names);
});
