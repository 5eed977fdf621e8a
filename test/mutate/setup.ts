/** Leaves out the tests that measure time or memory, of which Stryker's code takes more, or that read the sources. */
import { beforeEach, vi } from "vitest";

const leftOut = [
  "with signed bodies of 5 MB",
  "a body in chunks of one byte is held once",
  "a comparison that takes longer for a better guess",
];

beforeEach(({ task, skip }) => skip(leftOut.some((name) => task.fullTestName.includes(name))));

// All files run in one process, each with sources of its own: the state and the mocks of one would reach the next.
vi.resetModules();
