/**
 * `npm run test:host [-- release…] [-- file…]`: runs the suite on throwaway hosts with the real engine and kernel, once
 * per release; `npm run test:rebuild` tests the path from a push to the published page. Needs root, and names the
 * Debian packages that are missing. Builds missing images and a missing engine, and caches both. Without a release in
 * its arguments, a file that depends little on the release runs on the one that its suite's configuration names.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { releases } from "./lab/image.ts";
import { withLab } from "./lab/lab.ts";
import { step } from "./lab/process.ts";
import { engineReady, isRelease, npmReady } from "./ready.ts";

const [config, ...words] = process.argv.slice(2) as [string, ...string[]];
const named = words.filter(isRelease);
const wanted = named.length > 0 ? named : [...releases];
const files = words.filter((word) => !isRelease(word));

await engineReady();
if (process.env.PUSHGATE_LAB === undefined && config.includes("/edge/")) await npmReady();

await withLab({ releases: wanted }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-counts-"));
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const release of wanted) {
    const counts = join(folder, release);
    const eachFile = named.length > 0 && { PUSHGATE_EACH_FILE: "1" };
    const env = { ...process.env, PUSHGATE_RELEASE: release, PUSHGATE_COUNTS: counts, ...eachFile };
    await step(`the suite on ${release}`, async () => {
      // A named file may be one that another release runs.
      const { status } = spawnSync("vitest", ["run", "--passWithNoTests", "--config", config, ...files], {
        stdio: "inherit",
        env,
      });
      const seen = existsSync(counts) ? (JSON.parse(readFileSync(counts, "utf8")) as typeof total) : undefined;
      total.passed += seen?.passed ?? 0;
      total.skipped += seen?.skipped ?? 0;
      // A run that ends before it writes its counts has failed.
      total.failed += Math.max(seen?.failed ?? 1, status === 0 ? 0 : 1);
    });
  }
  rmSync(folder, { recursive: true });
  if (total.passed + total.failed + total.skipped === 0) {
    console.log(`failed: no test file matches ${files.join(" ")}`);
    total.failed = 1;
  }
  console.log(`${total.passed} passed, ${total.failed} failed${total.skipped > 0 ? `, ${total.skipped} skipped` : ""}`);
  process.exitCode = total.failed > 0 ? 1 : 0;
});
