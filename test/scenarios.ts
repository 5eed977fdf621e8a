/**
 * One table of deliveries, attacks and faults, read by the tests, the demo and the rehearsal: for each layer an attack
 * that this layer alone stops. `opened` names what must be wrong before it for the attack to get that far; `removal`
 * is the protection that is then taken away, and `passed` is what the attack meets behind it.
 */
import { foreignWorker } from "../infra/networks.ts";
import type { Chain, Way } from "./chain.ts";
import { type Delivery, delivery, from } from "./deliveries.ts";
import type { Rule } from "./edge/zone.ts";

/** A layer's number and name, as design and README count them. */
export type LayerName = "2 waf" | "3 bots" | "4 origin" | "5 firewall" | "6 proxy" | "7 service manager" | "8 receiver";

type Expected = { readonly status: number; readonly stoppedBy: string };

export type Scenario = {
  readonly layer: LayerName;
  readonly declaredIn: string;
  readonly attack: string;
  /** Whether the layer is the real thing in the demo, or evaluated from what is declared and rendered. */
  readonly how: "real" | "evaluated";
  readonly delivery: () => Delivery;
  readonly way?: Way;
  readonly opened?: (chain: Chain) => Chain;
  readonly removal: { readonly says: string; readonly of: (chain: Chain) => Chain };
  readonly with: Expected;
  readonly without: Expected;
};

const rules =
  (phase: string, change: (rules: Rule[]) => Rule[]) =>
  (chain: Chain): Chain => ({
    ...chain,
    zone: {
      ...chain.zone,
      rulesets: chain.zone.rulesets.map((ruleset) =>
        ruleset.phase === phase ? { ...ruleset, rules: change(ruleset.rules) } : ruleset,
      ),
    },
  });

const customRules = (change: (rules: Rule[]) => Rule[]) => rules("http_request_firewall_custom", change);
const withoutAction = (action: string) => customRules((all) => all.filter((rule) => rule.action !== action));

/** The fault that lets every source through the edge's rules: somebody deleted both of ours. */
const edgeOpen = customRules(() => []);

/** A text edit that must find its text: a removal that removes nothing would prove nothing. */
export function edit(text: string, found: string | RegExp, replacement: string): string {
  const edited = text.replace(found, replacement);
  if (edited === text) throw new Error(`a removal found nothing to remove: ${found}`);
  return edited;
}

/** Bot management as an operator has it who fights bots: every automated client is challenged. */
export const fightingBots = (chain: Chain): Chain => ({
  ...chain,
  zone: {
    ...chain.zone,
    bot_management:
      chain.zone.plan === "free"
        ? { ...chain.zone.bot_management, fight_mode: true }
        : { ...chain.zone.bot_management, sbfm_definitely_automated: "managed_challenge" },
  },
});

/** The incident this project began with. */
export const incident: Scenario = {
  layer: "3 bots",
  declaredIn: "infra/edge/waf.ts, infra/edge/bots.ts",
  attack: "bot management takes the git host's own delivery, correctly signed, for a bot",
  how: "evaluated",
  delivery: () => delivery(),
  opened: fightingBots,
  removal: { says: "no skip rule", of: withoutAction("skip") },
  with: { status: 202, stoppedBy: "nobody" },
  // What the rest rule would block is not what happened: the incident's zone had neither of our rules.
  without: { status: 403, stoppedBy: "3 bots" },
};

/** `unverifying`: the receiver with its signature check taken out. */
export function scenarios(unverifying: Chain["receiver"]): Scenario[] {
  return [
    {
      layer: "2 waf",
      declaredIn: "infra/edge/waf.ts",
      attack: "a scanner asks the hooks' hostname for /.env",
      how: "evaluated",
      delivery: () =>
        delivery({
          method: "GET",
          path: "/.env",
          source: from.stranger,
          signature: null,
          body: Buffer.alloc(0),
          headers: { "user-agent": "Mozilla/5.0" },
        }),
      removal: { says: "no rule that blocks the rest", of: withoutAction("block") },
      with: { status: 403, stoppedBy: "2 waf" },
      without: { status: 404, stoppedBy: "6 proxy" },
    },
    { ...incident, removal: { says: "no rules of ours", of: edgeOpen } },
    {
      layer: "4 origin",
      declaredIn: "infra/edge/origin.ts",
      attack: "another machine answers at the origin's address, with a certificate of its own making",
      how: "evaluated",
      delivery: () => delivery(),
      opened: (chain) => ({ ...chain, impostor: true }),
      removal: { says: "TLS not strict", of: rules("http_config_settings", () => []) },
      with: { status: 526, stoppedBy: "4 origin" },
      without: { status: 200, stoppedBy: "nobody: the impostor has it" },
    },
    {
      layer: "5 firewall",
      declaredIn: "infra/host/firewall.ts",
      attack: "a stranger connects to the origin port directly, past the edge",
      how: "evaluated",
      delivery: () => delivery(),
      way: { through: "origin port", peer: from.stranger },
      removal: {
        says: "no drop",
        of: (chain) => ({ ...chain, firewall: edit(chain.firewall, /^.*counter name not_edge drop$/m, "") }),
      },
      with: { status: 0, stoppedBy: "5 firewall" },
      without: { status: 400, stoppedBy: "6 proxy" },
    },
    {
      layer: "6 proxy",
      declaredIn: "infra/host/proxy.ts",
      attack: "another customer's worker sends from the edge's own addresses, without this zone's client certificate",
      how: "evaluated",
      delivery: () => delivery(),
      way: { through: "foreign edge", client: foreignWorker },
      removal: {
        says: "no client certificate asked",
        of: (chain) => ({ ...chain, proxy: edit(chain.proxy, "ssl_verify_client on;", "ssl_verify_client off;") }),
      },
      with: { status: 400, stoppedBy: "6 proxy" },
      without: { status: 403, stoppedBy: "7 service manager" },
    },
    {
      layer: "7 service manager",
      declaredIn: "infra/host/receiver.ts",
      attack: "a leaked secret: a valid signature from outside the git host's ranges, the edge's rules deleted",
      how: "evaluated",
      delivery: () => delivery({ source: from.stranger }),
      opened: edgeOpen,
      removal: {
        says: "no IPAddressDeny=",
        of: (chain) => ({ ...chain, socket: (port) => edit(chain.socket(port), /^IPAddressDeny=any$/m, "") }),
      },
      with: { status: 403, stoppedBy: "7 service manager" },
      without: { status: 202, stoppedBy: "nobody" },
    },
    {
      layer: "8 receiver",
      declaredIn: "service/receiver/app.ts",
      attack: "somebody else's repository on the same git host sends a push signed with another secret",
      how: "real",
      delivery: () => delivery({ secret: "a secret of somebody else's, long enough" }),
      removal: { says: "no signature check", of: (chain) => ({ ...chain, receiver: unverifying }) },
      with: { status: 401, stoppedBy: "8 receiver" },
      without: { status: 202, stoppedBy: "nobody" },
    },
  ];
}
