/**
 * What goes wrong with a build, each for real: the reason stands in status.json and in the journal, the old site is
 * served all the while, and the next good push or tick heals it. On one host, one fault after the other.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Status } from "../../../service/builder/status.ts";
import type { GitHost } from "../../fakes/git-host.ts";
import type { Files } from "../../fakes/git-repository.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { release } from "../release.ts";
import { front, type HookName, placesOf } from "./site.ts";
import { awaitStatus, idle, nextResult, published, runs, statusOf, timersEnd } from "./status.ts";
import { buildRebuild, type Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

/** What the operator allowed for his postcss; a program under that name eats processes. */
const hungryProgram = `#!/bin/sh
for i in $(seq 1000); do sleep 20 >/dev/null 2>&1 & done
wait
`;

beforeAll(async () => {
  host = await bootHost({ name: "faults", release, variant: "packages" });
  await host.writeFile("/usr/bin/npx", hungryProgram, "0755");
  const limits = { seconds: 10, memoryMiB: 256, tasks: 64, releaseMiB: 8 };
  rebuild = await buildRebuild(host, {
    site: { limits, hugo: { exec: ["^npx$"] }, reconcileMinutes: 60 },
    docs: { reconcileMinutes: 60 },
  });
  await rebuild.start();
  // A look in the middle of a fault would be one more run than the test counts on.
  await timersEnd(host);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const bad = ({ last }: Status) => last?.result === "failed" || last?.result === "rejected";

/** A build that came to no good, with a reason in both places, and the former page still there. */
async function failed(since: Status | undefined, reason: RegExp, hook: HookName = "site", timeout = 45_000) {
  const status = await awaitStatus(
    host,
    `a failure because of ${reason}`,
    (now) => bad(now) && now.last!.at !== since?.last?.at,
    { hook, timeout },
  );
  expect(status.last!.reason).toMatch(reason);
  expect(status.deployed).toEqual(since?.deployed);
  const lines = await runs(host, hook);
  expect(lines.at(-1)).toMatchObject({ result: status.last!.result, reason: status.last!.reason });
  return status;
}

let mark = 0;
/** The next good push heals whatever was. */
async function heals(files: Files = {}, hook: HookName = "site", timeout = 30_000): Promise<void> {
  const text = `good-${++mark}`;
  const commit = await rebuild.push({ "layouts/index.html": front(text), ...files }, hook);
  const status = await published(host, commit, { hook, timeout });
  expect(status.failing).toBeUndefined();
  expect((await rebuild.visit("/", hook)).body).toContain(`layout-${text}`);
}

const served = (hook: HookName = "site") => rebuild.visit("/", hook);

describe("in the repository", () => {
  let before: Status;
  let page: string;
  beforeEach(async () => {
    await idle(host);
    before = statusOf(host)!;
    page = (await served()).body;
  });

  const nest = (text: string) =>
    `{{ range seq 2000 }}{{ range seq 2000 }}{{ range seq 2000 }}${text}{{ end }}{{ end }}{{ end }}`;
  const doubled = '{{ $s := "0123456789abcdef" }}{{ range seq 34 }}{{ $s = printf "%s%s" $s $s }}{{ end }}{{ len $s }}';
  const css = '{{ (resources.FromString "a.css" "a{}" | resources.PostCSS).RelPermalink }}';
  test.each<[string, Files, RegExp, Files?]>([
    ["a template error", { "layouts/index.html": "{{ .NoSuchThing }}" }, /NoSuchThing/],
    [
      "missing layouts: hugo is content with nothing",
      { "layouts/index.html": null, "layouts/_default/single.html": null, "layouts/_default/list.html": null },
      /index\.html/,
      { "layouts/_default/single.html": "{{ .Content }}", "layouts/_default/list.html": "{{ .Title }}" },
    ],
    ["an empty front page", { "layouts/index.html": "" }, /index\.html/],
    ["a build without end", { "layouts/index.html": nest("") }, /10 (s|seconds)|time/i],
    ["a build that eats memory", { "layouts/index.html": doubled }, /memory/i],
    ["a build that eats processes", { "layouts/index.html": css }, /fork|resource|process|tasks/i],
    [
      "more than a release may hold",
      { "static/large.bin": Buffer.alloc(9 << 20, 7) },
      /8 MiB|bytes|larger|large/i,
      { "static/large.bin": null },
    ],
    [
      "content in the repository",
      { "content/posts/one.md": "mine", "static/x": "x" },
      /content/,
      { "content/posts/one.md": null },
    ],
  ])("%s", async (_, files, reason, undo = {}) => {
    try {
      await rebuild.push(files);
      await failed(before, reason);
      expect((await served()).body).toBe(page);
    } finally {
      await heals(undo);
    }
  });

  test("a history rewritten: the new one is published", async () => {
    const kept = Object.fromEntries(
      rebuild.repositories.site
        .git("ls-tree", "-r", "--name-only", "-z", "main")
        .split("\0")
        .filter(Boolean)
        .map((path) => [path, Buffer.from(rebuild.repositories.site.git("show", `main:${path}`))]),
    );
    const commit = rebuild.repositories.site.rewrite({ ...kept, "layouts/index.html": front("rewritten") });
    expect((await rebuild.deliver(commit)).status).toBe(202);
    await published(host, commit);
    expect((await served()).body).toContain("layout-rewritten");
  });

  test("half of the pages gone: refused, as content is lost more often than unwanted", async () => {
    const { content } = placesOf("site");
    await host.inside(`mkdir /srv/aside && mv ${content}/posts ${content}/_index.md /srv/aside/`);
    try {
      await rebuild.push({ "static/x": "y" });
      await failed(before, /page/);
      expect((await served()).body).toBe(page);
    } finally {
      await host.inside(`mv /srv/aside/* ${content}/ && rmdir /srv/aside`);
      await heals();
    }
  });

  test("the content folder gone: said so, and not created", async () => {
    const { content } = placesOf("site");
    await host.inside(`mv ${content} ${content}.aside`);
    try {
      await rebuild.push({ "static/x": "z" });
      await failed(before, /content/);
      expect((await served()).body).toBe(page);
      expect(await host.read(`ls ${content} 2>&1 || true`)).toMatch(/No such file/);
    } finally {
      await host.inside(`mv ${content}.aside ${content}`);
      await heals();
    }
  });

  test("the release tampered with: the next tick says so and builds it again", async () => {
    const { site } = placesOf("site");
    await host.inside(`set -e
cd ${site}/current/ && chmod u+w . index.html && echo defaced >index.html`);
    expect((await served()).body).toContain("defaced");
    await rebuild.ask("tick");
    const status = await nextResult(host, before, "published");
    expect(status.last!.reason).toMatch(/tamper|manifest|differ|changed/i);
    expect(status.deployed!.release).not.toBe(before.deployed!.release);
    expect((await served()).body).toBe(page);
  });

  /** Leaves so many bytes on the disk. */
  const fill = (bytes: number) =>
    host.inside(`fallocate -l $(( $(df --output=avail -B1 / | tail -n 1) - ${bytes} )) /filler`);
  const full = /the disk is full|MiB free on the disk/;

  test("a disk too full for this build", async () => {
    await fill(2 << 20);
    try {
      const commit = await rebuild.push({
        "static/large.bin": Buffer.alloc(4 << 20, 9),
        "layouts/index.html": front("room"),
      });
      await failed(before, full);
      expect((await served()).body).toBe(page);
      await host.inside("rm /filler");
      // By itself: the pauses between its attempts grow, and are short still.
      await published(host, commit, { timeout: 60_000 });
      expect((await served()).body).toContain("layout-room");
    } finally {
      await host.inside("rm -f /filler");
      await heals({ "static/large.bin": null });
    }
  });

  test("a disk with no room at all: the receiver rejects the delivery, and the journal reports the build", async () => {
    const former = (await runs(host)).length;
    const commit = rebuild.repositories.site.push({ "layouts/index.html": front("no-room") });
    await fill(0);
    try {
      expect((await rebuild.deliver(commit)).status).toBe(503);
      await rebuild.ask("tick");
      // What a start removes may be room enough for so small a site; else the reason is the disk. status.json may not
      // have the block it needs.
      const last = await until("the tick is built", async () => (await runs(host))[former]);
      const made = last.result === "published";
      if (!made) expect(last.reason).toMatch(full);
      expect((await served()).body).toBe(made ? page.replace(/layout-[a-z0-9-]+/, "layout-no-room") : page);
      await host.inside("rm /filler");
      await published(host, commit, { timeout: 60_000 });
    } finally {
      await host.inside("rm -f /filler");
      await heals();
    }
  });
});

describe("at the git host", () => {
  afterEach(async () => {
    await rebuild.git.comeBack();
    for (const fault of ["status", "redirect", "stalls"] as const) delete rebuild.git.faults[fault];
    rebuild.git.ssh.refuse(false);
    await rebuild.git.ssh.impersonate(false);
    for (const hook of ["site", "docs"] as const) {
      await heals({}, hook, 60_000);
      await idle(host, hook);
    }
  });

  test("gone, and back: no delivery has to come again", async () => {
    const before = statusOf(host)!;
    await rebuild.git.goAway();
    const late = await rebuild.push({ "layouts/index.html": front("late") });
    const status = await failed(before, /can't be reached/);
    expect(status.failing).toMatchObject({ attempts: expect.any(Number), next: expect.any(String) });
    expect((await served()).body).not.toContain("layout-late");
    await rebuild.git.comeBack();
    const healed = await published(host, late, { timeout: 60_000 });
    expect(healed.failing).toBeUndefined();
  });

  test.each<[string, GitHost["faults"], RegExp]>([
    ["the repository is gone", { status: 404 }, /is not there/],
    ["the repository is private of a sudden", { status: 401 }, /login/],
    ["a redirect into a machine's own network", { redirect: "https://169.254.169.254" }, /can't be reached|169\.254/],
    ["an answer that breaks off in the middle", { stalls: true }, /closed the connection|took longer/],
  ])("%s", async (_, fault, reason) => {
    const before = statusOf(host)!;
    Object.assign(rebuild.git.faults, fault);
    await rebuild.push({ "layouts/index.html": front("unfetched") });
    await failed(before, reason, "site", 60_000);
    expect((await served()).body).not.toContain("layout-unfetched");
  });

  test.each<[string, (ssh: Rebuild["git"]["ssh"]) => unknown, RegExp]>([
    ["the deploy key is refused", (ssh) => ssh.refuse(true), /rejected the deploy key/],
    ["somebody else answers at its address", (ssh) => ssh.impersonate(true), /host key .* is not the pinned one/],
    ["its sshd is gone", (ssh) => ssh.goAway(), /can't be reached/],
  ])("over ssh: %s", async (_, make, reason) => {
    const before = statusOf(host, "docs")!;
    await make(rebuild.git.ssh);
    await rebuild.push({ "layouts/index.html": front("unfetched") }, "docs");
    await failed(before, reason, "docs");
    expect((await served("docs")).body).not.toContain("layout-unfetched");
  });
});
