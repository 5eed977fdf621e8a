import { hostSuite } from "../hosts-config.ts";

/** `npm run test:edge`: the client certificate changes during deliveries, and the canary reports a blocked origin. */
export default hostSuite({ folder: "test/hosts/edge", patience: [120, 240] });
