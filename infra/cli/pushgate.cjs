#!/usr/bin/env node
require("./node-version.cjs");
require("./fast-start.cjs");
// Node takes a promise that nothing can settle any more for a good end.
const unfinished = () => {
  console.error("pushgate: the command ended before its work did.");
  process.exitCode = 1;
};
process.once("beforeExit", unfinished);
import("./main.ts").then(async ({ pushgate }) => {
  process.exitCode = await pushgate(process.argv.slice(2));
  process.off("beforeExit", unfinished);
});
