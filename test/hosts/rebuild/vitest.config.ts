import { hostSuite } from "../hosts-config.ts";

/**
 * `npm run test:rebuild`. The lab's in-house service has one address, which both units and hostile.test.ts need, so
 * units runs alone, like measure; the other files mostly wait for pauses and debounces, not for a core.
 */
export default hostSuite({ folder: "test/hosts/rebuild", alone: ["measure", "units"], patience: [180, 300] });
