import { hostSuite } from "../hosts-config.ts";

/** `npm run test:rebuild`. The files mostly wait for pauses, not for a core; `measure` measures time, so it runs alone. */
export default hostSuite({
  folder: "test/hosts/rebuild",
  order: ["units", "push", "hostile", "faults"],
  alone: ["measure"],
  // Each release runs git, Hugo, the sandboxes and the accounts: adopt, folders, hostile, push, units.
  only: { bookworm: ["drift", "life", "measure"], trixie: ["bounds", "faults", "metrics", "own-content", "results"] },
  patience: [300, 400],
});
