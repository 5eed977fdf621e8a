/** A rollback publishes a kept release, and holds the head that it went back from until a new commit. */
import { chmodSync, mkdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { currentRelease, releases } from "../../../../service/builder/release/releases.ts";
import { pending } from "../../../../service/builder/run/markers.ts";
import { rollBack } from "../../../../service/builder/run/run.ts";
import { contextOf, runWithout } from "../harness.ts";
import { says, siteFiles, writePage } from "../hugo-site.ts";
import { onCopies, site } from "../scene.ts";

let first: string;
let second: string;
onCopies(2);
beforeEach(() => {
  [second, first] = releases(site.places) as [string, string];
});

/** As a person with the rights of root does. */
const deface = (release: string) => {
  const page = join(site.places.release(release), "index.html");
  chmodSync(page, 0o644);
  writeFileSync(page, "defaced");
};

test("a rollback holds against the timer and the same push, and ends with a new commit", async () => {
  const head = site.repository.head()!;
  site.rollback(first);
  const back = await site.work();
  const reason = `${first} is published; ${head.slice(0, 12)} is not published again until a newer commit arrives`;
  expect(back).toMatchObject({ deployed: { release: first }, held: head, last: { result: "rolled back", reason } });
  site.tick();
  site.deliver();
  const rolledBack = expect.stringContaining("rolled back");
  expect((await site.work()).last).toMatchObject({ result: "nothing", reason: rolledBack });
  expect(site.page()).toContain(says(1));

  const on = await site.pushed({ "static/x.txt": "" });
  expect(on.last.result).toBe("published");
  expect(on).not.toHaveProperty("held");
  expect(site.page()).toContain(says(2));
});

test("a writer's request builds the rollback's commit with the present content; without the hold the head is", async () => {
  await rollBack(contextOf(site), first);
  writePage(site.content, 0, "Written after.");
  site.request("content");
  const status = await site.work();
  expect(status).toMatchObject({ held: site.repository.head(), last: { result: "published", reason: "requested" } });
  expect(site.page()).toContain(says(1));
  expect(site.page("post/0/index.html")).toContain("Written after.");
  const hold = "const holding = held === head;";
  site.tick();
  await runWithout(site, [["source/decide.ts", hold, "const holding = false;"]]);
  expect(site.page()).toContain(says(2));
});

test("a rollback to the head ends the hold, a newer commit that fails does not, and one that builds nothing does", async () => {
  const head = site.repository.head()!;
  await rollBack(contextOf(site), first);
  expect(await rollBack(contextOf(site), second)).toMatchObject({ reason: `${second} is published` });
  expect(await site.delivered()).not.toHaveProperty("held");
  expect(site.page()).toContain(says(2));
  await rollBack(contextOf(site), first);
  const failing = await site.pushed({ "layouts/index.html": "{{ nothing }}" });
  expect(failing).toMatchObject({ held: head, last: { result: "failed" } });
  site.repository.point(head);
  expect(await site.work()).toMatchObject({ deployed: { release: first }, last: { result: "nothing" } });
  // The bad change is reverted: nothing differs from the published commit.
  const status = await site.pushed({ ...siteFiles(1), "static/app.2.css": null });
  expect(status).not.toHaveProperty("held");
  expect(status.last).toMatchObject({ result: "nothing" });
});

test("a rollback to the head's build with former settings holds until they are set again, or a request builds", async () => {
  const { generator, ...settings } = site.builder.settings;
  const now = { ...site.builder, settings: { ...settings, generator: { ...generator, digest: "of now" } } };
  const worked = (mark: (name: string) => void = site.tick, builder: typeof site.builder = now) => {
    mark("content");
    return site.work(builder);
  };
  for (const end of [() => worked(site.tick, site.builder), () => worked(site.request)]) {
    expect((await worked()).last.result).toBe("published");
    expect((await worked(() => site.rollback(second))).last.reason).toMatch("with the current settings");
    expect(await worked()).toMatchObject({ held: site.repository.head(), deployed: { release: second } });
    expect(await end()).not.toHaveProperty("held");
  }
});

test("a rollback publishes by a relative link without the git host, the link and the clone", async () => {
  rmSync(site.places.current);
  rmSync(site.places.clone, { recursive: true });
  site.rollback(second);
  const settings = { ...site.builder.settings, repository: "https://git.invalid/gone.git" };
  const back = await site.work({ ...site.builder, settings });
  expect(back).toMatchObject({ deployed: { release: second }, last: { result: "rolled back" } });
  expect(readlinkSync(site.places.current)).toBe(`releases/${second}`);
});

test("the builder rejects a rollback to a changed release once, and the site stays", async () => {
  deface(first);
  site.rollback(first);
  const { last, failing } = await site.work();
  const changed = expect.stringContaining(`${first} is not what was published: index.html differ`);
  expect([last, failing]).toEqual([expect.objectContaining({ result: "rejected", reason: changed }), undefined]);
  expect(currentRelease(site.places)).toBe(second);
  expect(pending(site.places)).toEqual([]);
});

test("a rollback to a name that is no release leads nowhere", async () => {
  for (const release of ["000099-abc", "../../../etc", "", "current", ".", "000002-x/../../work"])
    await expect(rollBack(contextOf(site), release), release).rejects.toThrow(
      `there is no release ${release}. Use one of ${second}, ${first}.`,
    );
  expect(currentRelease(site.places)).toBe(second);
});

test("the timer's tick notices a changed page and a missing link, and the site is built anew; a push does not", async () => {
  deface(second);
  expect((await site.delivered()).last.result).toBe("nothing");
  site.tick();
  const reason = `the release ${second} was changed on the disk: index.html`;
  expect((await site.work()).last).toMatchObject({ result: "published", reason });
  expect(site.page()).toContain(says(2));
  rmSync(site.places.current);
  site.tick();
  expect((await site.work()).last).toMatchObject({ result: "published", reason: "the first release" });
});

test("the reason reports a folder in place of the link current, and the markers stay", async () => {
  const before = releases(site.places);
  rmSync(site.places.current);
  mkdirSync(join(site.places.current, "other-folder"), { recursive: true });
  const reason = `${site.places.current} is a folder and should be a link. Move it away.`;
  expect((await site.delivered()).last).toMatchObject({ result: "failed", reason });
  expect(pending(site.places)).toHaveLength(1);
  // Each try builds: what none of them published would push the former releases out.
  expect(releases(site.places)).toEqual(before);
});
