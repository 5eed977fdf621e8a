import { hostSuite } from "../hosts-config.ts";

/**
 * `npm run test:rebuild`. The files mostly wait for pauses, not for a core; `measure` measures time, so it runs alone. The
 * longest start first, so that no single file runs alone at the end.
 */
export default hostSuite({
  folder: "test/hosts/rebuild",
  order: ["units", "push", "options", "hostile"],
  alone: ["measure"],
  // folders, push and units run on both releases: they show the sandboxes, the accounts, git and Hugo.
  only: { bookworm: ["drift", "life", "measure"], trixie: ["hostile", "options"] },
  patience: [300, 400],
});
