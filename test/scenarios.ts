/**
 * For each layer an attack that this layer alone stops: the table of the demo, the rehearsal and the suites on hosts.
 * Each attack is sent twice, with the layer as declared and with its protection removed.
 */
import type { PathLayer } from "../infra/trace/outcomes.ts";
import type { Chain, Outcome, Way } from "./demo/chain.ts";
import { type Change, from } from "./fakes/deliveries.ts";
import { foreignWorker } from "./fixtures.ts";

/** Layers that reject deliveries. */
export type RejectingLayer = Exclude<PathLayer, "the git host" | "1 DNS">;

/** The addresses that attacks are sent from: those of deliveries.ts, or the lab's. */
export type Places = { readonly github: string; readonly stranger: string };

type Attack = {
  readonly says: string;
  /** What differs from a good push. */
  readonly change: (from: Places) => Change;
  /** What removes the protection. */
  readonly removal: string;
};

/** The demo evaluates these attacks; the suites on hosts send them to real hosts. */
export const attacks: Readonly<Record<RejectingLayer, Attack>> = {
  "2 WAF": {
    says: "a scanner requests /.env from the hooks' hostname",
    change: ({ stranger }) => ({
      method: "GET",
      path: "/.env",
      source: stranger,
      signature: null,
      body: Buffer.alloc(0),
      headers: { "user-agent": "Mozilla/5.0" },
    }),
    removal: "the blocking rule deleted",
  },
  "3 bot management": {
    says: "Cloudflare's bot management is on, and the git host sends a correctly signed delivery",
    change: ({ github }) => ({ source: github }),
    removal: "pushgate's rules deleted",
  },
  "4 Cloudflare to origin": {
    says: "another host answers at the origin's address, with a self-signed certificate",
    change: ({ github }) => ({ source: github }),
    removal: "strict TLS off",
  },
  "5 firewall": {
    says: "a stranger connects to the origin port directly, without Cloudflare",
    change: ({ stranger }) => ({ source: stranger }),
    removal: "the drop rule deleted",
  },
  "6 nginx": {
    says: "another Cloudflare customer's worker sends from Cloudflare's addresses, without this zone's client certificate",
    change: ({ github }) => ({ source: github }),
    removal: "client certificate optional",
  },
  "7 systemd": {
    says: "a stranger signs with a leaked secret, outside the git host's ranges, and Cloudflare's rules are deleted",
    change: ({ stranger }) => ({ source: stranger }),
    removal: "IPAddressDeny= deleted",
  },
  "8 receiver": {
    says: "another repository on the same git host sends a push signed with its own secret",
    change: ({ github }) => ({ source: github, secret: "the secret of another repository, long enough" }),
    removal: "signature not checked",
  },
};

type Scenario = {
  readonly layer: RejectingLayer;
  readonly declaredIn: string;
  readonly way?: Way;
  /** The fault that lets the attack reach the layer. */
  readonly opened?: (chain: Chain) => Chain;
  /** Removes the protection. */
  readonly removed: (chain: Chain) => Chain;
  readonly with: Outcome;
  readonly without: Outcome;
};

/** Deletes rules of a phase: those with this action, or all. */
const without =
  (phase: string, action?: string) =>
  (chain: Chain): Chain => {
    const rulesets = chain.zone.rulesets.map((ruleset) =>
      ruleset.phase === phase
        ? { ...ruleset, rules: ruleset.rules.filter((rule) => action !== undefined && rule.action !== action) }
        : ruleset,
    );
    return { ...chain, zone: { ...chain.zone, rulesets } };
  };

/** Both of pushgate's custom rules deleted: Cloudflare lets every source through. */
const noRules = without("http_request_firewall_custom");

/** Replaces text, and throws if the text does not contain it: a removal without effect would prove nothing. */
export function edit(text: string, found: string | RegExp, replacement: string): string {
  const edited = text.replace(found, replacement);
  if (edited === text) throw new Error(`the text to remove is missing: ${found}`);
  return edited;
}

/** Bot management that challenges every automated client. */
const fightingBots = ({ zone, ...chain }: Chain): Chain => ({
  ...chain,
  zone: { ...zone, bot_management: { ...zone.bot_management, sbfm_definitely_automated: "managed_challenge" } },
});

const stopped = (status: number, stoppedBy: string): Outcome => ({ status, stoppedBy });

/** `unverifying`: the receiver without its signature check. */
export const scenarios = (unverifying: Chain["receiver"]): Scenario[] => [
  {
    ...{ layer: "2 WAF", declaredIn: "infra/edge/waf.ts", removed: without("http_request_firewall_custom", "block") },
    ...{ with: stopped(403, "2 WAF"), without: stopped(404, "6 nginx") },
  },
  {
    // The incident that this project began with.
    ...{ layer: "3 bot management", declaredIn: "infra/edge/waf.ts, infra/edge/bots.ts", opened: fightingBots },
    removed: noRules,
    ...{ with: stopped(202, "none"), without: stopped(403, "3 bot management") },
  },
  {
    ...{ layer: "4 Cloudflare to origin", declaredIn: "infra/edge/origin.ts" },
    opened: (chain) => ({ ...chain, impostor: true }),
    removed: without("http_config_settings"),
    with: stopped(526, "4 Cloudflare to origin"),
    without: stopped(200, "none: the other host answers"),
  },
  {
    ...{ layer: "5 firewall", declaredIn: "infra/host/firewall/firewall.ts" },
    way: { through: "origin port", peer: from.stranger },
    removed: (chain) => ({ ...chain, firewall: edit(chain.firewall, /^.*counter name not_edge drop$/m, "") }),
    ...{ with: stopped(0, "5 firewall"), without: stopped(400, "6 nginx") },
  },
  {
    ...{ layer: "6 nginx", declaredIn: "infra/host/proxy/proxy.ts" },
    way: { through: "another customer", client: foreignWorker },
    removed: (chain) => ({ ...chain, proxy: edit(chain.proxy, "ssl_verify_client on;", "ssl_verify_client off;") }),
    ...{ with: stopped(400, "6 nginx"), without: stopped(403, "7 systemd") },
  },
  {
    ...{ layer: "7 systemd", declaredIn: "infra/host/receiver/receiver.ts", opened: noRules },
    removed: (chain) => ({ ...chain, socket: (port) => edit(chain.socket(port), /^IPAddressDeny=any$/m, "") }),
    ...{ with: stopped(403, "7 systemd"), without: stopped(202, "none") },
  },
  {
    ...{ layer: "8 receiver", declaredIn: "service/receiver/app.ts" },
    removed: (chain) => ({ ...chain, receiver: unverifying }),
    ...{ with: stopped(401, "8 receiver"), without: stopped(202, "none") },
  },
];
