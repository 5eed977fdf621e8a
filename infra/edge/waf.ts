/**
 * Layer 2, for the hostnames of hooks: a signed delivery skips whatever would challenge it, all else but the canary is
 * blocked. The expressions use only what every plan has and what is known to be false for an absent header:
 * `any(starts_with(H[*], …))` is false then, but `H[0] ne ""` and `all(…)` are true.
 */
import { type GitHost, gitHosts } from "../../service/git-hosts/index.ts";
import { hookHostnames, sourceSets } from "../config/derived.ts";
import type { GitHostName, Hook, Settings } from "../config/settings.ts";
import { canaryPath, webhookPath } from "../contract.ts";
import { type Rule, rule, set } from "./zone/phase.ts";

function signed({ header, prefix, length }: GitHost["signatures"][number]): string {
  const values = `http.request.headers["${header}"]`;
  const begins = prefix === "" ? `any(${values}[*] ne "")` : `any(starts_with(${values}[*], "${prefix}"))`;
  return length === undefined ? begins : `${begins} and len(${values}[0]) eq ${length}`;
}

const anyOf = (terms: readonly string[]): string => (terms.length === 1 ? terms[0]! : `(${terms.join(" or ")})`);

/** For the hooks of one git host and one set of sources: a git host's ranges open no other git host's hook. */
function clause(gitHost: GitHostName, hooks: readonly Hook[], cidrs: readonly string[]): string {
  const paths = set(hooks.map(({ name }) => webhookPath(name)));
  const shapes = anyOf(gitHosts[gitHost].signatures.map(signed));
  return `(http.request.uri.path in ${paths} and ${shapes} and ip.src in {${cidrs.join(" ")}})`;
}

/** No query: a hook's URL has none, and a git host that put its payload there would not sign a body. */
function delivery(settings: Settings): string {
  const clauses = sourceSets(settings).flatMap(({ hooks, cidrs }) =>
    [...Map.groupBy(hooks, ({ gitHost }) => gitHost)].map(([gitHost, alike]) => clause(gitHost, alike, cidrs)),
  );
  const here = `ssl and http.request.method eq "POST" and http.host in ${set(hookHostnames(settings))}`;
  return `(${here} and http.request.uri.query eq "" and ${anyOf(clauses)})`;
}

/** nginx answers it and passes it to nothing. It proves that a request reaches the host. */
const canary = `(ssl and http.request.method eq "GET" and http.request.uri.path eq "${canaryPath}")`;

export function customRules(settings: Settings): Rule[] {
  const names = hookHostnames(settings);
  if (names.length === 0) return [];
  return [
    rule("delivery", "skip", "a signed delivery meets no challenge", delivery(settings), {
      // A skip without `logging` differs at each refresh. With it, Security Events lists each delivery.
      logging: { enabled: true },
      actionParameters: {
        ruleset: "current",
        // All later phases that can be skipped. The free plan has no http_request_sbfm and accepts its name.
        phases: ["http_ratelimit", "http_request_sbfm", "http_request_firewall_managed"],
        // All products outside the rules engine that can be skipped. Bot Fight Mode cannot (bots.ts).
        products: ["bic", "hot", "rateLimit", "securityLevel", "uaBlock", "waf", "zoneLockdown"],
      },
    }),
    rule("rest", "block", "nothing else on a hostname for hooks", `(http.host in ${set(names)} and not ${canary})`),
  ];
}
