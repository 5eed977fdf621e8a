import { hostSuite } from "./hosts-config.ts";

/**
 * `npm run test:host`. The longest files start first, so that no single file runs alone at the end. Only one file that
 * copies the deployed host starts early: the others would wait for the original while a core is free.
 */
export default hostSuite({
  folder: "test/hosts/suite",
  order: ["leave", "drift", "up", "refusals", "trace", "hosts", "reboot"],
  alone: ["flood", "load"],
  // flood loads bookworm's older nginx and Node. trixie has systemd 257, which keeps a former list in force (load,
  // trace), the boot order in which a host without IPv6 once started degraded (hosts), and the newer journal, which
  // trace reads. The rehearsal sends matrix's attacks on bookworm. The others share the time of the two releases.
  only: {
    bookworm: ["flood", "refusals"],
    trixie: ["hosts", "load", "matrix", "trace"],
  },
  patience: [300, 400],
});
