/** A spool file is whole or absent, on the disk before the answer, and readable for the builder. */
import { execFileSync } from "node:child_process";
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openSpool, type Spooled, SpoolFault } from "../../../service/receiver/spool.ts";
import { folder } from "./harness.ts";

/** The calls that change the disk, in order. */
const calls: string[] = vi.hoisted(() => []);

vi.mock("node:fs/promises", async (importOriginal) => {
  const real = await importOriginal<typeof import("node:fs/promises")>();
  const name = (path: unknown) => (String(path).endsWith(".tmp") ? "temporary" : String(path).split("/").at(-1));
  return {
    ...real,
    open: async (...args: Parameters<typeof real.open>) => {
      const file = await real.open(...args);
      for (const method of ["chmod", "writeFile", "sync", "close"] as const) {
        const original = file[method].bind(file) as (...args: unknown[]) => Promise<void>;
        Object.assign(file, {
          [method]: (...rest: unknown[]) => {
            calls.push(`${method} ${name(args[0])}`);
            return original(...rest);
          },
        });
      }
      return file;
    },
    rename: (from: string, to: string) => {
      calls.push(`rename ${name(from)} ${name(to)}`);
      return real.rename(from, to);
    },
  };
});

let place: string;
beforeEach(() => {
  place = folder();
  calls.length = 0;
});
afterEach(() => rmSync(place, { recursive: true, force: true }));

const entry = (delivery: string): Spooled => ({
  delivery,
  hook: "site",
  event: "push",
  ref: "refs/heads/main",
  before: null,
  after: null,
  received: "2026-11-21T08:00:00.000Z",
});

test("the spool syncs the file before it renames it, and the folder before it returns", async () => {
  await openSpool(place, ["site"])(entry("a"));
  expect(calls).toEqual([
    "chmod temporary",
    "writeFile temporary",
    "sync temporary",
    "close temporary",
    "rename temporary a.json",
    "sync site",
    "close site",
  ]);
});

test("the builder's group can read a spool file also where the unit sets UMask=0077", async () => {
  const before = process.umask(0o077);
  try {
    await openSpool(place, ["site"])(entry("a"));
  } finally {
    process.umask(before);
  }
  expect(statSync(join(place, "site/a.json")).mode & 0o777).toBe(0o640);
});

test("a second delivery with the same id replaces the first", async () => {
  const spool = openSpool(place, ["site"]);
  await spool(entry("a"));
  await spool({ ...entry("a"), after: "b".repeat(40) });
  expect(readdirSync(join(place, "site"))).toEqual(["a.json"]);
  expect(JSON.parse(readFileSync(join(place, "site/a.json"), "utf8"))).toMatchObject({ after: "b".repeat(40) });
});

test("100 deliveries at once with the same id leave one whole file", async () => {
  const spool = openSpool(place, ["site"]);
  await Promise.all(Array.from({ length: 100 }, () => spool(entry("a"))));
  expect(readdirSync(join(place, "site"))).toEqual(["a.json"]);
  expect(JSON.parse(readFileSync(join(place, "site/a.json"), "utf8"))).toEqual(entry("a"));
});

test("openSpool removes temporary files of a power cut and no other file", () => {
  mkdirSync(join(place, "site"));
  for (const name of [".a.tmp", "b.json", "note.tmp", ".keep"]) writeFileSync(join(place, "site", name), "{");
  openSpool(place, ["site"]);
  expect(readdirSync(join(place, "site")).sort()).toEqual([".keep", "b.json", "note.tmp"]);
});

describe("what another member of the spool's group puts into a folder", () => {
  const plant = (name: string) => join(place, "site", name);
  const kinds: Record<string, () => void> = {
    "a folder with the name of a temporary file": () => mkdirSync(plant(".x.tmp")),
    "a folder with files": () => mkdirSync(plant(".x.tmp/in/it"), { recursive: true }),
    "a link out of the spool": () => symlinkSync(join(place, "outside"), plant(".x.tmp")),
    "a pipe": () => execFileSync("mkfifo", [plant(".x.tmp")]),
    "a name that is not UTF-8": () => writeFileSync(Buffer.concat([Buffer.from(plant(".")), Buffer.from([0xff])]), ""),
  };

  test.each(Object.entries(kinds))("%s stops no delivery and is not followed", async (_, make) => {
    mkdirSync(join(place, "site"));
    writeFileSync(join(place, "outside"), "of another program");
    make();
    await openSpool(place, ["site"])(entry("a"));
    expect(readFileSync(join(place, "site/a.json"), "utf8")).toContain('"delivery":"a"');
    expect(readFileSync(join(place, "outside"), "utf8")).toBe("of another program");
  });

  test("a link at a delivery's name is replaced, and its target is not written", async () => {
    const spool = openSpool(place, ["site"]);
    writeFileSync(join(place, "outside"), "of another program");
    symlinkSync(join(place, "outside"), plant("a.json"));
    await spool(entry("a"));
    expect(readFileSync(join(place, "outside"), "utf8")).toBe("of another program");
    expect(lstatSync(plant("a.json")).isFile()).toBe(true);
  });
});

describe("a folder that cannot be used", () => {
  const broken: Record<string, [make: () => void, heal: () => void, code: string]> = {
    "is missing": [
      () => rmSync(join(place, "site"), { recursive: true }),
      () => mkdirSync(join(place, "site")),
      "ENOENT",
    ],
    "is a file": [
      () => {
        rmSync(join(place, "site"), { recursive: true });
        writeFileSync(join(place, "site"), "");
      },
      () => {
        rmSync(join(place, "site"));
        mkdirSync(join(place, "site"));
      },
      "ENOTDIR",
    ],
  };

  test.each(Object.entries(broken))(
    "%s: deliveries of its hook fail with the reason, those of others do not, and it heals without a restart",
    async (_, [make, heal, code]) => {
      const spool = openSpool(place, ["site", "docs"]);
      make();
      for (let i = 0; i < 3; i++) await expect(spool(entry("a"))).rejects.toThrow(`site cannot be used (${code}). Run`);
      await spool({ ...entry("a"), hook: "docs" });
      heal();
      await spool(entry("b"));
      expect(readdirSync(join(place, "site"))).toEqual(["b.json"]);
    },
  );

  test("at the start, too", async () => {
    writeFileSync(join(place, "site"), "");
    const spool = openSpool(place, ["site", "docs"]);
    for (let i = 0; i < 3; i++) await expect(spool(entry("a"))).rejects.toThrow("site cannot be used (ENOTDIR). Run");
    await spool({ ...entry("a"), hook: "docs" });
    rmSync(join(place, "site"));
    mkdirSync(join(place, "site"));
    await spool(entry("a"));
  });
});

describe("where the disk fails, the spool", () => {
  test("throws and leaves no temporary file", async () => {
    const spool = openSpool(place, ["site"]);
    mkdirSync(join(place, "site/a.json"));
    await expect(spool(entry("a"))).rejects.toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
    expect(readdirSync(join(place, "site"))).toEqual(["a.json"]);
  });

  test("throws and does not create the folder again", async () => {
    const spool = openSpool(place, ["site"]);
    rmSync(join(place, "site"), { recursive: true });
    await expect(spool(entry("a"))).rejects.toThrow(/ENOENT/);
    expect(() => statSync(join(place, "site"))).toThrow();
  });
});

describe("a full spool", () => {
  test("fails with that reason, and accepts a delivery after the builder removed one", async () => {
    const spool = openSpool(place, ["site"], 3, 0);
    for (const id of ["a", "b", "c"]) await spool(entry(id));
    await expect(spool(entry("d"))).rejects.toThrow(new SpoolFault("the spool is full"));
    await expect(spool(entry("e"))).rejects.toThrow(SpoolFault);
    expect(readdirSync(join(place, "site"))).toHaveLength(3);
    rmSync(join(place, "site/a.json"));
    await spool(entry("d"));
    await expect(spool(entry("e"))).rejects.toThrow(SpoolFault);
  });

  test("counts its files at most once per interval", async ({ onTestFinished }) => {
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    const spool = openSpool(place, ["site"], 1, 200);
    await spool(entry("a"));
    await expect(spool(entry("b"))).rejects.toThrow(SpoolFault);
    rmSync(join(place, "site/a.json"));
    await expect(spool(entry("b"))).rejects.toThrow(SpoolFault);
    vi.advanceTimersByTime(199);
    await expect(spool(entry("b"))).rejects.toThrow(SpoolFault);
    vi.advanceTimersByTime(1);
    await spool(entry("b"));
  });

  test("counts the files from before a restart", async () => {
    for (const id of ["a", "b"]) await openSpool(place, ["site"], 9)(entry(id));
    const spool = openSpool(place, ["site"], 2);
    await expect(spool(entry("c"))).rejects.toThrow(SpoolFault);
  });

  test("accepts any number of deliveries while the builder removes them", async () => {
    const spool = openSpool(place, ["site"], 3, 0);
    for (let i = 0; i < 20; i++) {
      await spool(entry(`d${i}`));
      rmSync(join(place, `site/d${i}.json`));
    }
  });
});
