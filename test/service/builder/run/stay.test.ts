/** The builder between two runs. test/hosts/rebuild/units.test.ts has the egress table, which limits its network. */
import { once } from "node:events";
import { closeSync, openSync, readdirSync, renameSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { pending } from "../../../../service/builder/run/markers.ts";
import { nextMarker } from "../../../../service/builder/run/stay.ts";
import { bundled } from "../../bundles.ts";
import { type Bench, kill, onCopies, start } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

let site: Bench;

onCopies(1, (copy) => {
  site = copy;
});

/** Whether it is still open after 50 ms. */
const waits = (promise: Promise<unknown>) => Promise.race([promise, sleep(50, "waits")]);

test.each([
  ["a delivery", () => site.deliver()],
  ["a request", () => site.request("please")],
  ["a request of root", () => site.tick()],
])("a wait ends at once for %s", async (_, send) => {
  const next = nextMarker(site.places);
  expect(await waits(next)).toBe("waits");
  send();
  expect(await next).toBe(true);
  // A kernel has 128 inotify instances for an account.
  await vi.waitUntil(() => !process.getActiveResourcesInfo().includes("FSEventWrap"));
});

test("a wait ends for a marker that is there already, and not for a temporary file", async () => {
  const temporary = join(site.places.spool, ".new.tmp");
  const next = nextMarker(site.places);
  writeFileSync(temporary, "{}\n");
  expect(await waits(next)).toBe("waits");
  renameSync(temporary, join(site.places.spool, "new.json"));
  expect(await next).toBe(true);
  expect(await nextMarker(site.places)).toBe(true);
});

test("a wait ends without a marker where a folder was removed, also one that a mount still holds", async () => {
  const { spool } = site.places;
  const held = openSync(spool, "r");
  const [next, late] = [nextMarker(site.places, 20), nextMarker(site.places)];
  rmdirSync(spool);
  expect(await next).toBe(false);
  expect(await waits(late)).toBe("waits");
  closeSync(held);
  expect(await late).toBe(false);
  expect(await nextMarker(site.places)).toBe(false);
});

test("there is no wait where the builder has not each right in a folder, which also root lacks in a file", async () => {
  const { requests } = site.places;
  rmdirSync(requests);
  writeFileSync(requests, "");
  expect(await nextMarker(site.places)).toBe(false);
});

test("one builder publishes one push after the other, and ends before a further run in which its network is open", async () => {
  const [program, open] = [join(site.folder, "builder.cjs"), join(site.folder, "open")];
  await bundled("builder", program, (file, text) =>
    file === "confined.ts"
      ? text
          .replace("import ", 'import { existsSync } from "node:fs";\nimport ')
          .replace(/\(error as .*"EPERM"/, `!existsSync(${JSON.stringify(open)})`)
      : text,
  );
  const push = (revision: number) => {
    const commit = site.repository.push(siteFiles(revision));
    site.deliver();
    return commit;
  };
  const isPublished = async (commit: string) => {
    await vi.waitFor(() => expect(site.status().deployed?.commit).toBe(commit), { timeout: 20_000 });
    await vi.waitFor(() => expect(pending(site.places)).toEqual([]));
  };
  const second = push(2);
  const builder = start(site, program);
  const end = once(builder, "exit");
  try {
    await isPublished(second);
    const third = push(3);
    await isPublished(third);
    expect(builder.exitCode).toBe(null);
    writeFileSync(open, "");
    push(4);
    expect((await end)[0]).toBe(0);
    expect(site.status().deployed?.commit).toBe(third);
    expect(readdirSync(site.places.spool)).toHaveLength(1);
  } finally {
    kill(site, builder);
  }

  // The start of the next one loads the table, so its first run needs no look.
  const next = start(site, program);
  try {
    expect((await once(next, "exit"))[0]).toBe(0);
    expect(site.status().deployed?.commit).toBe(site.repository.head());
  } finally {
    kill(site, next);
  }
});
