// Half of a short command's time, and a tenth of a preview's, goes into reading TypeScript and the SDK. This process and
// those that it starts keep the result.
process.env.NODE_COMPILE_CACHE ??= require("node:path").join(__dirname, "../../node_modules/.cache/compile");
require("node:module").enableCompileCache?.();
