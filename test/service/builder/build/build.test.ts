/** Hugo behind its unit's socket: how the builder reports each end of it, and what the gate rejects after it. */
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { build, removeAsRoot } from "../../../../service/builder/build/build.ts";
import { gate } from "../../../../service/builder/build/gate.ts";
import { makePlaces, placesOf } from "../../../../service/builder/places.ts";
import { type Setback, setbackOf } from "../../../../service/builder/run/setback.ts";
import type { BuilderSettings } from "../../../../service/builder/settings.ts";
import {
  type Bench,
  bench,
  bundledBuilder,
  cannotBuild,
  closeGitHost,
  copyOf,
  finish,
  published as publishedSite,
  start,
} from "../harness.ts";
import { says, siteFiles, writeContent } from "../hugo-site.ts";
import { type FakeHugo, startFakeHugo } from "./fake-hugo.ts";

let site: Bench;
let extra: string;
beforeEach(({ skip }) => {
  skip(cannotBuild !== undefined, cannotBuild);
  extra = mkdtempSync(join(tmpdir(), "pushgate-generator-"));
});
afterEach(() => {
  site?.remove();
  rmSync(extra, { recursive: true, force: true });
});
afterAll(async () => {
  original?.remove();
  await closeGitHost();
});

/** Runs the build and the gate without a repository. Returns the setback. */
let out: string;
async function alone(
  hugo: BuilderSettings["generator"] | FakeHugo,
  limit: Partial<BuilderSettings["limits"]> = {},
): Promise<Setback | undefined> {
  const at = (name: string) => join(extra, name);
  const settings: BuilderSettings = {
    ...{
      hook: "site",
      repository: "https://git.invalid/site.git",
      branch: "main",
      spool: at("spool"),
      requests: at("requests"),
      rootRequests: at("root"),
    },
    ...{
      site: at("site"),
      content: extra,
      paths: [],
      folders: [],
      assets: [],
      submodules: false,
      reconcileMinutes: 15,
      generator: "socket" in hugo ? hugo : { socket: at("hugo.sock"), result: at("hugo.result") },
    },
    limits: { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 30, ...limit },
  };
  const places = placesOf(settings);
  makePlaces(places);
  mkdirSync(places.clone);
  out = places.out;
  // Of a build that was killed.
  mkdirSync(join(out, "former"), { recursive: true });
  const fake = "socket" in hugo ? undefined : await startFakeHugo(settings, hugo);
  try {
    await build(settings, places);
    gate(out, settings, null, []);
    return undefined;
  } catch (error) {
    return setbackOf(error);
  } finally {
    fake?.close();
  }
}

let original: Bench | undefined;
/** A site with revision 1 published. */
const published = async () => {
  original ??= await publishedSite(1, { pages: 20 });
  site = await copyOf(original);
};
const pushed = async (files: Parameters<Bench["repository"]["push"]>[0]) => {
  site.repository.push(files);
  site.deliver();
  return (await site.work()).last;
};

describe("the real Hugo", () => {
  test("the reason names a failing template with Hugo's message, and the next good push is published", async () => {
    await published();
    const last = await pushed({ "layouts/index.html": "{{ .Nonsense }}" });
    expect(last.result).toBe("failed");
    expect(last.reason).toMatch(/^the template layouts\/index\.html failed: .*can't evaluate field Nonsense/);
    expect(site.page()).toContain(says(1));
    expect(await pushed(siteFiles(2))).toMatchObject({ result: "published" });
    expect(site.status()).not.toHaveProperty("failing");
  });

  /** For these Hugo exits 0 and writes nothing. */
  const noLayouts = {
    "layouts/index.html": null,
    "layouts/_default/single.html": null,
    "layouts/_default/list.html": null,
  };

  test("a build begins with the repository's hugo_stats.json, else with that of the last build", async () => {
    await published();
    const stats = () => readFileSync(site.places.stats, "utf8");
    expect(JSON.parse(stats())).toEqual({ htmlElements: { tags: [], classes: [], ids: [] } });
    const own = (tag: string) => JSON.stringify({ htmlElements: { tags: [tag], classes: [], ids: [] } });
    await pushed({ "hugo_stats.json": own("main"), "static/a.css": "/* 1 */" });
    expect(stats()).toBe(own("main"));
    writeFileSync(site.places.stats, own("written"));
    await pushed({ "hugo_stats.json": null, "static/a.css": "/* 2 */" });
    expect(stats()).toBe(own("written"));
    // Hugo's unit mounts over this one.
    expect(readFileSync(join(site.places.clone, "hugo_stats.json"), "utf8")).toBe("");
    await pushed({ "hugo_stats.json": "", "static/a.css": "/* 3 */" });
    expect(stats()).toBe(own("written"));
    expect(
      await pushed({ "hugo_stats.json": null, "hugo_stats.json/in": "a folder", "static/a.css": "/* 4 */" }),
    ).toMatchObject({
      result: "rejected",
      reason: "hugo_stats.json in the repository is no file. Remove it.",
    });
  });

  test("the gate rejects a build without layouts, and would publish an empty site without it", async () => {
    await published();
    expect(await pushed(noLayouts)).toMatchObject({
      result: "rejected",
      reason: "Hugo wrote no index.html. Add the layouts (a theme, a submodule) to the repository.",
    });
    expect(site.page()).toContain(says(1));
    const bundle = await bundledBuilder(site.folder, [
      "gate.ts",
      "const index = found.files",
      "if (1 > 0) return found;\n  const index = found.files",
    ]);
    site.deliver();
    expect((await finish(site, start(site, bundle))).last.result).toBe("published");
    expect(site.published()).not.toContain("index.html");
  });

  test("the builder publishes no site without pages when the content is missing", async () => {
    await published();
    rmSync(join(site.content, "post"), { recursive: true });
    site.request("content");
    expect((await site.work()).last).toMatchObject({
      result: "rejected",
      reason: expect.stringMatching(
        /^only 1 pages .* has 22\. Check the content; if the pages were removed on purpose, lower .*pagesPercent \(50\)\.$/,
      ),
    });
    rmSync(site.content, { recursive: true });
    expect((await site.work()).last).toMatchObject({
      result: "failed",
      reason: expect.stringContaining("is missing. Mount it"),
    });
    expect(site.page("post/3/index.html")).toContain("Text of page 3.");
    writeContent(site.content, 20);
    expect((await site.work()).last.result).toBe("published");
  });

  test("a site's configuration cannot open Hugo's policies", async () => {
    const open = "[security.exec]\nallow = ['.*']\n[security.http]\nurls = ['.*']\n";
    const reads =
      '{{ with resources.GetRemote "https://localhost:1/" }}{{ with .Err }}{{ errorf "%s" . }}{{ end }}{{ end }}';
    const files = { "hugo.toml": `${siteFiles(1)["hugo.toml"]}${open}`, "layouts/index.html": reads };
    await published();
    expect((await pushed(files)).reason).toContain('is not whitelisted in policy "security.http.urls"');
    const asset = '{{ $css := resources.Get "a.css" | postCSS }}{{ $css.Permalink }}';
    const runs = { "layouts/index.html": asset, "assets/a.css": "a{}" };
    expect((await pushed(runs)).reason).toContain('"npx" is not whitelisted in policy "security.exec.allow"');
    // A policy that the operator opened is open: another error follows.
    site.repository.push({ ...files, "assets/a.css": null });
    const settings = {
      ...site.builder.settings,
      generator: { socket: join(extra, "opened.sock"), result: join(extra, "opened") },
    };
    const opened = await startFakeHugo(settings, { http: ["^https://localhost.*", "^https://other.*"] });
    const { last } = await site.work({ ...site.builder, settings });
    opened.close();
    expect(last.reason).toContain("connection refused");
  });
});

describe("a program in place of Hugo", () => {
  /** A program that writes a site into `$out` and then runs this script. */
  const program = (script: string): FakeHugo => {
    const path = join(extra, "hugo");
    const out =
      'while [ "$1" != --destination ]; do shift; done; out=$2; mkdir -p "$out"; echo home >"$out/index.html"\n';
    writeFileSync(path, `#!/bin/sh\n${out}${script}\n`, { mode: 0o755 });
    return { path };
  };
  const built = (script: string, limit: Partial<BuilderSettings["limits"]> = {}) => alone(program(script), limit);

  test.each([
    ["a link", 'ln -s /etc/passwd "$out/x.txt"', "Hugo wrote symbolic links, which may lead anywhere: x.txt"],
    ["a linked folder", 'ln -s /etc "$out/etc"', "Hugo wrote symbolic links, which may lead anywhere: etc"],
    ["a pipe, which would block its reader", 'mkfifo "$out/p"', "Hugo wrote something that is no file: p"],
    ["an empty home page", ': >"$out/index.html"', "Hugo wrote an empty index.html"],
    ["a name that is not UTF-8", 'touch "$out/$(printf "\\377").html"', "Hugo wrote a name that is not UTF-8: "],
    ["a name that is not UTF-8, which it shows", 'touch "$out/$(printf "x\\377").html"', "out/x"],
  ])("the gate rejects %s", async (_name, script, reason) => {
    expect(await built(script)).toMatchObject({ result: "rejected", message: expect.stringContaining(reason) });
  });

  test.each([
    ["a killed Hugo", "kill -9 $$", "Hugo was ended by the signal KILL"],
    ["a full disk", 'echo "write /out/x: no space left on device" >&2; exit 255', "the disk is full. Free space"],
    ["Hugo without threads", "echo 'runtime: pthread_create failed' >&2; exit 2", "its limit of processes and threads"],
    [
      "a shell that may not fork",
      "echo 'Error: POSTCSS: failed to transform \"a.css\": /usr/bin/npx: 0: Cannot fork' >&2; exit 255",
      "its limit of processes and threads",
    ],
    ["Hugo without output", "exit 3", "Hugo failed: "],
  ])("the reason reports %s", async (_name, script, reason) => {
    expect(await built(script)).toMatchObject({ result: "failed", message: expect.stringContaining(reason) });
  });

  test("a missing home page's reason names the links that were left out", async () => {
    await built("");
    rmSync(join(out, "index.html"));
    const settings = { folders: [], limits: { releaseBytes: 1 << 30, pagesPercent: 50, seconds: 30 } };
    const reason = (links: readonly string[]) => {
      try {
        gate(out, settings as unknown as BuilderSettings, null, links);
      } catch (error) {
        return setbackOf(error).message;
      }
    };
    const missing = "Hugo wrote no index.html. Add the layouts (a theme, a submodule) to the repository.";
    expect(reason([])).toBe(missing);
    expect(reason(["layouts"])).toBe(`${missing} These links were left out: layouts.`);
  });

  test("Hugo's account may write into the output and into the list of what the pages use", async () => {
    await built("");
    const mode = (path: string) => statSync(path).mode & 0o777;
    expect([mode(out), mode(join(out, "../stats.json"))]).toEqual([0o777, 0o666]);
    expect(readdirSync(out)).toEqual(["index.html"]);
  });

  test("a build is ended at its time limit", async () => {
    const setback = await built("sleep 60", { seconds: 1 });
    expect(setback?.message).toBe("the build took longer than its 1 s. Raise hooks[].site.limits.seconds.");
  });

  test("the reason holds the end of Hugo's output without control characters", async () => {
    const noise = "yes 'noise' | head -c 20000000 >&2; printf '\\nE\\033[2J\\342\\200\\256rror\\n' >&2; exit 1";
    expect((await built(noise))?.message).toBe("Hugo failed: noise | no | E?[2J?rror");
  });

  test("the reason reports a missing Hugo", async () => {
    const none = await alone({ path: "/nonexistent/hugo" });
    expect(none?.message).toBe("Hugo cannot be started. Run apt-get install hugo, or correct hooks[].site.hugo.path.");
  });
});

describe("Hugo's socket", () => {
  let server: Server;
  let connections: number;
  afterEach(() => server?.close());

  const id = "0123456789abcdef".repeat(2);
  const first = `pushgate-generator build=${id}\n`;
  const good = `${id} success exited 0\n`;

  /**
   * A unit that writes a site, sends this and closes the connection; root writes `end` as soon as the connection is
   * there, or so many milliseconds after it was closed.
   */
  const unit = async (
    end: string,
    say = (_connection: number) => `${first}Start building sites …\nError: it went wrong\n`,
    later = 0,
  ): Promise<BuilderSettings["generator"]> => {
    connections = 0;
    const [socket, result] = [join(extra, "socket"), join(extra, "result")];
    server = createServer((connection) => {
      connections += 1;
      const write = () => writeFileSync(result, end);
      if (later === 0) write();
      else setTimeout(write, later);
      if (end === good) {
        mkdirSync(join(out, "a"), { recursive: true });
        writeFileSync(join(out, "index.html"), "by the unit");
      }
      connection.end(say(connections));
    });
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    return { socket, result };
  };
  const setbackAfter = async (...of: Parameters<typeof unit>) =>
    alone(await unit(...of), { memoryMiB: 1024, seconds: 30 });

  test("a connection starts a build, and root's file reports how the build ended", async () => {
    site = await bench({ generator: await unit(good) });
    out = site.places.out;
    site.deliver();
    expect((await site.work()).last.result).toBe("published");
    expect(site.page()).toBe("by the unit");
    expect(connections).toBe(1);
    // No second copy takes room.
    expect(readdirSync(site.places.work).filter((name) => /^(out|former)/.test(name))).toEqual([]);
  });

  test.each([
    ["exit-code exited 255", "Hugo failed: it went wrong"],
    ["oom-kill killed KILL", "its memory limit (1024 MiB). Raise hooks[].site.limits.memoryMiB"],
    ["timeout killed TERM", "longer than its 30 s. Raise hooks[].site.limits.seconds"],
    ["timeout exited 0", "Hugo ended, and its unit did not: the host is too busy to build"],
    ["signal killed KILL", "ended by the signal KILL"],
    ["success killed TERM", "ended by the signal TERM"],
    ["resources", "lacks the resources to start Hugo"],
    ["protocol", "Hugo's unit ended by protocol"],
  ])("the end %s has a reason of its own", async (end, reason) => {
    const setback = await setbackAfter(`${id} ${end}\n`);
    expect(setback).toMatchObject({ result: "failed", message: expect.stringContaining(reason) });
  });

  test.each<[string, string, string, string]>([
    [
      "without Hugo",
      "exit-code exited 203",
      "",
      "Hugo cannot be started. Run apt-get install hugo, or correct hooks[].site.hugo.path.",
    ],
    [
      "of the unit's own program",
      "exit-code exited 78",
      "the content folder is missing\n",
      "the content folder is missing",
    ],
    [
      "of a core dump",
      "core-dump dumped SEGV",
      "",
      "Hugo was ended by the signal SEGV: by a person, or by a host without memory. See journalctl -k.",
    ],
    [
      "where the kernel denied memory",
      "exit-code exited 2",
      "fatal error: runtime: out of memory\n",
      "the build reached its memory limit (1024 MiB). Raise hooks[].site.limits.memoryMiB.",
    ],
    [
      "where the kernel denied an address",
      "exit-code exited 2",
      "x\nfatal error: runtime: cannot allocate memory\n",
      "the build reached its memory limit (1024 MiB). Raise hooks[].site.limits.memoryMiB.",
    ],
    [
      "where a page only speaks of memory",
      "exit-code exited 1",
      "ERROR a page: fatal error: out of memory\n",
      "Hugo failed: a page: fatal error: out of memory",
    ],
    [
      "of a quota",
      "exit-code exited 1",
      "ERROR Disk quota exceeded\n",
      "the disk is full. Free space on the file system of /var/lib/pushgate-sites, or make the site smaller.",
    ],
    [
      "without processes",
      "exit-code exited 1",
      "fork/exec /usr/bin/x: resource temporarily unavailable\n",
      "Hugo reached its limit of processes and threads (256). Raise hooks[].site.limits.tasks.",
    ],
    [
      "of node without processes",
      "exit-code exited 1",
      "Error: spawn /usr/bin/x EAGAIN\n",
      "Hugo reached its limit of processes and threads (256). Raise hooks[].site.limits.tasks.",
    ],
    [
      "of a shell without processes",
      "exit-code exited 1",
      "sh: fork: retry: Resource temporarily unavailable\n",
      "Hugo reached its limit of processes and threads (256). Raise hooks[].site.limits.tasks.",
    ],
    [
      "of a template",
      "exit-code exited 1",
      'ERROR 2026/11/23 12:00:00 render: "/source/layouts/index.html:3:5": bad\n',
      'the template layouts/index.html failed: render: "/source/layouts/index.html:3:5": bad',
    ],
    [
      "of a theme's template",
      "exit-code exited 1",
      "Error: themes/plain/layouts/a.html:10: bad\n",
      "the template themes/plain/layouts/a.html failed: themes/plain/layouts/a.html:10: bad",
    ],
    [
      "with greeting and totals",
      "exit-code exited 1",
      "Start building sites …\nhugo v0.111\n  | EN\n-----+---\nWARN x\nTotal in 5 ms\nsaid so\n",
      "Hugo failed: said so",
    ],
    [
      "after the folders",
      "exit-code exited 1",
      '{ "dir": "/source" }\nError: of the folders\npushgate-generator begins\nsaid so\n',
      "Hugo failed: said so",
    ],
    [
      "with the number of errors",
      "exit-code exited 1",
      "Error: error building site: logged 12 error(s)\nERROR logged 3 error(s) itself\n",
      "Hugo failed: logged 3 error(s) itself",
    ],
    [
      "without an error, with words that only hold those of errors, warnings and greetings",
      "exit-code exited 1",
      "one\nno ERROR here\nsee hugo v0.1\nno WARN\n",
      "Hugo failed: no ERROR here | see hugo v0.1 | no WARN",
    ],
    [
      "with more errors than are shown",
      "exit-code exited 1",
      "before\nERROR a\nERROR a\nERROR b\npanic: c\nfatal d\nafter\n",
      "Hugo failed: a | b | panic: c",
    ],
    [
      "of a denied program",
      "exit-code exited 1",
      "Error: access denied: x; the current security configuration is:\n[security]\n",
      "Hugo failed: access denied: x",
    ],
    ["whose first error quotes another", "exit-code exited 1", "ERROR a: ERROR b\n", "Hugo failed: a: ERROR b"],
    ["with counted errors", "exit-code exited 1", "ERROR a\nError: logged 1 error(s)\n", "Hugo failed: a"],
    [
      "of an unknown kind",
      "watchdog killed ABRT",
      "last words\n",
      "Hugo's unit ended by watchdog. See journalctl -u 'pushgate-generator-*'. Its output: last words",
    ],
  ])("the end %s has the reason: %s", async (_, end, output, reason) => {
    const hugo = await unit(`${id} ${end}\n`, () => first + output);
    expect((await alone(hugo, { memoryMiB: 1024, tasks: 256 }))?.message).toBe(reason);
  });

  test("a limit that the settings do not have is not in the reason", async () => {
    const memory = await unit(`${id} oom-kill killed KILL\n`);
    expect((await alone(memory))?.message).toBe(
      "the build reached its memory limit. Raise hooks[].site.limits.memoryMiB.",
    );
  });

  test("a unit that says something else first is no build", async () => {
    const other = await setbackAfter(good, () => "Welcome!\n");
    expect(other?.message).toMatch(/^Hugo's unit ended by no first line\. .* Its output: Welcome!$/);
  });

  test("the builder tries again while the unit is busy with a former build", async () => {
    expect(await setbackAfter(good, (connection) => (connection < 3 ? "" : first))).toBeUndefined();
    expect(connections).toBe(3);
  });

  test("what repository code writes to the connection is no result, and no other build", async () => {
    const forged = `pushgate-generator result=success code=exited status=0\n${good}pushgate-generator build=${"f".repeat(32)}\n`;
    const setback = await setbackAfter(`${id} exit-code exited 1\n`, () => `${first}${forged}Error: it went wrong\n`);
    expect(setback?.message).toBe("Hugo failed: it went wrong");
  });

  test("a build that closes its connection has not ended, and the end of the build before it is not its end", async () => {
    writeFileSync(join(extra, "result"), `${"f".repeat(32)} success exited 0\n`);
    const began = performance.now();
    expect(await setbackAfter(good, () => first, 1_500)).toBeUndefined();
    expect(performance.now() - began).toBeGreaterThan(1_400);
    expect(performance.now() - began).toBeLessThan(30_000);
  });

  /** Hugo's seconds with which the builder waits for one second: its unit has 60 s more to start and to end. */
  const seconds = -59;

  test("the reason reports a unit of which root reports no end", async () => {
    const setback = await alone(await unit("", () => first), { seconds });
    expect(setback?.message).toBe(
      "The generator's unit neither builds nor ends. Run systemctl status 'pushgate-generator-*'.",
    );
  });

  test("a connection that stays open past its time is ended", async () => {
    const socket = join(extra, "socket");
    server = createServer((connection) => void connection.on("error", () => {}).resume());
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    const setback = await alone({ socket, result: join(extra, "result") }, { seconds });
    expect(setback?.message).toBe(
      "The generator's unit neither builds nor ends. Run systemctl status 'pushgate-generator-*'.",
    );
    const open = () => new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
    await expect.poll(open).toBe(0);
  });

  test("root is to remove the folders that the builder could not, and only then", async () => {
    const at = (name: string) => join(extra, name);
    const places = placesOf({
      site: at("site"),
      spool: at("spool"),
      requests: at("requests"),
      rootRequests: at("root"),
    });
    makePlaces(places);
    const generator = { socket: at("hugo.sock"), result: at("result") };
    const settings = { generator } as BuilderSettings;
    let stops = 0;
    server = createServer((connection) => {
      stops += 1;
      connection.end();
    });
    await new Promise<void>((resolve) => server.listen(`${generator.socket}.stop`, resolve));
    removeAsRoot(settings, places);
    mkdirSync(join(places.work, "not-former-1"));
    await sleep(200);
    expect(stops).toBe(0);
    mkdirSync(join(places.work, "former-1-2"));
    removeAsRoot(settings, places);
    await expect.poll(() => stops).toBe(1);
    // A stop that cannot be reached ends nothing: the next publish tries again.
    removeAsRoot({ ...settings, generator: { ...generator, socket: at("missing") } }, places);
    await sleep(200);
  });

  test("the reason reports a former build that does not end", async () => {
    const setback = await alone(await unit("", () => ""), { seconds });
    expect(setback?.message).toBe("a former build does not end. Run systemctl stop 'pushgate-generator-*'.");
  });

  test("a build that was ended for its size needs no report of root", async () => {
    const hugo = await unit("", () => first);
    const stop = createServer((connection) => connection.end());
    await new Promise<void>((resolve) => stop.listen(`${hugo.socket}.stop`, resolve));
    try {
      const connected = once(stop, "connection");
      const setback = await alone(hugo, { releaseBytes: 0, seconds: seconds + 4 });
      expect(setback?.message).toMatch(/^the site wrote more than it may: /);
      // A socket that closes first resets the builder's connection, and the builder exits.
      await connected;
    } finally {
      stop.close();
    }
  });

  test("no other build starts after the stop of one that was ended while it waited for a former one", async () => {
    const hugo = await unit("", () => "");
    const stop = createServer((connection) => connection.end());
    await new Promise<void>((resolve) => stop.listen(`${hugo.socket}.stop`, resolve));
    try {
      const stopped = once(stop, "connection").then(() => connections);
      const setback = await alone(hugo, { releaseBytes: 0, seconds: seconds + 4 });
      expect(setback?.message).toMatch(/^the site wrote more than it may: /);
      // One that it was in the middle of, and none for the seconds that are left.
      expect(connections - (await stopped)).toBeLessThanOrEqual(1);
    } finally {
      stop.close();
    }
  });

  test("the reason reports a socket that does not answer", async () => {
    const setback = await alone({ socket: join(extra, "missing.sock"), result: join(extra, "none") });
    expect(setback?.message).toContain("does not answer (ENOENT). Run systemctl restart");
  });
});
