/** The bounds of a site on the disk, and of git's memory: what a push can take, and what it could take without each. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { tooMany } from "../../../../service/builder/files.ts";
import { gitAfter, runWithout, type Without } from "../harness.ts";
import { says, siteFiles } from "../hugo-site.ts";
import { leaveManifests } from "../largest.ts";
import { onCopies, site } from "../scene.ts";

const MiB = 1 << 20;
onCopies(1, { limit: { memoryMiB: 256 } });

test("200 KiB of nested folders with 100 million paths are rejected; without that git runs out of its memory", async () => {
  site.repository.pushNested("static/logo.svg");
  site.deliver();
  // As the unit's LimitDATA=.
  const path = gitAfter("ulimit -d 262144", site);
  const { last } = await site.work({ ...site.builder, path });
  expect(last).toMatchObject({ result: "rejected", reason: expect.stringContaining(tooMany) });
  const admission: Without = ["run/run.ts", "if (commit !== null) await admit(context, commit);", ""];
  const open = await runWithout(site, [admission], { PATH: path });
  expect(open.last.result).toBe("failed");
  expect(open.last.reason).toMatch(/^git reached the builder's memory limit.*\(git: fatal: .*out of memory/);
  expect(site.page()).toContain(says(1));
});

test("five releases of many long paths keep no builder from starting in its memory, and did without a bound", async () => {
  site.deliver();
  // As pushes of one blob under many paths once left them.
  leaveManifests(site.places, 145_161, 460);
  const unbounded: Without[] = [
    ["release/releases.ts", "if (lstatSync(path).size > mostBytes) return;", ""],
    ["release/releases.ts", "known.set(path, rest);", "known.set(path, { ...rest, files });"],
  ];
  // With a heap as Node 18 has it in a builder's least 512 MiB.
  const without = (...parts: Without[]) => runWithout(site, parts, { NODE_OPTIONS: "--max-old-space-size=256" });
  await expect(without(...unbounded)).rejects.toThrow(/^the builder ended with null: .*heap out of memory/s);
  expect((await without()).last).toMatchObject({ result: "published", reason: "the first release" });
});

test("what earlier pushes left in the clone keeps no push from its page: the clone is made anew, once for each head", async () => {
  // Beside .git: the builder removes a clone that cannot be pruned within the limit, without a warning.
  const left = join(`${site.places.clone}.new`, "left");
  // Until the builder has seen it, and ends git.
  const busy = "[ $1 != rev-parse ] || sleep 0.5"; // longer than the builder waits before it looks at the disk
  const path = gitAfter(`${busy}\n[ "$1" != fetch ] || while [ -e ${left} ]; do sleep 0.1; done`, site);
  const limits = { ...site.builder.settings.limits, releaseBytes: 4 * MiB };
  const builder = { ...site.builder, path, settings: { ...site.builder.settings, limits } };
  const fill = () => {
    mkdirSync(dirname(left), { recursive: true });
    writeFileSync(left, Buffer.alloc(13 * MiB));
  };
  fill();
  site.push(siteFiles(2));
  const anew: Without = ["run/run.ts", "|| error instanceof TooMuch", ""];
  const open = await runWithout({ ...site, builder }, [anew], { PATH: path });
  expect(open.last.reason).toMatch(/^the site wrote more than it may: /);
  const warning = /^the clone is made anew, as earlier pushes may have filled it: the site wrote more than it may: /;
  const { last } = await site.work(builder);
  expect(last).toMatchObject({ result: "published", warnings: [expect.stringMatching(warning)] });
  fill();
  site.request("again");
  expect((await site.work(builder)).last).toMatchObject({ result: "rejected", warnings: [] });
});
