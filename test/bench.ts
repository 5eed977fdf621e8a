/**
 * `npm run bench -- [--rounds N] [--node path] [--json] [--write]`: the receiver's bundle, with
 * every protection on, beside other servers that check the same deliveries. The server has one core, the client another.
 * --write stores table and plot in docs.
 */
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { measure } from "./bench/measure.ts";
import { cpu, type Report, starts, store, table, times } from "./bench/report.ts";
import { bundleAll, coldStart, peers, pin, startAll } from "./bench/servers.ts";
import { misused, optionsOf } from "./options.ts";

const values = optionsOf("bench", {
  rounds: { type: "string", default: "15" },
  node: { type: "string", default: process.execPath },
  json: { type: "boolean", default: false },
  write: { type: "boolean", default: false },
});
const rounds = Number(values.rounds);
if (!(rounds >= 1)) misused("bench", "use a number from 1 for --rounds");
const say = (text: string) => void console.error(`bench: ${text}`);

const hasWebhook = !spawnSync("webhook", ["-version"]).error;
if (!hasWebhook) say("adnanh/webhook is skipped: the program webhook is missing. Run apt-get install webhook.");
const present = peers.filter(({ program }) => program !== "webhook" || hasWebhook);
pin();
const bundles = await bundleAll();
try {
  const expressEmpty = await coldStart("express-empty", values.node, bundles, 7);
  const servers = await measure(() => startAll(present, values.node, bundles), { rounds, say });
  const node = spawnSync(values.node, ["--version"], { encoding: "utf8" }).stdout.trim();
  const report: Report = { node, rounds, servers, expressEmpty };
  const figures = [`Node ${node}, ${rounds} rounds.`, table(report), starts(report), cpu(report), times(report)].join(
    "\n\n",
  );
  console.log(values.json ? JSON.stringify(report, null, 2) : figures);
  if (values.write) store(figures, report);
} finally {
  rmSync(bundles.folder, { recursive: true, force: true });
}
