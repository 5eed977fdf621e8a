import { hostSuite } from "../hosts-config.ts";

/** `npm run test:edge`: what the edge presents to a machine changes while deliveries go on; and whether it reaches the machine. */
export default hostSuite({ folder: "test/hosts/edge", patience: [120, 240] });
