/**
 * `npm run demo`: every layer's no, on the program's own declarations and the real receiver. For each layer an attack,
 * what stops it, and what it reaches when that one protection is taken away; then, where git and hugo are there, a push
 * that becomes a page. Needs Node alone. `--json` prints the layers' rows as one array; exit 1 when one is not as
 * declared, or a page is not the one that was pushed.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { styleText } from "node:util";
import { type Chain, type Outcome, walk } from "./demo/chain.ts";
import { cannotPublish, startPublishing } from "./demo/publish.ts";
import { renderedChain } from "./demo/rendered-chain.ts";
import { delivery } from "./fakes/deliveries.ts";
import type { Files } from "./fakes/git-repository.ts";
import { example } from "./fixtures.ts";
import { evaluate } from "./infra/evaluate.ts";
import { incident, type Scenario, scenarios } from "./scenarios.ts";
import { says, siteFiles } from "./service/builder/hugo-site.ts";
import { bundled, hollowSignature } from "./service/bundles.ts";
import { startReceiver } from "./service/receiver-process.ts";

type Seen = { status: number; stoppedBy: string };
type Row = Pick<Scenario, "layer" | "declaredIn" | "attack" | "how"> & { with: Seen; without: Seen };

const json = process.argv.includes("--json");
const say = (text = "") => json || console.log(text);
const seen = ({ status, stoppedBy }: Outcome): Seen => ({ status, stoppedBy });
const same = (a: Seen, b: Seen) => a.status === b.status && a.stoppedBy === b.stoppedBy;

const folder = mkdtempSync(join(tmpdir(), "pushgate-demo-"));
const faults: string[] = [];
const rows: Row[] = [];

const declared = await evaluate();
const full = join(folder, "receiver.cjs");
const hollow = join(folder, "unverifying.cjs");
await Promise.all([bundled("receiver", full), bundled("receiver", hollow, hollowSignature)]);
const [receiver, unverifying] = await Promise.all([startReceiver(full, example), startReceiver(hollow, example)]);

try {
  const chain: Chain = renderedChain(declared, receiver.deliver);

  say(`One push, ${declared.length} declared resources, nine layers.\n`);
  const good = await walk(chain, delivery());
  if (!same(good, { status: 202, stoppedBy: "nobody" }))
    faults.push(`a good push is answered ${good.status} by ${good.stoppedBy}`);
  say(`  a push from GitHub, signed     ${shown(good)}\n`);

  for (const scenario of scenarios(unverifying.deliver)) {
    const opened = scenario.opened?.(chain) ?? chain;
    const kept = receiver.spooled();
    const standing = await walk(opened, scenario.delivery(), scenario.way);
    if (standing.status >= 400 && receiver.spooled() !== kept)
      faults.push(`${scenario.layer}: refused, and still something was spooled`);
    const removed = await walk(scenario.removal.of(opened), scenario.delivery(), scenario.way);
    const { layer, declaredIn, attack, how } = scenario;
    rows.push({ layer, declaredIn, attack, how, with: seen(standing), without: seen(removed) });
    if (!same(standing, scenario.with))
      faults.push(`${layer}: stands, and the attack is answered ${standing.status} by ${standing.stoppedBy}`);
    if (!same(removed, scenario.without))
      faults.push(
        `${layer}: ${scenario.removal.says}, and the attack is answered ${removed.status} by ${removed.stoppedBy}`,
      );
    say(`${styleText("bold", layer.padEnd(18))} ${styleText("dim", `${declaredIn}, ${how}`)}`);
    say(`  ${attack}`);
    say(`    as declared                  ${shown(standing)}`);
    say(`    ${scenario.removal.says.padEnd(28)} ${shown(removed)}\n`);
  }

  say(styleText("bold", "The incident"));
  const open = incident.opened!(chain);
  const before = await walk({ ...open, zone: { ...open.zone, rulesets: [] } }, incident.delivery());
  const after = await walk(open, incident.delivery());
  say(`  Bot management on, no rule of ours, the signature correct, the source GitHub's:`);
  say(`    the git host shows           ${shown(before)}`);
  say(`    the proxy's log              ${before.logs.proxy === 0 ? "empty" : `${before.logs.proxy} lines`}`);
  say(`    the receiver's journal       ${before.logs.receiver === 0 ? "empty" : `${before.logs.receiver} lines`}`);
  say(`  The declared rules in place:   ${shown(after)}\n`);
  if (!same(before, { status: 403, stoppedBy: "3 bots" }) || before.logs.proxy + before.logs.receiver > 0)
    faults.push("the incident is not the incident");
  if (!same(after, { status: 202, stoppedBy: "nobody" })) faults.push("the declared rules do not cure the incident");

  // A row is a layer that says no; this one is the yes at the end, for a person to see.
  if (!json) await rebuild(chain);
} finally {
  await Promise.all([receiver.stop(), unverifying.stop()]);
  rmSync(folder, { recursive: true, force: true });
}

if (json) console.log(JSON.stringify(rows, null, 2));
else if (faults.length === 0)
  console.log(`${rows.length} layers, each stops its attack and is missed when it is gone.`);
for (const fault of faults) console.error(`not as declared: ${fault}`);
process.exit(faults.length > 0 ? 1 : 0);

/** The end of it: pushes to a real repository, their deliveries through the chain, a page. */
async function rebuild(chain: Chain): Promise<void> {
  say(`${styleText("bold", "9 rebuild")}          ${styleText("dim", "service/builder, real; git over https, hugo")}`);
  const absent = cannotPublish();
  if (absent !== undefined) {
    say(`  no page is shown: ${absent}\n`);
    return;
  }
  const publishing = await startPublishing({ spool: receiver.spool("site") });
  const push = async (what: string, files: Files, result: string, page: string): Promise<void> => {
    const commit = publishing.repository.push(files);
    const answered = await walk(chain, delivery());
    const { last } = await publishing.build();
    const read = /revision \d+/.exec(publishing.page())?.[0];
    say(`  ${what.padEnd(30)} ${shown(answered)}`);
    say(`    commit ${commit.slice(0, 12).padEnd(21)} ${last.result}, ${last.milliseconds.total} ms: ${last.reason}`);
    say(`    the page reads               ${read}\n`);
    if (answered.status !== 202 || last.result !== result || read !== page)
      faults.push(`9 rebuild: ${what}: ${answered.status}, ${last.result}: ${last.reason}; the page reads ${read}`);
  };
  try {
    await push("a push with a site", siteFiles(1), "published", says(1));
    await push("a push that changes layouts", siteFiles(2), "published", says(2));
    await push("a push that changes README.md", { "README.md": "read me\n" }, "nothing", says(2));
  } finally {
    await publishing.close();
  }
}

function shown({ status, stoppedBy }: Outcome): string {
  const code = status === 0 ? "silence" : String(status);
  return stoppedBy === "nobody" ? styleText("green", `${code} accepted`) : `${styleText("red", code)}  by ${stoppedBy}`;
}
