/** What a build must be, with each fault's text, to the page and to the byte. hugo.test.ts has builds that are not. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { onDisk } from "../../../../service/builder/build/disk.ts";
import { gate, pagesOf } from "../../../../service/builder/build/gate.ts";
import { setbackOf } from "../../../../service/builder/run/setback.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";

const text = "<p>text</p>";
const files = ["index.html", "a.htm", "B.HTML", "style.css"];
const bytes = files.length * onDisk(text.length);
let out: string;
beforeAll(() => {
  out = mkdtempSync(join(tmpdir(), "pushgate-gate-"));
  for (const file of files) writeFileSync(join(out, file), text);
});
afterAll(() => rmSync(out, { recursive: true }));

const gated = (former: number | null, releaseBytes: number) => () =>
  gate(out, { folders: [], limits: { releaseBytes, pagesPercent: 50 } } as unknown as BuilderSettings, former, []);

test("a page is a file that ends with .html or .htm", () => {
  expect(pagesOf([...files, "c.html.bak"])).toBe(3);
});

test("half of the published pages are enough, and one less is not", () => {
  expect(gated(6, bytes)).not.toThrow();
  expect(gated(7, bytes)).toThrow(/^only 3 pages were built and the published release has 7/);
});

test("a release may be as large as its limit, and not a byte larger", () => {
  expect(gated(null, bytes)).not.toThrow();
  expect(gated(null, bytes - 1)).toThrow(/^the site takes .* MiB on the disk/);
});

describe("a build is rejected", () => {
  let built: string;
  beforeEach(() => {
    built = mkdtempSync(join(tmpdir(), "pushgate-gate-"));
  });
  afterEach(() => rmSync(built, { recursive: true }));
  const home = (words = text) => writeFileSync(join(built, "index.html"), words);
  const reason = (former: number | null = null, leftOut: readonly string[] = []): string => {
    const limits = { releaseBytes: 5 << 20, pagesPercent: 50 };
    try {
      gate(built, { folders: ["downloads"], limits } as unknown as BuilderSettings, former, leftOut);
      return "";
    } catch (error) {
      const { result, message } = setbackOf(error);
      return `${result}: ${message}`;
    }
  };

  test("not where it has a home page", () => {
    home();
    expect(reason()).toBe("");
  });

  test("with a link", () => {
    home();
    symlinkSync("/etc", join(built, "etc"));
    expect(reason()).toBe("rejected: Hugo wrote symbolic links, which may lead anywhere: etc. Remove them.");
  });

  test("with a file that nginx would not serve", () => {
    home();
    for (const path of ["downloads", "css/downloads"]) mkdirSync(join(built, path), { recursive: true });
    writeFileSync(join(built, "css/downloads/a.css"), "");
    expect(reason()).toBe("");
    writeFileSync(join(built, "downloads/a.zip"), "");
    expect(reason()).toBe(
      "rejected: nginx serves a folder of hooks[].site.folders in place of these files: downloads/a.zip. Rename the " +
        "folder there, or the files.",
    );
  });

  test("with a pipe", () => {
    home();
    spawnSync("mkfifo", [join(built, "p")]);
    expect(reason()).toBe("rejected: Hugo wrote something that is no file: p. Remove it.");
  });

  test("with a name that is not UTF-8", () => {
    home();
    writeFileSync(Buffer.concat([Buffer.from(`${built}/x`), Buffer.from([0xff])]), "");
    expect(reason()).toMatch(/^rejected: Hugo wrote a name that is not UTF-8: .*x.*\. Rename it\.$/);
  });

  test("without a home page, with an empty one, or with too few pages; each names the links that were left out", () => {
    const left = " These links were left out: layouts.";
    const missing = "rejected: Hugo wrote no index.html. Add the layouts (a theme, a submodule) to the repository.";
    expect([reason(), reason(null, ["layouts"])]).toEqual([missing, missing + left]);
    home("");
    const empty = "rejected: Hugo wrote an empty index.html. Correct layouts/index.html, which gives nothing.";
    expect([reason(), reason(null, ["layouts"])]).toEqual([empty, empty + left]);
    home();
    const few =
      "rejected: only 1 pages were built and the published release has 3. Check the content; if the pages were removed " +
      "on purpose, lower hooks[].site.limits.pagesPercent (50).";
    expect([reason(3), reason(3, ["layouts"])]).toEqual([few, few + left]);
  });

  test("above its size", () => {
    home("x".repeat(6 << 20));
    expect(reason()).toBe(
      "rejected: the site takes 6.0 MiB on the disk, and may take 5.0. Raise hooks[].site.limits.releaseMiB.",
    );
  });

  test("not by an error of the disk, which is no fault of the build", () => {
    rmSync(built, { recursive: true });
    writeFileSync(built, "");
    expect(() => gate(built, { folders: [] } as unknown as BuilderSettings, null, [])).toThrow(/^ENOTDIR/);
  });
});
