/**
 * Leaves out a test that measures memory, of which Stryker's code takes more, and one that reads the sources, which are
 * Stryker's here. A score without them is a lower bound.
 */
import { beforeEach } from "vitest";

const left = /a body in chunks of one byte is held once|is compared in constant time/;
beforeEach(({ task, skip }) => skip(left.test(task.fullTestName)));
