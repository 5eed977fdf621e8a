/**
 * `npm run demo`: for each layer an attack, the layer that stops it as declared, and where it gets with that one
 * protection removed; then a push that becomes a page, if git, openssl and hugo are installed. It evaluates the
 * program's own declarations and runs the real receiver and builder.
 *
 * - It needs Node only, no root and no network.
 * - It exits 1 if a layer differs from its row, or a page from the pushed one.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { styleText } from "node:util";
import type { Resource } from "../infra/cli/stack/live-objects.ts";
import { type Chain, type Outcome, walk } from "./demo/chain.ts";
import { cannotPublish, startPublishing } from "./demo/publish.ts";
import { renderedChain } from "./demo/rendered-chain.ts";
import { delivery, from } from "./fakes/deliveries.ts";
import type { Files } from "./fakes/git-repository.ts";
import { example } from "./fixtures.ts";
import { evaluate } from "./infra/evaluate.ts";
import { attacks, scenarios } from "./scenarios.ts";
import { says, siteFiles } from "./service/builder/hugo-site.ts";
import { bundled, hollowSignature } from "./service/bundles.ts";
import { startReceiver } from "./service/receiver-process.ts";

const columns = 80;
const say = (text = ""): void => console.log(text);

/** Prints a label and a text beside it, wrapped at words. Green: as it should be; red: not; yellow: without a protection. */
function row(label: string, text: string, colour?: "green" | "red" | "yellow"): void {
  const width = 33;
  const lines = wrapped(text, columns - width);
  const shown = lines.map((line) => (colour === undefined ? line : styleText(colour, line)));
  say(`${label.padEnd(width)}${shown.join(`\n${" ".repeat(width)}`)}`);
}

/** Lines of at most so many characters; a longer word has a line of its own. */
function wrapped(text: string, width: number): string[] {
  const lines = [""];
  for (const word of text.split(" "))
    if (`${lines.at(-1)} ${word}`.trimStart().length <= width) lines.push(`${lines.pop()} ${word}`.trimStart());
    else lines.push(word);
  return lines.filter((line, i) => i > 0 || line !== "");
}

const paragraph = (text: string, indent = ""): void =>
  say(
    wrapped(text, columns - indent.length)
      .map((line) => indent + line)
      .join("\n"),
  );
const same = (a: Outcome, b: Outcome) => a.status === b.status && a.stoppedBy === b.stoppedBy;

const accepted: Outcome = { status: 202, stoppedBy: "none" };

const folder = mkdtempSync(join(tmpdir(), "pushgate-demo-"));
const faults: string[] = [];

const declared = await evaluate();
const full = join(folder, "receiver.cjs");
const hollow = join(folder, "unverifying.cjs");
await Promise.all([bundled("receiver", full), bundled("receiver", hollow, hollowSignature)]);
const [receiver, unverifying] = await Promise.all([startReceiver(full, example), startReceiver(hollow, example)]);

try {
  const chain: Chain = renderedChain(declared, receiver.deliver);

  say(`${declared.length} declared resources in nine layers.`);
  paragraph("Each row: the result with all layers as declared (green: as it should be), and with one removed.");
  say();
  const good = await walk(chain, delivery());
  if (!same(good, accepted)) faults.push(`a good push: ${plain(good)}`);
  row("  a signed push from GitHub", plain(good), verdict(good, accepted));
  say();
  dns(declared);

  for (const { layer, declaredIn, way, opened = (it: Chain) => it, ...scenario } of scenarios(unverifying.deliver)) {
    const { says, change, removal } = attacks[layer];
    const attacked = (chain: Chain) => walk(chain, delivery(change(from)), way);
    const kept = receiver.spooled();
    const intact = await attacked(opened(chain));
    if (intact.status >= 400 && receiver.spooled() !== kept)
      faults.push(`${layer}: the delivery was rejected, but the receiver spooled it`);
    const removed = await attacked(scenario.removed(opened(chain)));
    if (!same(intact, scenario.with)) faults.push(`${layer}: as declared: ${plain(intact)}`);
    if (!same(removed, scenario.without)) faults.push(`${layer}: ${removal}: ${plain(removed)}`);
    const how = layer === "8 receiver" ? "real" : "evaluated";
    say(`${styleText("bold", layer.padEnd(23))} ${styleText("dim", `${declaredIn}, ${how}`)}`);
    paragraph(says, "  ");
    row("    as declared", plain(intact), verdict(intact, scenario.with));
    row(`    ${removal}`, plain(removed), same(removed, scenario.without) ? "yellow" : "red");
    say();
  }

  await rebuild(chain);
} finally {
  await Promise.all([receiver.stop(), unverifying.stop()]);
  rmSync(folder, { recursive: true, force: true });
}

if (faults.length === 0)
  paragraph(
    `Layers 1 to ${cannotPublish() === undefined ? 9 : 8} do as declared, and the results of 2 to 8 change without the layer's protection.`,
  );
for (const fault of faults) console.error(`not as expected: ${fault}`);
process.exit(faults.length > 0 ? 1 : 0);

/** Pushes to a real repository, sends their deliveries through the chain, and builds the page. */
async function rebuild(chain: Chain): Promise<void> {
  say(
    `${styleText("bold", "9 builder".padEnd(23))} ${styleText("dim", "service/builder, real, with git over HTTPS and Hugo")}`,
  );
  const absent = cannotPublish();
  if (absent !== undefined) {
    paragraph(`No page is built: ${absent}`, "  ");
    say();
    return;
  }
  const publishing = await startPublishing(receiver.spool("site"));
  const push = async (what: string, files: Files, result: string, page: string): Promise<void> => {
    const commit = publishing.repository.push(files);
    const answered = await walk(chain, delivery());
    const { last } = await publishing.build();
    const read = /revision \d+/.exec(publishing.page())?.[0];
    row(`  ${what}`, plain(answered), verdict(answered, accepted));
    row(
      `    commit ${commit.slice(0, 12)}`,
      `${last.result}, ${last.milliseconds.total} ms: ${last.reason}`,
      last.result === result ? "green" : "red",
    );
    row("    the page shows", `${read}`, read === page ? "green" : "red");
    say();
    if (answered.status !== 202 || last.result !== result || read !== page)
      faults.push(`9 builder: ${what}: ${answered.status}, ${last.result}: ${last.reason}; the page shows ${read}`);
  };
  try {
    await push("a push with a site", siteFiles(1), "published", says(1));
    await push("a push that changes layouts", siteFiles(2), "published", says(2));
    await push("a push that changes README.md", { "README.md": "read me\n" }, "nothing", says(2));
  } finally {
    await publishing.close();
  }
}

function plain({ status, stoppedBy }: Outcome): string {
  if (stoppedBy === "none") return `${status} accepted`;
  if (status === 0) return `no answer, dropped by ${stoppedBy}`;
  return stoppedBy.startsWith("none: ") ? `${status} ${stoppedBy.slice(6)}` : `${status} rejected by ${stoppedBy}`;
}

function verdict(outcome: Outcome, wanted: Outcome): "green" | "red" {
  return same(outcome, wanted) ? "green" : "red";
}

/** Layer 1 rejects nothing: what matters is that no record shows a host's address. */
function dns(declared: readonly Resource[]): void {
  const records = declared.filter(({ type }) => type === "cloudflare:index/dnsRecord:DnsRecord");
  const open = records.filter(({ inputs }) => inputs.proxied !== true);
  const names = [...new Set(records.map(({ inputs }) => String(inputs.name)))].join(" and ");
  if (records.length === 0 || open.length > 0) faults.push(`1 DNS: ${open.length} of ${records.length} not proxied`);
  say(`${styleText("bold", "1 DNS".padEnd(23))} ${styleText("dim", "infra/edge/dns.ts, evaluated")}`);
  paragraph(`a visitor looks up ${names}`, "  ");
  row("    as declared", "Cloudflare's addresses, not the host's", open.length === 0 ? "green" : "red");
  say();
}
