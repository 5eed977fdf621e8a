/** Leaves out a test that measures memory, of which Stryker's code takes more. A score without it is a lower bound. */
import "../vitest/fresh-modules.ts";
import { beforeEach } from "vitest";

beforeEach(({ task, skip }) => skip(task.fullTestName.includes("a body in chunks of one byte is held once")));
