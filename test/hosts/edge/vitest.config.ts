import { hostSuite } from "../hosts-config.ts";

/**
 * `npm run test:edge`: the client certificate changes during deliveries, and a person types what the documents say. .ci/run runs it beside the rehearsal. One release runs all files beside
 * documents.test.ts, which mostly waits, and takes longer than any other file of the suites.
 */
export default hostSuite({
  folder: "test/hosts/edge",
  order: ["documents"],
  only: { trixie: ["documents", "state-lost"] },
  patience: [400, 400],
});
