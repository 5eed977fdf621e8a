#!/usr/bin/env node
// `npx pushgate`.
require("./node-version.cjs");
// Half of a short command's time goes into reading TypeScript. This process and those that it starts keep the result.
process.env.NODE_COMPILE_CACHE ??= require("node:path").join(__dirname, "../../node_modules/.cache/compile");
require("node:module").enableCompileCache();
import("./main.ts").then(async ({ pushgate }) => {
  process.exitCode = await pushgate(process.argv.slice(2));
});
