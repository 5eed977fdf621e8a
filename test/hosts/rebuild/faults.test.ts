/**
 * Real faults of a build: the reason is in status.json and in the journal, the former site is served all the time, and
 * the next valid push or tick publishes again. The tests run on one host, one fault after another.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Status } from "../../../service/builder/run/status.ts";
import { pushPayload } from "../../fakes/deliveries.ts";
import type { GitHost } from "../../fakes/git-host.ts";
import type { Files } from "../../fakes/git-repository.ts";
import type { Host } from "../lab/host.ts";
import { until } from "../lab/process.ts";
import { deployedRebuild } from "./deployed.ts";
import { front, type HookName, placesOf } from "./site.ts";
import { awaitStatus, idle, published, runs, statusOf, timersEnd } from "./status.ts";
import type { Rebuild } from "./world.ts";

let host: Host;
let rebuild: Rebuild;

/** The operator allowed npx for postcss; this program under its name starts too many processes. */
const hungryProgram = `#!/bin/sh
for i in $(seq 1000); do sleep 20 >/dev/null 2>&1 & done
wait
`;

beforeAll(async () => {
  const limits = { seconds: 10, memoryMiB: 256, tasks: 64, releaseMiB: 8 };
  rebuild = await deployedRebuild("faults", { site: { limits, hugo: { exec: ["^npx$"] } } });
  ({ host } = rebuild);
  await host.writeFile("/usr/bin/npx", hungryProgram, "0755");
  // A run started by a timer in the middle of a fault would be one more than the test expects.
  await timersEnd(host);
});

afterAll(async () => {
  await rebuild?.close();
  await host?.kill();
});

const bad = ({ last }: Status) => last?.result === "failed" || last?.result === "rejected";

/** Waits for a failed build with its reason in status.json and in the journal, and the former release deployed. */
async function failed(since: Status | undefined, reason: RegExp, hook: HookName = "site", timeout = 45_000) {
  const status = await awaitStatus(
    host,
    `a failure because of ${reason}`,
    (now) => bad(now) && now.last!.at !== since?.last?.at,
    { hook, timeout },
  );
  expect(status.last!.reason).toMatch(reason);
  expect(status.deployed).toEqual(since?.deployed);
  // journald writes the line a moment after the status.
  await until("the journal has the reason", async () => {
    const line = (await runs(host, hook)).at(-1);
    return (line?.result === status.last!.result && line.reason === status.last!.reason) || undefined;
  });
  return status;
}

let mark = 0;
/** Pushes a valid change, which the builder must publish after any fault. */
async function publishes(files: Files = {}, hook: HookName = "site", timeout = 30_000): Promise<void> {
  const text = `good-${++mark}`;
  const commit = await rebuild.push({ "layouts/index.html": front(text), ...files }, hook);
  const status = await published(host, commit, { hook, timeout });
  expect(status.failing).toBeUndefined();
  expect((await rebuild.visit("/", hook)).body).toContain(`layout-${text}`);
}

const served = (hook: HookName = "site") => rebuild.visit("/", hook);

describe("faults of the repository and the host", () => {
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
  test.each<[string, Files, RegExp]>([
    ["a template error", { "layouts/index.html": "{{ .NoSuchThing }}" }, /NoSuchThing/],
    ["an endless build", { "layouts/index.html": nest("") }, /^the build took longer than its 10 s\. /],
    [
      "a build that uses too much memory",
      { "layouts/index.html": doubled },
      /^the build reached its memory limit \(256 MiB\)\. /,
    ],
    [
      "a build that starts too many processes",
      { "layouts/index.html": css },
      /^Hugo reached its limit of processes and threads \(64\)\. /,
    ],
  ])("the builder fails with the reason and keeps the former page: %s", async (_, files, reason) => {
    try {
      await rebuild.push(files);
      await failed(before, reason);
      expect((await served()).body).toBe(page);
    } finally {
      await publishes();
    }
  });

  test("the builder reports a missing content folder and does not create it", async () => {
    const { content } = placesOf("site");
    await host.inside(`mv ${content} ${content}.aside`);
    try {
      await rebuild.push({ "static/x": "z" });
      await failed(before, /the content folder \S+ is missing\. /);
      expect((await served()).body).toBe(page);
      expect(await host.read(`ls ${content} 2>&1 || true`)).toMatch(/No such file/);
    } finally {
      await host.inside(`mv ${content}.aside ${content}`);
      await publishes();
    }
  });

  /** Fills the disk except for this many bytes. Another program may write between the look and the allocation. */
  const fill = (bytes: number) =>
    host.inside(`for _ in $(seq 20); do
  fallocate -l $(( $(df --output=avail -B1 / | tail -n 1) - ${bytes} )) /filler && exit
  rm -f /filler
done
exit 1`);
  const full = /the disk is full|MiB free on the disk/;

  test("the builder reports a disk that is too full for the build, and publishes when there is room", async () => {
    await fill(2 << 20);
    try {
      const commit = await rebuild.push({
        "static/large.bin": Buffer.alloc(4 << 20, 9),
        "layouts/index.html": front("room"),
      });
      await failed(before, full);
      expect((await served()).body).toBe(page);
      await host.inside("rm /filler");
      // The builder tries again without a delivery: the pauses between its attempts grow, but are still short.
      await published(host, commit, { timeout: 60_000 });
      expect((await served()).body).toContain("layout-room");
    } finally {
      await host.inside("rm -f /filler");
      await publishes({ "static/large.bin": null });
    }
  });

  test("on a full disk the receiver rejects the delivery, and the journal reports the build", async () => {
    const former = (await runs(host)).length;
    const commit = rebuild.repositories.site.push({ "layouts/index.html": front("no-room") });
    await fill(0);
    try {
      expect((await rebuild.deliver(commit)).status).toBe(503);
      await rebuild.request("tick");
      // The files that a start removes may free enough room for this small site; otherwise the reason is the full disk.
      // The test reads the journal, because status.json may lack the block it needs.
      const last = await until("the tick is built", async () => (await runs(host))[former]);
      const made = last.result === "published";
      if (!made) expect(last.reason).toMatch(full);
      expect((await served()).body).toBe(made ? page.replace(/layout-[a-z0-9-]+/, "layout-no-room") : page);
      await host.inside("rm /filler");
      await published(host, commit, { timeout: 60_000 });
    } finally {
      await host.inside("rm -f /filler");
      await publishes();
    }
  });
});

describe("faults of the git host", () => {
  afterEach(async () => {
    await rebuild.git.comeBack();
    for (const fault of ["status", "redirect", "stalls"] as const) delete rebuild.git.faults[fault];
    rebuild.git.ssh.rejectKey(false);
    await rebuild.git.ssh.impersonate(false);
    for (const hook of ["site", "docs"] as const) {
      await publishes({}, hook, 60_000);
      await idle(host, hook);
    }
  });

  test("a redelivery after failed builds, under the same id, is accepted and built before the builder's own next try", async () => {
    const commit = rebuild.repositories.site.push({ "layouts/index.html": front("again") });
    const headers = { "x-github-delivery": "72d3162e-again" };
    const send = () => rebuild.world.deliver({ payload: { ...pushPayload(), after: commit }, headers });
    await rebuild.git.goAway();
    expect((await send()).status).toBe(202);
    const { failing } = await awaitStatus(host, "a second failure", (now) => (now.failing?.attempts ?? 0) >= 2);
    await rebuild.git.comeBack();
    expect((await send()).status).toBe(202);
    const { last } = await published(host, commit);
    expect(Date.parse(last!.at)).toBeLessThan(Date.parse(failing!.next) - 2_000);
  });

  test.each<[string, GitHost["faults"], RegExp]>([
    [
      "a redirect leads into the host's network",
      { redirect: "https://169.254.169.254" },
      /cannot be reached\. .*169\.254\.169\.254/,
    ],
    ["an answer ends in the middle", { stalls: true }, /^the fetch from git\.example\.net took longer than 10 s\. /],
  ])("the builder fails with the reason: %s", async (_, fault, reason) => {
    const before = statusOf(host)!;
    Object.assign(rebuild.git.faults, fault);
    await rebuild.push({ "layouts/index.html": front("unfetched") });
    await failed(before, reason, "site", 60_000);
    expect((await served()).body).not.toContain("layout-unfetched");
  });

  test.each<[string, (ssh: Rebuild["git"]["ssh"]) => unknown, RegExp]>([
    ["the git host rejects the deploy key", (ssh) => ssh.rejectKey(true), /rejected the deploy key/],
    ["an impostor answers at its address", (ssh) => ssh.impersonate(true), /host key .* is not the pinned one/],
  ])("the builder fails with the reason over ssh: %s", async (_, make, reason) => {
    const before = statusOf(host, "docs")!;
    await make(rebuild.git.ssh);
    await rebuild.push({ "layouts/index.html": front("unfetched") }, "docs");
    await failed(before, reason, "docs");
    expect((await served("docs")).body).not.toContain("layout-unfetched");
  });
});
