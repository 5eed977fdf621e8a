import { hostSuite } from "../hosts-config.ts";

/** `npm run test:vm`: what only a kernel with control groups of its own can show. Emulated, and as slow as that. */
export default hostSuite({ folder: "test/hosts/vm", patience: [400, 600] });
