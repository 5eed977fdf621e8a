import { hostSuite } from "../hosts-config.ts";

/**
 * `npm run test:rebuild`. The lab's in-house service has one address, which hostile.test.ts has meanwhile, so units is
 * apart as well; the others wait for pauses and debounces, not for a core.
 */
export default hostSuite({ folder: "test/hosts/rebuild", alone: ["measure", "units"], patience: [180, 300] });
