/**
 * The files of `npm test` share a process, so that a module is loaded once. A file that mocks one loads all sources anew, and
 * so does the next file.
 */
import { readFileSync } from "node:fs";
import { afterAll, expect, vi } from "vitest";

if (readFileSync(expect.getState().testPath!, "utf8").includes("vi.mock(")) {
  vi.resetModules();
  afterAll(() => void vi.resetModules());
}
