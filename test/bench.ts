/**
 * `npm run bench -- [--rounds N] [--node path]`: the receiver's bundle, with every protection on, beside other servers that
 * check the same deliveries. The server has one core, the client another.
 */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { measure } from "./bench/measure.ts";
import { bundleAll, pin, startAll } from "./bench/servers.ts";
import { misused, optionsOf } from "./options.ts";

const values = optionsOf("bench", {
  rounds: { type: "string", default: "15" },
  node: { type: "string", default: process.execPath },
});
const rounds = Number(values.rounds);
if (!(rounds >= 1)) misused("bench", "use a number from 1 for --rounds");
pin();
const bundles = await bundleAll();
try {
  console.log(`Node ${spawnSync(values.node, ["--version"], { encoding: "utf8" }).stdout.trim()}`);
  console.log(await measure(() => startAll(values.node, bundles), rounds));
} finally {
  rmSync(bundles, { recursive: true, force: true });
}
