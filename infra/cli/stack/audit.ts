/**
 * `pulumi preview` as an audit. Where a git host's token is in the environment, it compares the webhooks, too. With --json
 * each line is a Drift (contract.ts):
 *
 * - on a host: `layer` is the host's, `item` a path, a fact's name or "stamp", `kind` one of contents, fact, missing, mode,
 *   stamp, type, undeclared. Before a layer's first `up`, and where only its program differs, the layer is one item, whose
 *   `kind` is the step: create, update or delete. A host that is down is one item, "ssh", of the kind unreachable;
 * - at Cloudflare: `layer` is a resource of the program, such as "custom rules", `item` a rule or a property, `kind` one of
 *   missing, order, property, undeclared, or the step;
 * - "published ranges": each range that its owner, `before`, sends from and the hosts do not admit;
 * - "webhook": `item` is the hook, with the setting that differs.
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { printable } from "../../../service/printable.ts";
import type { Drift, DriftItem } from "../../contract.ts";
import { orUserError, UserError } from "../../user-error.ts";
import { command, type Options, ofStack } from "../command.ts";
import { type Endpoint, endpointsOf, nameOfEndpoint } from "../endpoints.ts";
import { pulumi, readStack } from "../stack.ts";
import { assertOneOrigin, clientOf, drift, textOf } from "../webhook/webhooks.ts";
import { readPreviewed } from "./previewed.ts";

/** Exit statuses, as the program's help has them. */
const [drifted, failed] = [7, 1];

export const audit = command({
  takes: ["json"],
  examples: [
    ["audit", "exits 0 if all is as declared, 7 on drift, 1 if it could not look; changes nothing"],
    ["audit --json", "one line for each item that differs: host, layer, item, kind, before, after"],
  ],
}).action(async (options: Options) => {
  const { code, items } = await preview(options);
  const webhooks = await auditWebhooks(options);
  const all = [...items, ...webhooks.items];
  // Pulumi's display, and what could not be looked at, are then on standard error.
  if (options.json) for (const item of all) console.log(printable(JSON.stringify(item)));
  const found = webhooks.failed ? failed : all.length > 0 ? drifted : 0;
  const isDown = items.some(({ kind }) => kind === "unreachable");
  process.exitCode = isDown ? failed : code === 0 ? found : (code ?? failed);
});

async function preview(options: Options): Promise<{ code: number | null; items: Drift[] }> {
  const folder = mkdtempSync(join(tmpdir(), "pushgate-audit-"));
  try {
    const log = join(folder, "events");
    // --run-program: the engine reads Cloudflare with the token of the configuration, not with that of the last `up`.
    const args = ["preview", "--run-program", "--expect-no-changes", "--diff", "--event-log", log, ...ofStack(options)];
    // The variable admits --event-log, which Pulumi's Automation API has, too.
    const how = { shown: options.json ? 2 : 1, env: { PULUMI_DEBUG_COMMANDS: "true" } } as const;
    const { code } = await pulumi(args, how);
    return { code, items: existsSync(log) ? await readPreviewed(log) : [] };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function auditWebhooks(options: Options): Promise<{ failed: boolean; items: Drift[] }> {
  const { hosts, hooks } = await readStack(ofStack(options));
  const isServed = hosts.some(({ state }) => state === "present");
  if (!isServed || !hooks.some((hook) => clientOf(hook) !== undefined)) return { failed: false, items: [] };
  assertOneOrigin(hooks);
  const { endpoints } = await endpointsOf(undefined, options);
  const say = options.json ? console.error : console.log;
  say("Webhooks:");
  const all = await Promise.all(
    endpoints
      .filter(({ hook }) => clientOf(hook))
      .map(async (endpoint) => {
        const found = await orUserError(driftOf(endpoint));
        const fix = `. Run npx pushgate hook ${endpoint.hook.name} --set.`;
        const texts = found instanceof UserError ? [] : found.map(({ text }) => text);
        const state = texts.length > 0 ? texts.join("; ") + fix : "as declared";
        say(`  ${nameOfEndpoint(endpoint)}: ${found instanceof UserError ? found.message : state}`);
        return { endpoint, found };
      }),
  );
  return {
    failed: all.some(({ found }) => found instanceof UserError),
    items: all.flatMap(({ endpoint: { host }, found }) =>
      found instanceof UserError ? [] : found.map(({ text: _, ...item }) => ({ host, layer: "webhook", ...item })),
    ),
  };
}

async function driftOf(endpoint: Endpoint): Promise<DriftItem[]> {
  const client = clientOf(endpoint.hook)!;
  const { name: item } = endpoint.hook;
  const [own, ...more] = await client.own(endpoint);
  if (own === undefined) return [{ item, kind: "missing", before: null, after: endpoint.url, text: "missing" }];
  const urls = more.map(({ url }) => url);
  const others = { item, kind: "undeclared", before: urls, after: null, text: `${more.length} more lead there` };
  return [
    ...drift(client, own, endpoint).map((one) => ({
      ...{ item: `${item}: ${one.name}`, kind: "property", before: one.before, after: one.after, text: textOf(one) },
    })),
    ...(more.length > 0 ? [others] : []),
  ];
}
