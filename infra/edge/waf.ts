/**
 * Who passes the edge: two rules for all of hooks' hostnames. A delivery skips what would challenge it; everything else
 * on the hostnames is blocked, save the canary. A published site's hostname is everybody's, and the zone's own rules
 * hold there as anywhere. Only constructs every plan has, and of those only ones whose behaviour on an absent header is
 * known: `any(starts_with(H[*], …))` is false, while `H[0] ne ""` and `all(…)` are true, a trap.
 */

import { hostnames, set, sourceSets } from "../config/derived.ts";
import { type SignatureShape, signatures } from "../config/git-hosts.ts";
import type { GitHost, Hook, Settings } from "../config/settings.ts";
import { canaryPath, webhookPath } from "../contract.ts";
import { prefix, type Rule } from "./zone/phase.ts";

type Declared = Pick<Settings, "hosts" | "hooks">;

function signed({ header, prefix, length }: SignatureShape): string {
  const values = `http.request.headers["${header}"]`;
  const begins = prefix === "" ? `any(${values}[*] ne "")` : `any(starts_with(${values}[*], "${prefix}"))`;
  return length === undefined ? begins : `${begins} and len(${values}[0]) eq ${length}`;
}

const anyOf = (terms: readonly string[]): string => (terms.length === 1 ? terms[0]! : `(${terms.join(" or ")})`);

/** Paths, signature and sources of hooks that agree in the last two: one git host's ranges open no other's hook. */
function clause(gitHost: GitHost, hooks: readonly Hook[], cidrs: readonly string[]): string {
  const paths = set(hooks.map(({ name }) => webhookPath(name)));
  const shapes = anyOf(signatures[gitHost].map(signed));
  return `(http.request.uri.path in ${paths} and ${shapes} and ip.src in {${cidrs.join(" ")}})`;
}

/** No query: pushgate's hook addresses have none, and a git host that puts its payload there signs no body. */
function delivery(settings: Declared): string {
  const clauses = sourceSets(settings).flatMap(({ hooks, cidrs }) =>
    [...Map.groupBy(hooks, ({ gitHost }) => gitHost)].map(([gitHost, alike]) => clause(gitHost, alike, cidrs)),
  );
  const here = `ssl and http.request.method eq "POST" and http.host in ${set(hostnames(settings))}`;
  return `(${here} and http.request.uri.query eq "" and ${anyOf(clauses)})`;
}

/** A request that reaches the origin and nothing behind its proxy: it lets a person prove that the way is open. */
const canary = `(ssl and http.request.method eq "GET" and http.request.uri.path eq "${canaryPath}")`;

/** In the order they run; empty where no host is left. */
export function customRules(settings: Declared): Rule[] {
  const names = hostnames(settings);
  if (names.length === 0) return [];
  return [
    {
      ref: `${prefix}delivery`,
      action: "skip",
      enabled: true,
      description: "pushgate: a signed delivery meets no challenge",
      expression: delivery(settings),
      // A skip without this shows a difference at every refresh; with it, Security Events lists each delivery.
      logging: { enabled: true },
      actionParameters: {
        // The rest of these rules, ours and the zone's own.
        ruleset: "current",
        // All later phases that can be skipped. On free there is no http_request_sbfm to skip, and no harm in it.
        phases: ["http_ratelimit", "http_request_sbfm", "http_request_firewall_managed"],
        // All products outside the rules engine that can be skipped; Bot Fight Mode is not among them (bots.ts).
        products: ["bic", "hot", "rateLimit", "securityLevel", "uaBlock", "waf", "zoneLockdown"],
      },
    },
    {
      ref: `${prefix}rest`,
      action: "block",
      enabled: true,
      description: "pushgate: nothing else on a hostname for hooks",
      expression: `(http.host in ${set(names)} and not ${canary})`,
    },
  ];
}
