import { hostSuite } from "../hosts-config.ts";

/**
 * `npm run test:edge`: the client certificate changes during deliveries, the canary reports a blocked origin, and a person
 * types what the documents say. .ci/run runs it beside the rehearsal.
 */
export default hostSuite({
  folder: "test/hosts/edge",
  order: ["documents"],
  only: { bookworm: ["canary", "state-lost"], trixie: ["documents"] },
  patience: [400, 400],
});
