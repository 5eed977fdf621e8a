/**
 * The files of `npm test` share a process, so that a library is loaded once: each start costs up to a second of a core.
 * Each file loads sources of its own, as the state and the mocks of one would reach the next.
 */
import { vi } from "vitest";

vi.resetModules();
