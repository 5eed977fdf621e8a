import { hostSuite } from "./hosts-config.ts";

/**
 * `npm run test:host`. The longest files start first, so that no single file runs alone at the end. Only one file that
 * copies the deployed host starts early: the others would wait for the original while a core is free.
 */
export default hostSuite({
  folder: "test/hosts/suite",
  order: ["leave", "drift", "up", "refusals", "trace", "no-ipv6", "reboot"],
  alone: ["flood", "load"],
  // flood loads bookworm's older nginx and Node. trixie has systemd 257, which keeps a former list in force (load,
  // trace), the boot order in which a host without IPv6 once started degraded (no-ipv6), and the newer journal,
  // which trace reads. The rehearsal sends matrix's attacks on bookworm. The others share the time of the two releases.
  only: {
    bookworm: ["environment", "flood", "refusals", "upgrade"],
    trixie: ["load", "matrix", "no-ipv6", "trace"],
  },
  patience: [300, 400],
});
