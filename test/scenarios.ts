/**
 * One table of deliveries, attacks and faults, read by the tests, the demo and the rehearsal: for each layer an attack
 * that this layer alone stops. `opened` names what must be wrong before it for the attack to get that far; `removal`
 * is the protection that is then taken away, and `passed` is what the attack meets behind it.
 */
import { foreignWorker } from "../infra/networks.ts";
import type { Chain, Way } from "./demo/chain.ts";
import type { Rule } from "./fakes/cloudflare/zone.ts";
import { type Change, type Delivery, delivery, from } from "./fakes/deliveries.ts";

/** A layer's number and name, as design and README count them. */
export type LayerName = "2 waf" | "3 bots" | "4 origin" | "5 firewall" | "6 proxy" | "7 service manager" | "8 receiver";

/** Addresses an attack is sent from: those of deliveries.ts, or a lab's own. */
export type Places = { readonly github: string; readonly stranger: string };

type Attack = {
  readonly says: string;
  /** What a good push must be changed in; one that is good needs a way of its own to be an attack. */
  readonly change: (from: Places) => Change;
  /** The protection that is taken away. */
  readonly removal: string;
};

/** For each layer the attack that it alone stops: evaluated here, sent for real by the host suite. */
export const attacks: Readonly<Record<LayerName, Attack>> = {
  "2 waf": {
    says: "a scanner asks the hooks' hostname for /.env",
    change: ({ stranger }) => ({
      method: "GET",
      path: "/.env",
      source: stranger,
      signature: null,
      body: Buffer.alloc(0),
      headers: { "user-agent": "Mozilla/5.0" },
    }),
    removal: "no rule that blocks the rest",
  },
  "3 bots": {
    says: "bot management takes the git host's own delivery, correctly signed, for a bot",
    change: ({ github }) => ({ source: github }),
    removal: "no rules of ours",
  },
  "4 origin": {
    says: "another machine answers at the origin's address, with a certificate of its own making",
    change: ({ github }) => ({ source: github }),
    removal: "TLS not strict",
  },
  "5 firewall": {
    says: "a stranger connects to the origin port directly, past the edge",
    change: ({ stranger }) => ({ source: stranger }),
    removal: "no drop",
  },
  "6 proxy": {
    says: "another customer's worker sends from the edge's own addresses, without this zone's client certificate",
    change: ({ github }) => ({ source: github }),
    removal: "no client certificate asked",
  },
  "7 service manager": {
    says: "a leaked secret: a valid signature from outside the git host's ranges, the edge's rules deleted",
    change: ({ stranger }) => ({ source: stranger }),
    removal: "no IPAddressDeny=",
  },
  "8 receiver": {
    says: "somebody else's repository on the same git host sends a push signed with another secret",
    change: ({ github }) => ({ source: github, secret: "a secret of somebody else's, long enough" }),
    removal: "no signature check",
  },
};

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

const evaluated = (layer: LayerName) => ({
  attack: attacks[layer].says,
  how: "evaluated" as const,
  delivery: () => delivery(attacks[layer].change(from)),
});

/** The incident this project began with. */
export const incident: Scenario = {
  layer: "3 bots",
  declaredIn: "infra/edge/waf.ts, infra/edge/bots.ts",
  ...evaluated("3 bots"),
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
      ...evaluated("2 waf"),
      removal: { says: attacks["2 waf"].removal, of: withoutAction("block") },
      with: { status: 403, stoppedBy: "2 waf" },
      without: { status: 404, stoppedBy: "6 proxy" },
    },
    { ...incident, removal: { says: attacks["3 bots"].removal, of: edgeOpen } },
    {
      layer: "4 origin",
      declaredIn: "infra/edge/origin.ts",
      ...evaluated("4 origin"),
      opened: (chain) => ({ ...chain, impostor: true }),
      removal: { says: attacks["4 origin"].removal, of: rules("http_config_settings", () => []) },
      with: { status: 526, stoppedBy: "4 origin" },
      without: { status: 200, stoppedBy: "nobody: the impostor has it" },
    },
    {
      layer: "5 firewall",
      declaredIn: "infra/host/firewall/firewall.ts",
      ...evaluated("5 firewall"),
      way: { through: "origin port", peer: from.stranger },
      removal: {
        says: attacks["5 firewall"].removal,
        of: (chain) => ({ ...chain, firewall: edit(chain.firewall, /^.*counter name not_edge drop$/m, "") }),
      },
      with: { status: 0, stoppedBy: "5 firewall" },
      without: { status: 400, stoppedBy: "6 proxy" },
    },
    {
      layer: "6 proxy",
      declaredIn: "infra/host/proxy/proxy.ts",
      ...evaluated("6 proxy"),
      way: { through: "foreign edge", client: foreignWorker },
      removal: {
        says: attacks["6 proxy"].removal,
        of: (chain) => ({ ...chain, proxy: edit(chain.proxy, "ssl_verify_client on;", "ssl_verify_client off;") }),
      },
      with: { status: 400, stoppedBy: "6 proxy" },
      without: { status: 403, stoppedBy: "7 service manager" },
    },
    {
      layer: "7 service manager",
      declaredIn: "infra/host/receiver/receiver.ts",
      ...evaluated("7 service manager"),
      opened: edgeOpen,
      removal: {
        says: attacks["7 service manager"].removal,
        of: (chain) => ({ ...chain, socket: (port) => edit(chain.socket(port), /^IPAddressDeny=any$/m, "") }),
      },
      with: { status: 403, stoppedBy: "7 service manager" },
      without: { status: 202, stoppedBy: "nobody" },
    },
    {
      layer: "8 receiver",
      declaredIn: "service/receiver/app.ts",
      ...evaluated("8 receiver"),
      how: "real",
      removal: { says: attacks["8 receiver"].removal, of: (chain) => ({ ...chain, receiver: unverifying }) },
      with: { status: 401, stoppedBy: "8 receiver" },
      without: { status: 202, stoppedBy: "nobody" },
    },
  ];
}
