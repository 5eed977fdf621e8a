#!/usr/bin/env node
require("./node-version.cjs");
require("./fast-start.cjs");
// Node takes a promise that nothing can settle any more for a good end.
const unfinished = () => {
  console.error("pushgate: the command ended before its work did.");
  process.exitCode = 1;
};
process.once("beforeExit", unfinished);
// A reader such as head leaves early. A command goes on, as it may be changing hosts; --follow and --watch end.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error) => {
    if (error.code !== "EPIPE") throw error;
  });
import("./main.ts").then(async ({ pushgate }) => {
  process.exitCode = await pushgate(process.argv.slice(2));
  process.off("beforeExit", unfinished);
});
