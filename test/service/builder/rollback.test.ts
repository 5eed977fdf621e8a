/** Asks: a writer's builds, root's rolls back, and a rollback holds against everything but a new commit. */
import { chmodSync, existsSync, linkSync, mkdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { currentRelease } from "../../../service/builder/current.ts";
import { armoured } from "../../../service/builder/git.ts";
import { releases } from "../../../service/builder/manifest.ts";
import { release as letGo, newest, pending, take } from "../../../service/builder/markers.ts";
import { rollBack } from "../../../service/builder/rollback.ts";
import { type Bench, bundledBuilder, finish, onCopies, start } from "./harness.ts";
import { says, siteFiles, writePage } from "./hugo-site.ts";

let site: Bench;
onCopies(2, (copy) => {
  site = copy;
});

const twoPublished = () => {
  const [second, first] = releases(site.places);
  return { first: first!, second: second! };
};

describe("a rollback", () => {
  test("holds against the timer and the same push, and ends with a new commit", async () => {
    const { first } = twoPublished();
    const head = site.repository.head();
    site.rollback(first);
    const back = await site.work();
    expect(back).toMatchObject({ deployed: { release: first }, held: head, last: { result: "rolled back" } });
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

  test("and a writer's ask builds the commit it chose, with the content of today", async () => {
    const { first } = twoPublished();
    site.rollback(first);
    await site.work();
    writePage(site.content, 0, "Written after.");
    site.ask("content");
    const status = await site.work();
    expect(status.last).toMatchObject({ result: "published", reason: "asked for" });
    expect(status.held).toBe(site.repository.head());
    expect(site.page()).toContain(says(1));
    expect(site.page("post/0/index.html")).toContain("Written after.");
  });

  test("the hold taken away: the timer publishes again what was turned away from", async () => {
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

  test("and back again, and a commit that builds nothing, end it", async () => {
    const { first, second } = twoPublished();
    site.rollback(first);
    await site.work();
    site.rollback(second);
    expect(await site.work()).not.toHaveProperty("held");
    expect(site.page()).toContain(says(2));
    site.rollback(first);
    await site.work();
    // What was bad is taken back: nothing differs from what is published.
    site.repository.push({ ...siteFiles(1), "static/app.2.css": null });
    site.deliver();
    const status = await site.work();
    expect(status).not.toHaveProperty("held");
    expect(status.last).toMatchObject({ result: "nothing" });
  });

  test("works while the remote is gone and the clone lost", async () => {
    const { first } = twoPublished();
    const settings = { ...site.builder.settings, repository: "https://git.invalid/gone.git" };
    site.rollback(first);
    expect((await site.work({ ...site.builder, settings })).last.result).toBe("rolled back");
    expect(site.page()).toContain(says(1));
  });

  test("is refused to a release that is not there, or is not what it was; the site stays, and it is asked once", async () => {
    const { first, second } = twoPublished();
    site.rollback("000099-abc");
    expect((await site.work()).last).toMatchObject({
      result: "refused",
      reason: `there is no release 000099-abc: there are ${second}, ${first}`,
    });
    const page = join(site.places.release(first), "index.html");
    chmodSync(page, 0o644);
    writeFileSync(page, "evil");
    site.rollback(first);
    expect((await site.work()).last).toMatchObject({
      result: "refused",
      reason: expect.stringContaining(`${first} is not what was published: index.html differ`),
    });
    expect(currentRelease(site.places)).toBe(second);
    expect(pending(site.places)).toEqual([]);
    expect(site.status()).not.toHaveProperty("failing");
  });

  test.each(["../../../etc", "", "current", ".", "000002-x/../../work"])("to %j leads nowhere", async (release) => {
    const { builder, places } = site;
    const at = { settings: builder.settings, places, git: armoured(builder) };
    await expect(rollBack(at, release)).rejects.toThrow("there is no release");
    expect(site.page()).toContain(says(2));
  });
});

describe("a published release that was changed on the disk", () => {
  test("is seen by the timer's look, said, and built anew", async () => {
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

  test("and one whose link is gone is published anew", async () => {
    twoPublished();
    rmSync(site.places.current);
    site.tick();
    expect((await site.work()).last).toMatchObject({ result: "published", reason: "the first release" });
  });
});

describe("who asks", () => {
  const kinds = () => take(site.places).markers.map(({ kind }) => kind);

  test("a file of any name is an ask, and root's own are known by their owner", () => {
    site.ask("hello");
    site.ask("tick");
    site.ask("adopt");
    site.rollback("000002-abc");
    expect(kinds().sort()).toEqual(["adopt", "ask", "rollback", "tick"]);
    const notRoot = { ...site.places, root: site.places.root + 1 };
    expect(pending(notRoot).map(({ kind }) => kind)).toEqual(["ask", "ask", "ask", "ask"]);
  });

  test("what a member can make of a file of root's is no rollback", () => {
    // Renamed out of a home folder: its text is not its name.
    site.ask("rollback-000002-moved", "something else of root's");
    site.ask("rollback-000002-empty", "");
    // Linked there.
    const other = join(site.folder, "of-root");
    writeFileSync(other, "rollback-000002-linked\n");
    linkSync(other, join(site.builder.settings.asks, "rollback-000002-linked"));
    // Open to others, who then wrote its text.
    site.ask("rollback-000002-open", "rollback-000002-open\n");
    chmodSync(join(site.builder.settings.asks, "rollback-000002-open"), 0o666);
    expect(kinds()).toEqual(["ask", "ask", "ask", "ask"]);
  });

  test("a folder is taken when empty; one with something in it is told, and holds nothing up", async () => {
    const { asks } = site.builder.settings;
    mkdirSync(join(asks, "empty"));
    mkdirSync(join(asks, "full/folder"), { recursive: true });
    site.deliver();
    const { last } = await site.work();
    expect(site.journal.map(({ result }) => result)).toEqual(["nothing", "failed"]);
    expect(last.reason).toBe(
      `can't be taken: ${asks}/full: an ask is a file, and this is a folder with something in it; remove it`,
    );
    expect(existsSync(join(asks, "empty"))).toBe(false);
    expect(pending(site.places)).toEqual([]);
  });

  test("a marker is gone when what it asked for is published, not before", async () => {
    site.deliver();
    const { markers } = take(site.places);
    expect(markers).toHaveLength(1);
    // Killed here: the next start has it still.
    expect(newest(site.places)).toBe(0);
    expect(pending(site.places)).toEqual(markers);
    expect((await site.work()).last).toMatchObject({ result: "nothing", trigger: [markers[0]?.name] });
    expect(pending(site.places)).toEqual([]);
    letGo(markers);
  });

  test("where markers are taken to is the builder's own, or nothing is taken", () => {
    const { asks } = site.builder.settings;
    rmSync(join(asks, ".taken"), { recursive: true });
    symlinkSync(site.folder, join(asks, ".taken"));
    site.ask("content");
    expect(() => take(site.places)).toThrow(`${asks}/.taken is no folder of the builder's own: rm -rf it`);
  });

  test("a name of any bytes is taken", () => {
    writeFileSync(Buffer.concat([Buffer.from(`${site.builder.settings.asks}/`), Buffer.from([0xff, 0x0a, 0x1b])]), "");
    expect(take(site.places).markers).toHaveLength(1);
    expect(take(site.places).markers[0]?.name).toMatch(/^ask of uid \d+ \(\ufffd\?\?\)$/);
  });
});

test("a folder in the place of current is told, and the markers stay", async () => {
  rmSync(site.places.current);
  mkdirSync(join(site.places.current, "of-somebody"), { recursive: true });
  site.deliver();
  expect((await site.work()).last).toMatchObject({
    result: "failed",
    reason: `${site.places.current} is a folder, where a link should be: move it away`,
  });
  expect(pending(site.places)).toHaveLength(1);
});

test("current leads by a relative link, so that the site can be moved", () => {
  twoPublished();
  expect(readlinkSync(site.places.current)).toMatch(/^releases\/000003-/);
});
