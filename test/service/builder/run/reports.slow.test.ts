/** Builder and reporter as programs. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type RunningApi, startStatusApi } from "../../../fakes/status-api.ts";
import { anywhere, bundled } from "../../bundles.ts";
import { type Bench, bundledBuilder, finish, onCopies, start } from "../harness.ts";
import { siteFiles } from "../hugo-site.ts";

const folder = mkdtempSync(join(tmpdir(), "pushgate-reports-"));
const reports = { folder, status: true, notify: true };

let site: Bench;
onCopies(
  1,
  (copy) => {
    site = copy;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
  },
  { reports },
);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("with the programs", () => {
  let running: RunningApi;
  beforeEach(async () => {
    running = await startStatusApi();
  });
  afterEach(() => running.close());

  test("a build ends while the git host's API hangs, and its result arrives once the API answers", async () => {
    const [bundle, reporting] = [await bundledBuilder(site.folder), join(site.folder, "reporter.cjs")];
    await bundled("reporter", reporting, anywhere);
    running.api.faults.hangs = true;
    site.repository.push(siteFiles(2));
    site.deliver();
    const { deployed } = await finish(site, start(site, bundle));
    const commit = site.repository.head()!;
    expect(deployed?.commit).toBe(commit);

    const credentials = join(site.folder, "credentials");
    mkdirSync(credentials);
    writeFileSync(join(credentials, "status"), `${running.api.token}\n`);
    const settings = join(site.folder, "reporter.json");
    const status = {
      gitHost: "gitea",
      repository: `${running.origin}/example/site.git`,
      context: "pushgate/web1/site",
    };
    writeFileSync(settings, JSON.stringify({ hook: "site", folder, status }));
    const env = {
      PUSHGATE_SETTINGS: settings,
      CREDENTIALS_DIRECTORY: credentials,
      NODE_EXTRA_CA_CERTS: running.caFile,
    };
    const reporter = spawn(process.execPath, [reporting], { env, stdio: "ignore" });
    const ended = once(reporter, "close");
    await expect.poll(() => running.api.requests, { timeout: 30_000 }).toBeGreaterThan(0);

    // The reporter waits for the answer, and the next push is published meanwhile.
    site.repository.push(siteFiles(3));
    site.deliver();
    const next = await finish(site, start(site, bundle));
    expect(next.deployed?.commit).toBe(site.repository.head());
    expect(reporter.exitCode).toBeNull();
    expect(running.api.results).toEqual([]);

    running.api.faults.hangs = false;
    reporter.kill();
    await ended;
    const again = spawn(process.execPath, [reporting], { env, stdio: "ignore" });
    expect(await once(again, "close")).toEqual([0, null]);
    expect(running.api.results.map((one) => [one.commit, one.state])).toEqual([
      [commit, "success"],
      [site.repository.head(), "success"],
    ]);
    expect(readFileSync(settings, "utf8")).not.toContain(running.api.token);
  });
});
