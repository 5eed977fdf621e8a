/**
 * Leaves out the tests that measure time or memory, of which Stryker's code takes more, that read the sources, or that wait
 * for a time limit. Of the builder also the tests that take half of its time, with floods, kills and full disks: a score
 * without them is a lower bound.
 */
import { beforeEach, vi } from "vitest";

const leftOut = [
  "with signed bodies of 5 MB",
  "a body in chunks of one byte is held once",
  "a comparison that takes longer for a better guess",
  "the probe ends the facts of a layer after 15 seconds",
  "forced pushes do not add up in the clone",
  "former releases go where the site has no room",
  "that writes more than its site may take",
  "200 KiB of nested folders",
  "files are larger than a release",
  "publishes nothing of what the link leads to",
  "10,000 replays",
  "evenly spread kills",
  "after 20 kills",
  "that writes too many files",
  "that writes too many bytes",
  "has come, and makes no release",
];

beforeEach(({ task, skip }) => skip(leftOut.some((name) => task.fullTestName.includes(name))));

// All files run in one process, each with sources of its own: the state and the mocks of one would reach the next.
vi.resetModules();
