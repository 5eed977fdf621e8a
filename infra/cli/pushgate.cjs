#!/usr/bin/env node
require("./node-version.cjs");
require("./fast-start.cjs");
import("./main.ts").then(async ({ pushgate }) => {
  process.exitCode = await pushgate(process.argv.slice(2));
});
