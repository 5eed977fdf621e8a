/** How the builder learns of a build's end over the generator's socket, and what the real Hugo may do behind it. */
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { build, removeAsRoot } from "../../../../service/builder/build/build.ts";
import type { Run } from "../../../../service/builder/run/status.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import type { Files } from "../../../fakes/git-repository.ts";
import { runWithout } from "../harness.ts";
import { pixel, pointer, says, writePage } from "../hugo-site.ts";
import { onCopies, onPlaces, places, site } from "../scene.ts";

describe("the real Hugo", () => {
  onCopies(1);
  beforeEach(() => {
    for (const index of [3, 4]) writePage(site.content, index);
  });
  const pushed = async (files: Files) => (await site.pushed(files)).last;

  test("the gate rejects a build without layouts, and would publish an empty site without it", async () => {
    // For these Hugo exits 0 and writes nothing.
    const layouts = ["index", "_default/single", "_default/list"].map((name) => [`layouts/${name}.html`, null]);
    const reason = expect.stringMatching(/^Hugo wrote no index\.html\. .* to the repository\.$/);
    expect(await pushed(Object.fromEntries(layouts))).toMatchObject({ result: "rejected", reason });
    expect(site.page()).toContain(says(1));
    site.deliver();
    const pages = "const pages = pagesOf(found.files);";
    const { last } = await runWithout(site, [["build/gate.ts", pages, `${pages}\n  if (pages >= 0) return found;`]]);
    expect(last.result).toBe("published");
    expect(site.published()).not.toContain("index.html");
  });

  test("a first release is compared with the content", async () => {
    rmSync(site.places.current);
    // Of Hugo 0.146 and later.
    const layouts = { "layouts/_default/single.html": null, "layouts/page.html": "x" };
    expect(await pushed(layouts)).toMatchObject({
      reason: expect.stringMatching(
        /^layouts\/page\.html is a layout for Hugo 0\.146 or later, and this is Hugo 0\.[\d.]+\. Run npx pushgate tools .* up\. only 2 pages were built and the content has 5 that are no drafts\. /,
      ),
      warnings: [expect.stringMatching(/^Hugo: found no layout file for "HTML" for kind "page": /)],
    });
  });

  test("the builder rejects content outside in whose place languages have folders, and they may have homes of their own", async () => {
    const of = (lang: string, more: string) => `[languages.${lang}]\nbaseURL = "https://${lang}.example/"\n${more}`;
    const toml = (more: string) => ({ "hugo.toml": `${of("en", more)}${of("de", more)}` });
    const reason = expect.stringMatching(/^hooks\[\]\.site\.content is not read: contentDir of languages/);
    expect(await pushed(toml('contentDir = "texts"\n'))).toMatchObject({ result: "rejected", reason });
    expect(await pushed(toml(""))).toMatchObject({ result: "published" });
  });

  test("the cache begins with the repository's resources/_gen, and the newest file of both counts", async () => {
    const assets = { "assets/a.png": pixel };
    const layout = (text: string) => ({
      "layouts/index.html": `${text} {{ with resources.Get "a.png" }}{{ (.Resize "2x2").RelPermalink }}{{ end }}`,
    });
    await pushed({ ...assets, ...layout("1") });
    const path = site.page().split(" /")[1]!.trim();
    // Hugo reads whether it is a PNG, and no further.
    const other = (text: string) => Buffer.concat([assets["assets/a.png"], Buffer.from(text)]);
    const committed = { [`resources/_gen/images/${path}`]: other("committed") };
    expect((await pushed({ ...committed, ...layout("2") })).result).toBe("published");
    expect(site.page(path)).toMatch(/committed$/);
    writeFileSync(join(site.places.cache, "resources/_gen/images", path), other("made later"));
    await pushed(layout("3"));
    expect(site.page(path)).toMatch(/made later$/);
  });

  test("the builder publishes no site without pages when the content was removed", async () => {
    rmSync(join(site.content, "post"), { recursive: true });
    site.request("content");
    const reason = expect.stringMatching(/^only 1 pages were built and the published release has 5\. /);
    expect((await site.work()).last).toMatchObject({ result: "rejected", reason });
    expect(site.page("post/2/index.html")).toContain("Text of page 2.");
  });
});

describe("the generator's socket", () => {
  let generator: BuilderSettings["generator"];
  let connections: number;
  onPlaces();
  beforeEach(() => {
    generator = { socket: join(places.work, "socket"), result: join(places.work, "result") };
    mkdirSync(places.clone);
    // Of a build that was killed.
    mkdirSync(join(places.out, "former"), { recursive: true });
    connections = 0;
  });

  async function listen(path: string, use: Parameters<typeof createServer>[1] & {}): Promise<Server> {
    const server = createServer(use);
    onTestFinished(() => void server.close());
    await once(server.listen(path), "listening");
    return server;
  }

  const id = "0123456789abcdef".repeat(2);
  const first = `pushgate-generator build=${id}\n`;
  const good = `${id} success exited 0\n`;
  const failure = `${id} exit-code exited 1\n`;

  /** A unit that writes a site, sends this and closes the connection; root writes `end`, or writes it after a while. */
  const unit = (end: string, say: (connection: number) => string = () => first, later = 0) =>
    listen(generator.socket, (connection) => {
      connections += 1;
      const write = () => writeFileSync(generator.result, end);
      if (later === 0) write();
      else setTimeout(write, later);
      writeFileSync(join(places.out, "index.html"), "by the unit");
      connection.end(say(connections));
    });

  const limits = { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 30, memoryMiB: 1024 };
  const shown: string[] = [];
  const built = (limit: Partial<typeof limits> = {}, files: string[] = [], warnings: string[] = []) =>
    build({ generator, limits: { ...limits, ...limit } } as BuilderSettings, places, files, {
      last: { warnings } as Run["last"],
      output: "",
      shows: (output) => shown.push(output),
    });
  /** Seconds of a build with which the builder waits for one second: the unit has 60 s more to start and to end. */
  const seconds = -59;

  test("a connection starts a build into an empty folder, which the generator's account may write", async () => {
    writeFileSync(places.mounts, "of the last build");
    let former: string[] | undefined;
    await unit(good, () => {
      former = readdirSync(places.cache);
      writeFileSync(places.mounts, "of this build");
      return first;
    });
    const warnings: string[] = [];
    // As long as .gitattributes does not name Git LFS, its pointer is a text.
    writeFileSync(join(places.clone, "a.md"), pointer);
    expect((await built({}, ["docs/hugo.toml", "a.md"], warnings)).mounts).toBe("of this build");
    expect(former).toEqual([]);
    expect(warnings).toEqual([expect.stringMatching(/^Hugo's configuration is in docs, not in the top folder\. /)]);
    expect([connections, readdirSync(places.out)]).toEqual([1, ["index.html"]]);
    const modes = [places.out, places.stats].map((path) => statSync(path).mode & 0o777);
    expect(modes).toEqual([0o777, 0o666]);
  });

  test.each([
    ["an error", "Error: it went wrong\n", "Hugo failed: it went wrong"],
    ["much, with control codes", `${"noise\n".repeat(200_000)}\nE\u001b[2J\u202error\n`, /noise \| E\?\[2J\?rror$/],
    [
      "a result and another build, as repository code may",
      `pushgate-generator result=success\n${good}pushgate-generator build=${"f".repeat(32)}\nError: forged\n`,
      "Hugo failed: forged",
    ],
    ["no first line", "Welcome!\n", /^Hugo's unit ended by no first line\. .* Its output: Welcome!$/, ""],
  ])("root's file reports the end of a build that prints %s", async (_, output, reason, begin = first) => {
    await unit(failure, () => begin + output);
    const message = expect.stringMatching(/ Hugo's configuration is in docs, .*\.$/);
    await expect(built({}, ["docs/hugo.toml"])).rejects.toThrow(expect.objectContaining({ result: "failed", message }));
    await expect(built()).rejects.toThrow(reason);
  });

  test("what a build prints is shown while it runs, as text without the unit's own lines, in bounded parts", async () => {
    shown.length = 0;
    let unit: Socket;
    await listen(generator.socket, (connection) => {
      unit = connection;
      writeFileSync(generator.result, good);
      unit.write(`${first}Start building\nhalf a`);
    });
    const ended = built();
    await expect.poll(() => shown).toEqual(["Start building\n"]);
    unit!.write(Buffer.concat([Buffer.from(" line \x1b[2J"), Buffer.from([0xff, 0x0a])]));
    await expect.poll(() => shown.slice(1)).toEqual(["half a line ?[2J\ufffd\n"]);
    unit!.end(`${"x".repeat(1 << 20)}\nmore\n`);
    await ended;
    const longest = Math.max(...shown.map(({ length }) => length));
    expect([shown.length, longest, shown.join("").length]).toEqual([11, 8_000, 64 << 10]);
  });

  test("a build begins with the repository's hugo_stats.json, else with that of the last build", async () => {
    const own = join(places.clone, "hugo_stats.json");
    const stats = async () => {
      await built();
      return readFileSync(places.stats, "utf8");
    };
    await unit(good);
    expect(JSON.parse(await stats())).toEqual({ htmlElements: { tags: [], classes: [], ids: [] } });
    // The unit mounts over this one.
    expect(readFileSync(own, "utf8")).toBe("");
    writeFileSync(places.stats, "of the last build");
    expect(await stats()).toBe("of the last build");
    writeFileSync(own, "of the repository");
    expect(await stats()).toBe("of the repository");
    rmSync(own);
    mkdirSync(own);
    await expect(built()).rejects.toThrow("hugo_stats.json in the repository is no file. Remove it.");
  });

  test("the builder tries again while the unit is busy with a former build", async () => {
    await unit(good, (connection) => (connection < 3 ? "" : first));
    await built();
    expect(connections).toBe(3);
  });

  test("a build that closes its connection has not ended, and the end of the build before it is not its end", async () => {
    writeFileSync(generator.result, `${"f".repeat(32)} success exited 0\n`);
    const began = performance.now();
    await unit(good, () => first, 400);
    await built();
    expect(performance.now() - began).toBeGreaterThan(390);
  });

  const neverEnds = /^The generator's unit neither works nor ends\. /;

  test("a build ends with a reason where root reports no end, a former build goes on, or no socket answers", async () => {
    await expect(built()).rejects.toThrow("does not answer (ENOENT). Run systemctl restart");
    const silent = await unit("");
    await expect(built({ seconds })).rejects.toThrow(neverEnds);
    silent.close();
    await unit("", () => "");
    await expect(built({ seconds })).rejects.toThrow("a former build does not end. Run systemctl stop");
  });

  test("a connection that stays open past its time is ended", async () => {
    const server = await listen(generator.socket, (connection) => void connection.on("error", () => {}).resume());
    await expect(built({ seconds })).rejects.toThrow(neverEnds);
    const open = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await expect.poll(open).toBe(0);
  });

  test("root is to remove the folders that the builder could not, and only then", async () => {
    let stops = 0;
    await listen(`${generator.socket}.stop`, (connection) => {
      stops += 1;
      connection.end();
    });
    const settings = { generator } as BuilderSettings;
    mkdirSync(join(places.work, "not-former-1"));
    removeAsRoot(settings, places);
    await sleep(100);
    expect(stops).toBe(0);
    mkdirSync(join(places.work, "former-1-2"));
    removeAsRoot(settings, places);
    await expect.poll(() => stops).toBe(1);
  });

  test.each([
    ["needs no report of root", first],
    ["starts no other build, if it waits for a former one", ""],
  ])("a build that is stopped for its size %s", async (_, said) => {
    await unit("", () => said);
    const stop = await listen(`${generator.socket}.stop`, (connection) => connection.end());
    const stopped = once(stop, "connection").then(() => connections);
    await expect(built({ releaseBytes: 0, seconds: seconds + 4 })).rejects.toThrow(
      /^the site wrote more than it may: /,
    );
    // A build that the builder was in the middle of, and none for the seconds that are left.
    expect(connections - (await stopped)).toBeLessThanOrEqual(1);
  });
});
