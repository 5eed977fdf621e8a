import { hostSuite } from "../hosts-config.ts";

/** `npm run test:upgrade`: a host of Debian 12 becomes one of Debian 13, by the packages of lab/upgrade.ts. */
export default hostSuite({ folder: "test/hosts/upgrade", patience: [600, 400] });
