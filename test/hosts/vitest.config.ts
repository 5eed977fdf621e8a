import { hostSuite } from "./hosts-config.ts";

/**
 * `npm run test:host`. The longest files first, so that none is left to run by itself at the end; but of those that
 * begin with a copy of the deployed machine one alone, as the others would wait for it while a core is free.
 */
export default hostSuite({
  folder: "test/hosts/suite",
  order: ["drift", "refusals", "neighbours", "hosts", "reboot", "up", "leave", "secrets", "matrix"],
  alone: ["audit", "load"],
  patience: [120, 240],
});
