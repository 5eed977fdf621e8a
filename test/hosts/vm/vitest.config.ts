import { hostSuite } from "../hosts-config.ts";

/** `npm run test:vm`: limits that only a kernel with its own control groups enforces, on a slow, emulated processor. */
export default hostSuite({ folder: "test/hosts/vm", patience: [400, 600] });
