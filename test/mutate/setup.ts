/** Leaves out the tests that measure time or memory: Stryker's code in the sources takes more of both. */
import { beforeEach, vi } from "vitest";

const measured = ["with signed bodies of 5 MB", "a body in chunks of one byte is held once"];

beforeEach(({ task, skip }) => skip(measured.some((name) => task.fullTestName.includes(name))));

// All files run in one process, each with sources of its own: the state and the mocks of one would reach the next.
vi.resetModules();
