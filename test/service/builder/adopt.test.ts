/** A folder that was served before: compared first, then the first release, and nothing of it lost unsaid. */
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { compare } from "../../../service/builder/adopt.ts";
import { type Manifest, readManifest } from "../../../service/builder/manifest.ts";
import { type Bench, bench, cannotBuild, closeGitHost } from "./harness.ts";
import { says } from "./hugo-site.ts";

let site: Bench;
beforeEach(async ({ skip }) => {
  skip(cannotBuild !== undefined, cannotBuild);
  site = await bench({ keep: ["uploads"] });
  const { webRoot } = site.builder.settings;
  mkdirSync(join(webRoot, "uploads"), { recursive: true });
  writeFileSync(join(webRoot, "index.html"), "as it was");
  writeFileSync(join(webRoot, "uploads/report.pdf"), "of its owner");
});
afterEach(() => site?.remove());
afterAll(closeGitHost);

test("what would be lost is named, and nothing is published or changed", async () => {
  const { webRoot } = site.builder.settings;
  writeFileSync(join(webRoot, "google123.html"), "proof");
  symlinkSync("index.html", join(webRoot, "home.html"));
  site.ask("adopt");
  const status = await site.work();
  expect(status.adoption).toEqual({
    release: status.releases[0]?.id,
    files: ["google123.html", "home.html"],
    more: 0,
  });
  expect(status).toMatchObject({ deployed: null, last: { result: "nothing", trigger: ["adopt"] } });
  expect(existsSync(site.places.current)).toBe(false);
  expect(readFileSync(join(webRoot, "index.html"), "utf8")).toBe("as it was");
});

test("many are counted", async () => {
  for (let i = 0; i < 130; i += 1) writeFileSync(join(site.builder.settings.webRoot, `old-${i}.html`), "");
  site.ask("adopt");
  const { adoption } = await site.work();
  expect(adoption?.files).toHaveLength(100);
  expect(adoption?.more).toBe(30);
});

test("a kept folder that is closed to the builder is not looked into; any other stops it, and is named", () => {
  const { settings } = site.builder;
  const nothingBuilt = { release: "000001-0123456789ab", files: new Map() } as unknown as Manifest;
  chmodSync(join(settings.webRoot, "uploads"), 0);
  try {
    expect(asNobody(() => compare(settings, nothingBuilt)).files).toEqual(["index.html"]);
    expect(() => asNobody(() => compare({ ...settings, keep: [] }, nothingBuilt))).toThrow(
      `${join(settings.webRoot, "uploads")} can't be read (EACCES)`,
    );
  } finally {
    chmodSync(join(settings.webRoot, "uploads"), 0o755);
  }
});

/** Root may read everything. */
function asNobody<T>(look: () => T): T {
  if (process.getuid?.() !== 0) return look();
  chmodSync(site.folder, 0o755);
  process.seteuid?.(65_534);
  try {
    return look();
  } finally {
    process.seteuid?.(0);
  }
}

test("what root made the first release is one, and the build comes next", async () => {
  const { webRoot } = site.builder.settings;
  site.ask("adopt");
  expect((await site.work()).adoption).toMatchObject({ files: [], more: 0 });
  // As root does it.
  cpSync(webRoot, site.places.release("000001-adopted"), { recursive: true });
  cpSync(join(webRoot, "uploads"), join(site.places.kept, "uploads"), { recursive: true });
  symlinkSync("releases/000001-adopted", site.places.current);
  rmSync(webRoot, { recursive: true });
  symlinkSync(site.places.current, webRoot);

  site.tick();
  const status = await site.work();
  expect(status.last).toMatchObject({ result: "published", reason: "000001-adopted was built by no commit" });
  expect(site.page()).toContain(says(1));
  expect(readFileSync(join(webRoot, "uploads/report.pdf"), "utf8")).toBe("of its owner");
  expect(readManifest(site.places, "000001-adopted")?.commit).toBeNull();

  // And there is a way back.
  site.rollback("000001-adopted");
  expect((await site.work()).last.result).toBe("rolled back");
  expect(site.page()).toBe("as it was");
});

test("a link is nothing to adopt, and a second ask does no harm", async () => {
  const { webRoot } = site.builder.settings;
  rmSync(webRoot, { recursive: true });
  symlinkSync(site.places.current, webRoot);
  site.ask("adopt");
  expect((await site.work()).last).toMatchObject({
    result: "nothing",
    reason: expect.stringContaining("no folder any more"),
  });
});
