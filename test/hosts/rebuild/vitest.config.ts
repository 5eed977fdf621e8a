import { hostSuite } from "../hosts-config.ts";

/**
 * `npm run test:rebuild`. The files mostly wait for pauses, not for a core; `measure` measures time, so it runs alone.
 * The longest start first, so that no single file runs alone at the end.
 */
export default hostSuite({
  folder: "test/hosts/rebuild",
  order: ["units", "push", "options", "hostile"],
  alone: ["measure"],
  // folders, push and units run on both releases: they show the sandboxes, the accounts, git and Hugo.
  // gitea and tools meet the git host and releases, which are the same on both: trixie has fewer minutes of its own.
  only: {
    bookworm: ["drift", "life", "measure"],
    trixie: ["gitea", "half-state", "hostile", "options", "tools"],
  },
  patience: [300, 400],
});
