/** Requests: a writer's builds, root's rolls back, and a rollback holds until a new commit. */
import { once } from "node:events";
import { chmodSync, mkdirSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { heldHead, type Places } from "../../../../service/builder/places.ts";
import { currentRelease, releases } from "../../../../service/builder/release/releases.ts";
import { pending } from "../../../../service/builder/run/markers.ts";
import { rollBack } from "../../../../service/builder/run/run.ts";
import {
  type Bench,
  bundledBuilder,
  contextOf,
  copyOf,
  finish,
  onCopies,
  onPlaces,
  start,
  type Without,
} from "../harness.ts";
import { says, siteFiles, writePage } from "../hugo-site.ts";

describe("the held head", () => {
  let places: Places;
  onPlaces((made) => {
    places = made;
  });
  test.each([
    ["a commit", `${"a".repeat(40)}\n`, "a".repeat(40)],
    ["a commit of SHA-256", "b".repeat(64), "b".repeat(64)],
    ["half a commit", "abc\n", null],
    ["a text that ends in a commit", `ref: ${"a".repeat(40)}\n`, null],
    ["a text that begins with one", `${"a".repeat(64)}0\n`, null],
    ["another text", "refs/heads/main\n", null],
    ["nothing", "", null],
  ])("a file of the held head with %s", (_, text, head) => {
    writeFileSync(places.held, text);
    expect(heldHead(places)).toBe(head);
  });
});

describe("a site of two releases", () => {
  let site: Bench;
  onCopies(2, (copy) => {
    site = copy;
  });

  const twoPublished = () => {
    const [second, first] = releases(site.places);
    return { first: first!, second: second! };
  };

  describe("a rollback", () => {
    test("a rollback holds against the timer and the same push, and ends with a new commit", async () => {
      const { first } = twoPublished();
      const head = site.repository.head();
      site.rollback(first);
      const back = await site.work();
      const reason = `${first} is published; ${head!.slice(0, 12)} is not published again, a newer commit is`;
      expect(back).toMatchObject({ deployed: { release: first }, held: head, last: { result: "rolled back", reason } });
      expect(site.page()).toContain(says(1));

      site.tick();
      site.deliver();
      expect((await site.work()).last).toMatchObject({
        result: "nothing",
        reason: expect.stringContaining("rolled back"),
      });
      expect(site.page()).toContain(says(1));

      site.repository.push({ "static/x.txt": "" });
      site.deliver();
      const on = await site.work();
      expect(on.last.result).toBe("published");
      expect(on).not.toHaveProperty("held");
      expect(site.page()).toContain(says(2));
    });

    test("a writer's request builds the rollback's commit with the present content", async () => {
      const { first } = twoPublished();
      site.rollback(first);
      await site.work();
      writePage(site.content, 0, "Written after.");
      site.request("content");
      const status = await site.work();
      expect(status.last).toMatchObject({ result: "published", reason: "requested" });
      expect(status.held).toBe(site.repository.head());
      expect(site.page()).toContain(says(1));
      expect(site.page("post/0/index.html")).toContain("Written after.");
    });

    test("without the hold the timer publishes the rolled-back head again", async () => {
      const { first } = twoPublished();
      const bundle = await bundledBuilder(site.folder, [
        "decide.ts",
        "const holding = held === head;",
        "const holding = false;",
      ]);
      site.rollback(first);
      await site.work();
      site.tick();
      await finish(site, start(site, bundle));
      expect(site.page()).toContain(says(2));
    });

    test("a rollback that ends in a power cut after its switch holds; a hold written after the switch would be lost", async () => {
      const { first } = twoPublished();
      const publish = "\n  switchTo(places, release);";
      const cut: Without = ["run.ts", publish, `${publish}\n  process.kill(process.pid, "SIGKILL");`];
      const late: Without = ["run.ts", "else if (head !== null) holdHead(places, head);", ""];
      for (const [without, revision] of [
        [[cut], 1],
        [[cut, late], 2],
      ] as const) {
        const one = await copyOf(site);
        one.rollback(first);
        await once(start(one, await bundledBuilder(one.folder, ...without)), "close");
        expect(one.page()).toContain(says(1));
        // Root does not sync its request, so that a power cut may take it.
        rmSync(join(one.places.rootRequests, `rollback-${first}`));
        one.tick();
        await one.work();
        expect(one.page()).toContain(says(revision));
        one.remove();
      }
    });

    test("a rollback to the head ends the hold, and so does a commit that builds nothing", async () => {
      const { first, second } = twoPublished();
      site.rollback(first);
      await site.work();
      site.rollback(second);
      const back = await site.work();
      expect(back).not.toHaveProperty("held");
      expect(back.last).toMatchObject({ result: "rolled back", reason: `${second} is published` });
      expect(site.page()).toContain(says(2));
      site.rollback(first);
      await site.work();
      // The bad change is reverted: nothing differs from the published commit.
      site.repository.push({ ...siteFiles(1), "static/app.2.css": null });
      site.deliver();
      const status = await site.work();
      expect(status).not.toHaveProperty("held");
      expect(status.last).toMatchObject({ result: "nothing" });
    });

    test("a rollback holds where a newer commit fails and the branch is set back", async () => {
      const { first } = twoPublished();
      const head = site.repository.head()!;
      site.rollback(first);
      await site.work();
      site.repository.push({ "layouts/index.html": "{{ nothing }}" });
      site.deliver();
      expect(await site.work()).toMatchObject({ held: head, last: { result: "failed" } });
      site.repository.point(head);
      expect(await site.work()).toMatchObject({ deployed: { release: first }, last: { result: "nothing" } });
    });

    test.each([
      ["the link to the published release is gone", []],
      ["the link and the clone are gone", ["clone"]],
    ] as const)("a rollback publishes by a relative link without the git host, also where %s", async (_, gone) => {
      const { second } = twoPublished();
      rmSync(site.places.current);
      for (const place of gone) rmSync(site.places[place], { recursive: true });
      site.rollback(second);
      const settings = { ...site.builder.settings, repository: "https://git.invalid/gone.git" };
      const back = await site.work({ ...site.builder, settings });
      expect(back).toMatchObject({ deployed: { release: second }, last: { result: "rolled back" } });
      expect(readlinkSync(site.places.current)).toBe(`releases/${second}`);
      expect(site.page()).toContain(says(2));
    });

    test("the builder rejects a rollback to a missing or changed release once, and the site stays", async () => {
      const { first, second } = twoPublished();
      site.rollback("000099-abc");
      expect((await site.work()).last).toMatchObject({
        result: "rejected",
        reason: `there is no release 000099-abc. Use one of ${second}, ${first}.`,
      });
      const page = join(site.places.release(first), "index.html");
      chmodSync(page, 0o644);
      writeFileSync(page, "evil");
      site.rollback(first);
      expect((await site.work()).last).toMatchObject({
        result: "rejected",
        reason: expect.stringContaining(`${first} is not what was published: index.html differ`),
      });
      expect(currentRelease(site.places)).toBe(second);
      expect(pending(site.places)).toEqual([]);
      expect(site.status()).not.toHaveProperty("failing");
    });

    test("to a name that is no release leads nowhere", async () => {
      for (const release of ["../../../etc", "", "current", ".", "000002-x/../../work"])
        await expect(rollBack(contextOf(site), release), release).rejects.toThrow("there is no release");
      expect(site.page()).toContain(says(2));
    });
  });

  describe("a published release changed on the disk", () => {
    test("the timer's tick notices a changed page, and it is built anew", async () => {
      const { second } = twoPublished();
      const page = join(site.places.release(second), "index.html");
      chmodSync(page, 0o644);
      writeFileSync(page, "defaced");
      site.deliver();
      expect((await site.work()).last.result).toBe("nothing");
      site.tick();
      expect((await site.work()).last).toMatchObject({
        result: "published",
        reason: `the release ${second} was changed on the disk: index.html`,
      });
      expect(site.page()).toContain(says(2));
    });

    test("the builder publishes anew when the link current is missing", async () => {
      twoPublished();
      rmSync(site.places.current);
      site.tick();
      expect((await site.work()).last).toMatchObject({ result: "published", reason: "the first release" });
    });
  });

  test("the reason reports a folder in place of the link current, and the markers stay", async () => {
    const before = releases(site.places);
    rmSync(site.places.current);
    mkdirSync(join(site.places.current, "other-folder"), { recursive: true });
    site.deliver();
    expect((await site.work()).last).toMatchObject({
      result: "failed",
      reason: `${site.places.current} is a folder and should be a link. Move it away.`,
    });
    expect(pending(site.places)).toHaveLength(1);
    // Each try builds: what none of them published would push the former releases out.
    expect(releases(site.places)).toEqual(before);
  });
});
