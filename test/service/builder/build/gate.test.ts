/** What a build must be, with each fault's text, to the page and to the byte. */
import { spawnSync } from "node:child_process";
import { linkSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { onDisk } from "../../../../service/builder/build/disk.ts";
import { gate } from "../../../../service/builder/build/gate.ts";
import { tooMany } from "../../../../service/builder/files.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import { onFolder, folder as out } from "../../own-folder.ts";
import { fill } from "../harness.ts";
import { pointer } from "../hugo-site.ts";

onFolder();
const write = (path: string, text = "<p>text</p>") => writeFileSync(join(out, path), text);

/** A file whose name is not UTF-8; and one whose name has these bytes. */
const writeNamed = (...bytes: number[]): void => {
  for (const end of [[0xff], bytes]) writeFileSync(Buffer.concat([Buffer.from(`${out}/x`), Buffer.from(end)]), "");
};

/** Why a build is rejected, or "". */
function fault(former: number | null = null, hint = "", releaseBytes = 5 << 20, content = 0): string {
  const settings = { folders: ["downloads"], limits: { releaseBytes, pagesPercent: 50 } } as unknown as BuilderSettings;
  try {
    gate(out, settings, former, content, hint, hint && "Hugo 9. ");
    return "";
  } catch (error) {
    expect(error).toMatchObject({ result: "rejected" });
    return (error as Error).message;
  }
}

test("half of the published pages, which end with .html or .htm, are enough, and a release may be as large as its limit", () => {
  const files = ["index.html", "a.htm", "B.HTML", "style.css", "c.html.bak"];
  for (const file of files) write(file);
  write("style.css", pointer.padEnd(151)); // too long for a pointer of Git LFS
  const bytes = files.length * onDisk(1);
  expect(fault(6, "", bytes)).toBe("");
  expect(fault(null, "", bytes, 6)).toBe("");
  expect(fault(7)).toMatch(/^only 3 pages were built and the published release has 7\. .*pagesPercent \(50\)\.$/);
  expect(fault(null, "", bytes, 7)).toBe(
    "only 3 pages were built and the content has 7 that are no drafts. Add the missing layouts; if these pages need " +
      "none, lower hooks[].site.limits.pagesPercent (50).",
  );
  expect(fault(null, "", bytes - 1)).toBe(
    "the site takes more than the 0.0 MiB on the disk that it may take. Raise hooks[].site.limits.releaseMiB.",
  );
});

test.each<[string, () => unknown, string | RegExp]>([
  ["a link", () => symlinkSync("/etc", join(out, "etc")), "Hugo wrote symbolic links, which may lead anywhere: etc."],
  ["more than fits into memory", () => fill(out, 2_300), `Hugo wrote ${tooMany}. Make the site smaller.`],
  ["a pipe", () => spawnSync("mkfifo", [join(out, "p")]), "Hugo wrote something that is no file: p. Remove it."],
  ["a name that is not UTF-8", () => writeNamed(0xff), /^Hugo wrote a name that is not UTF-8: .*x.*\. Rename it\.$/],
  ["two names that are one as text", () => writeNamed(0xef, 0xbf, 0xbd), /^Hugo wrote a name that is not UTF-8: .*x/],
  [
    "links to one file, which is large enough together",
    () => {
      writeFileSync(join(out, "a"), "");
      truncateSync(join(out, "a"), 3 << 20);
      linkSync(join(out, "a"), join(out, "b"));
    },
    /^the site takes more than the 5\.0 MiB on the disk/,
  ],
  ["a pointer of Git LFS", () => write("a.pdf", pointer), "these files are pointers of Git LFS: a.pdf. Name them in"],
  [
    "a file that nginx would not serve",
    () => {
      for (const path of ["downloads", "css/downloads"]) mkdirSync(join(out, path), { recursive: true });
      for (const path of ["css/downloads/a.css", "downloads/a.zip"]) write(path);
    },
    "nginx serves a folder of hooks[].site.folders in place of these files: downloads/a.zip. Rename",
  ],
])("a build with %s is rejected", (_, make, reason) => {
  write("index.html");
  make();
  expect(fault()).toMatch(reason);
});

test("a build without a home page, with an empty one or with too few pages has the hint behind its fault, and the version first", () => {
  const left = " These links were left out: layouts.";
  const both = () => [fault(3), fault(3, left)];
  const missing = "Hugo wrote no index.html. Add the layouts (a theme, a submodule) to the repository.";
  expect(both()).toEqual([missing, `Hugo 9. ${missing}${left}`]);
  write("index.html", "");
  const empty = "Hugo wrote an empty index.html. Correct layouts/index.html, which gives nothing.";
  expect(both()).toEqual([empty, `Hugo 9. ${empty}${left}`]);
  write("index.html");
  const [few, fewLeft] = both();
  expect([few?.slice(0, 26), fewLeft]).toEqual(["only 1 pages were built an", `Hugo 9. ${few}${left}`]);
});

const heads = ["   | EN | PT-BR  \n---+----+--------\n", "  │   ^^^ Sass\n\n   │ EN │ PT - BR \n───┼────┼─────────\n"];
test.each(heads)("each language has a home where the top has none: %j", (printed) => {
  const settings = { folders: [], limits: { releaseBytes: 5 << 20, pagesPercent: 0 } } as unknown as BuilderSettings;
  const found = () => gate(out, settings, null, 0, "", "", printed);
  for (const folder of ["en", "pt-br"]) mkdirSync(join(out, folder));
  write("en/index.html");
  expect(found).toThrow("Hugo wrote no index.html");
  write("pt-br/index.html");
  expect(found().files).toHaveLength(2);
});

test("an error of the disk is no fault of the build", () => {
  rmSync(out, { recursive: true });
  writeFileSync(out, "");
  expect(() => gate(out, { folders: [], limits: {} } as unknown as BuilderSettings, null, 0, "")).toThrow(/^ENOTDIR/);
});
