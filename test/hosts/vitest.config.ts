import { hostSuite } from "./hosts-config.ts";

/**
 * `npm run test:host`. The longest files start first, so that no single file runs alone at the end. Only one file that
 * copies the deployed host starts early: the others would wait for the original while a core is free.
 */
export default hostSuite({
  folder: "test/hosts/suite",
  order: ["drift", "refusals", "neighbours", "hosts", "reboot", "up", "leave", "secrets", "matrix", "trace"],
  alone: ["audit", "flood", "load"],
  // 4 minutes of load on the receiver and nginx, in which the releases differ little: bookworm has the older of both.
  only: { flood: "bookworm" },
  patience: [300, 400],
});
