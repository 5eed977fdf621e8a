/** The bounds of a site on the disk, and of git's memory: what a push can take, and what it could take without each. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { tooMany } from "../../../../service/builder/files.ts";
import { folder as extra, onFolder } from "../../own-folder.ts";
import {
  type Bench,
  cannotBuild,
  closeGitHost,
  gitAfter,
  gitHost,
  published,
  runWithout,
  type Without,
} from "../harness.ts";
import { attributes, says, siteFiles } from "../hugo-site.ts";
import { leaveManifests } from "../largest.ts";

const MiB = 1 << 20;
let site: Bench;
onFolder();
beforeEach(({ skip }) => skip(cannotBuild !== undefined, cannotBuild));
afterEach(() => site?.remove());
afterAll(closeGitHost);

const limit = { releaseBytes: 4 * MiB, memoryMiB: 256 };
const used = (folder: string) => Number(spawnSync("du", ["-sk", folder]).stdout.toString().split("\t")[0]) << 10;
/** Runs the bundle without a part, until its first result, with a heap as Node 18 has it in a builder's least 512 MiB. */
const without = (...parts: Without[]) => runWithout(site, parts, { NODE_OPTIONS: "--max-old-space-size=256" });
const admission: Without = ["run.ts", "if (commit !== null) await admit(context, commit);", ""];

test("200 KiB of nested folders with 100 million paths are rejected; without that git runs out of its memory", async () => {
  site = await published(1, { limit });
  site.repository.pushNested("static/logo.svg");
  site.deliver();
  // As the unit's LimitDATA=.
  const path = gitAfter("ulimit -d 262144", join(extra, "bin"), site.builder.path);
  const { last } = await site.work({ ...site.builder, path });
  expect(last).toMatchObject({ result: "rejected", reason: expect.stringContaining(tooMany) });
  const open = await runWithout(site, [admission], { PATH: path });
  expect(open.last.result).toBe("failed");
  expect(open.last.reason).toMatch(/^git reached the builder's memory limit.*\(git: fatal: .*out of memory/);
  expect(site.page()).toContain(says(1));
});

test("a build that writes more than its site may take is killed with all that it started, and leaves nothing", async () => {
  // The real Hugo; while there is a file `hostile`, a program that ignores SIGTERM and writes 60 MB.
  const [path, hostile] = [join(extra, "hugo"), join(extra, "hostile")];
  const program = `#!/bin/sh
[ -e ${hostile} ] || exec hugo "$@"
[ "$1" = --minify ] || exit
trap '' TERM
out=$HUGO_PUBLISHDIR; echo home >"$out/index.html"
( for i in $(seq 60); do head -c 1000000 /dev/zero >"$out/$i.bin"; sleep 0.1; done; touch ${extra}/done ) & wait
`;
  writeFileSync(path, program, { mode: 0o755 });
  site = await published(1, { limit: { ...limit, pagesPercent: 0 }, hugo: path });
  writeFileSync(hostile, "");
  const { last } = await site.pushed(siteFiles(2));
  expect(last.result).toBe("rejected");
  expect(last.reason).toMatch(/^the site wrote more than it may: .* more than 12\.0 MiB on the disk, 3 times/);
  expect(existsSync(join(extra, "done"))).toBe(false);
  expect(used(site.places.site)).toBeLessThan(2 * MiB);
  expect(site.page()).toContain(says(1));
  const open = await without(["disk-watch.ts", "if (found.bytes > most)", "if (found.bytes < 0)"]);
  expect(open.last.reason).toMatch(/^the site takes 57\.\d MiB on the disk/);
  rmSync(hostile);
  expect((await site.work()).last.result).toBe("published");
});

test("a file of Git LFS that is larger than the site's share is left, and keeps no push from its page", async () => {
  site = await published(1, { limit });
  const pointer = (await gitHost()).lfs.pointerTo(Buffer.alloc(200 * MiB));
  const large = await site.pushed({ ...attributes, "static/a.png": pointer });
  expect(large.last.reason).toMatch(/^the site wrote more than it may: /);
  for (const revision of [2, 3])
    expect(await site.pushed({ ...siteFiles(revision), "static/a.png": null })).toMatchObject({
      last: { result: "published" },
    });
  expect(used(site.places.site)).toBeLessThan(2 * MiB);
});

test("five releases of many long paths keep no builder from starting in its memory, and did without a bound", async () => {
  site = await published(1, { limit: { releaseBytes: 1 << 30 } });
  site.deliver();
  // As pushes of one blob under many paths once left them.
  leaveManifests(site.places, 145_161, 460);
  const unbounded: Without[] = [
    ["releases.ts", "if (lstatSync(path).size > mostBytes) return;", ""],
    ["releases.ts", "known.set(path, rest);", "known.set(path, { ...rest, files });"],
  ];
  await expect(without(...unbounded)).rejects.toThrow(/^the builder ended with null: .*heap out of memory/s);
  expect((await without()).last).toMatchObject({ result: "published", reason: "the first release" });
});

test("what earlier pushes left in the clone keeps no push from its page: the clone is made anew, once for each head", async () => {
  const slow = join(extra, "hugo");
  const waits = (first: string) => writeFileSync(slow, `#!/bin/sh\n${first}\nexec hugo "$@"\n`, { mode: 0o755 });
  waits("");
  site = await published(1, { limit, hugo: slow });
  // Beside .git: the builder removes a clone that cannot be pruned within the limit, without a warning.
  const left = join(`${site.places.clone}.new`, "left");
  // Until the builder has seen it, and ends the build.
  waits(`[ "$1" != --minify ] || while [ -e ${left} ]; do sleep 0.1; done`);
  const fill = () => {
    mkdirSync(dirname(left), { recursive: true });
    writeFileSync(left, Buffer.alloc(13 * MiB));
  };
  fill();
  site.push(siteFiles(2));
  const open = await without(["run.ts", "|| error instanceof TooMuch", ""]);
  expect(open.last.reason).toMatch(/^the site wrote more than it may: /);
  const warning = /^the clone is made anew, as earlier pushes may have filled it: the site wrote more than it may: /;
  expect((await site.work()).last).toMatchObject({ result: "published", warnings: [expect.stringMatching(warning)] });
  fill();
  site.request("again");
  expect((await site.work()).last).toMatchObject({ result: "rejected", warnings: [] });
});
