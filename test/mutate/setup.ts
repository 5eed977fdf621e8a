/**
 * Leaves out the tests that measure time or memory, of which Stryker's code takes more, that read the sources, or that wait
 * for a time limit. Of the builder also files that take half of its time, with floods, kills and full disks: a score
 * without them is a lower bound.
 */
import { beforeEach, vi } from "vitest";

const leftOut = [
  "with signed bodies of 5 MB",
  "a body in chunks of one byte is held once",
  "a comparison that takes longer for a better guess",
  "the probe ends the facts of a layer after 15 seconds",
];

const leftOutFiles = ["bounds", "disk-full", "exchange", "kill", "replays"].map(
  (name) => `/service/builder/${name}.test.ts`,
);

beforeEach(({ task, skip }) => {
  const byFile = leftOutFiles.some((file) => task.file.filepath.endsWith(file));
  skip(byFile || leftOut.some((name) => task.fullTestName.includes(name)));
});

// All files run in one process, each with sources of its own: the state and the mocks of one would reach the next.
vi.resetModules();
