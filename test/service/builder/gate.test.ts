/** The limits of a build, to the page and to the byte. hugo.test.ts has what each fault reports. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { onDisk } from "../../../service/builder/disk.ts";
import { gate, pagesOf } from "../../../service/builder/gate.ts";
import type { BuilderSettings } from "../../../service/builder/settings.ts";

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
  gate(out, { keep: [], limits: { releaseBytes, pagesPercent: 50 } } as unknown as BuilderSettings, former, []);

test("a page is a file that ends with .html or .htm, and is not kept", () => {
  expect(pagesOf([...files, "c.html.bak", "kept/d.html"], ["kept"])).toBe(3);
});

test("half of the published pages are enough, and one less is not", () => {
  expect(gated(6, bytes)).not.toThrow();
  expect(gated(7, bytes)).toThrow(/^only 3 pages were built and the published release has 7/);
});

test("a release may be as large as its limit, and not a byte larger", () => {
  expect(gated(null, bytes)).not.toThrow();
  expect(gated(null, bytes - 1)).toThrow(/^the site takes .* MiB on the disk/);
});
