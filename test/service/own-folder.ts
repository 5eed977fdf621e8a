/** A folder for each test of a file. */
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";

export let folder: string;

export function onFolder(): void {
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "pushgate-test-"));
  });
  // Node's rmSync fails at a path of more than 4096 bytes.
  afterEach(() => void execFileSync("rm", ["-rf", folder]));
}
