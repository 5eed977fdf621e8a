import { hostSuite } from "../hosts-config.ts";

/** `npm run test:rebuild`. The files mostly wait for pauses, not for a core; `measure` measures time, so it runs alone. */
export default hostSuite({
  folder: "test/hosts/rebuild",
  order: ["units", "push", "faults", "hostile"],
  alone: ["measure"],
  // Each release runs the sandboxes, the accounts, git and Hugo: folders, push, units. Bookworm has the older of each.
  only: {
    bookworm: ["adopt", "drift", "hostile", "life", "measure"],
    trixie: ["bounds", "faults", "metrics", "own-content", "results"],
  },
  patience: [300, 400],
});
