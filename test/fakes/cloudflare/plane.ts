/**
 * What Cloudflare does with one request, as a function of the zone: settings and origin first, then the products in the
 * documented order; the first that terminates decides. A skip rule skips what runs after it and is on its list, and
 * nothing else: the free plan's Bot Fight Mode is on no list.
 */
import { addressLiteral } from "./address.ts";
import { compile, type Expression } from "./expression.ts";
import { type Answer, blocked, challenge, coded, custom, limited } from "./pages.ts";
import { type EdgeRequest, headerValues, isAutomated, normalisedPath } from "./request.ts";
import { type AccessRule, type DnsRecord, type Rule, rulesOf, type ZoneState } from "./zone.ts";

/** Names as Security Events gives its "source". */
export type Source =
  | "dns"
  | "ip"
  | "ipRange"
  | "firewallCustom"
  | "rateLimit"
  | "firewallManaged"
  | "sbfm"
  | "botFight"
  | "zoneLockdown"
  | "uaBlock"
  | "bic"
  | "securityLevel";

export type SecurityEvent = { readonly source: Source; readonly ref: string; readonly action: string };

/** Where and how Cloudflare connects to the origin for this request. */
export type Origin = {
  readonly records: readonly DnsRecord[];
  readonly port: number;
  readonly ssl: "off" | "flexible" | "full" | "strict" | "origin_pull";
  /** TLS to the origin: with "full" and "strict" only where the visitor came by TLS too. */
  readonly secure: boolean;
};

export type Verdict = {
  readonly action: "forward" | "block" | "challenge";
  /** The rule or product that decided; absent if forwarded. */
  readonly decidedBy?: SecurityEvent;
  /** What Cloudflare itself answers; absent if forwarded. */
  readonly answer?: Answer;
  readonly origin: Origin;
  /** As Security Events would show them: logged skips, then the decision. */
  readonly events: readonly SecurityEvent[];
};

/** Compiled once, as thousands of requests of a test meet the same few rules. */
const compiled = new Map<string, Expression>();
function compiledOnce(source: string): Expression {
  const known = compiled.get(source) ?? compile(source);
  compiled.set(source, known);
  return known;
}

type Refusal = { readonly event: SecurityEvent; readonly answer: Answer };

/** Throws ExpressionError when a rule's expression could never have been accepted. */
export function decide(zone: ZoneState, request: EdgeRequest): Verdict {
  const matching = (phase: string): Rule[] =>
    rulesOf(zone, phase).filter((rule) => rule.enabled && compiledOnce(rule.expression).matches(request));
  const settings = { ...zone.settings };
  for (const { action_parameters: set } of matching("http_config_settings")) {
    if (set?.ssl !== undefined) settings.ssl = set.ssl;
    if (set?.bic !== undefined) settings.browser_check = set.bic ? "on" : "off";
    if (set?.security_level !== undefined) settings.security_level = set.security_level;
  }
  const ports = matching("http_request_origin").flatMap((rule) => rule.action_parameters?.origin?.port ?? []);
  const ssl = settings.ssl as Origin["ssl"];
  const records = zone.dns_records.filter(
    ({ name, type, proxied }) =>
      proxied && ["A", "AAAA", "CNAME"].includes(type) && name === request.host.toLowerCase(),
  );
  const secure = ssl === "origin_pull" || ((request.ssl ?? true) && (ssl === "full" || ssl === "strict"));
  const origin: Origin = { records, ssl, secure, port: ports.at(-1) ?? (secure ? 443 : 80) };

  const skipped = { phases: [] as string[], products: [] as string[] };
  const events: SecurityEvent[] = [];
  const refuse = (source: Source, ref: string, action: string, answer: Answer): Refusal => ({
    event: { source, ref, action },
    answer,
  });

  /** Custom rules, top to bottom. */
  const customRules = (): Refusal | undefined => {
    for (const rule of matching("http_request_firewall_custom")) {
      const { action, ref, action_parameters: parameters } = rule;
      if (action === "skip") {
        skipped.phases.push(...(parameters?.phases ?? []));
        skipped.products.push(...(parameters?.products ?? []));
        if (rule.logging?.enabled !== false) events.push({ source: "firewallCustom", ref, action });
        if (parameters?.ruleset === "current") return undefined;
      } else if (action === "log") events.push({ source: "firewallCustom", ref, action });
      else if (action === "block")
        return refuse("firewallCustom", ref, action, parameters?.response ? custom(parameters.response) : blocked);
      else return refuse("firewallCustom", ref, action, challenge);
    }
    return undefined;
  };

  const rateRules = (): Refusal | undefined => {
    for (const { ref, action, ratelimit } of matching("http_ratelimit")) {
      const counted = request.counted?.(ref) ?? 0;
      if (ratelimit === undefined || counted <= (ratelimit.requests_per_period ?? Number.POSITIVE_INFINITY)) continue;
      if (action === "log") events.push({ source: "rateLimit", ref, action });
      else
        return refuse(
          "rateLimit",
          ref,
          action,
          action === "block" ? limited(ratelimit.mitigation_timeout ?? 10) : challenge,
        );
    }
    return undefined;
  };

  const bots = zone.bot_management;
  /** Pro and up, without the add-on. */
  const superBotFight = (): Refusal | undefined => {
    const field = "sbfm_definitely_automated";
    const action = bots[field];
    if (zone.plan === "free" || zone.plan === "enterprise-bots" || !isAutomated(request)) return undefined;
    if (action === "block") return refuse("sbfm", field, action, blocked);
    return action === "managed_challenge" ? refuse("sbfm", field, action, challenge) : undefined;
  };

  const access = accessRule(zone, request);
  const allowed = access?.mode === "whitelist";
  const refuseByAccess = ({ id, mode, configuration: { target } }: AccessRule): Refusal => {
    return refuse(target === "ip_range" ? "ipRange" : "ip", id, mode, mode === "block" ? coded(403, 1006) : challenge);
  };
  const inPhase = (phase: string, run: () => Refusal | undefined) =>
    skipped.phases.includes(phase) ? undefined : run();
  const product = (name: string, on: boolean, make: () => Refusal): Refusal | undefined =>
    on && !allowed && !skipped.products.includes(name) ? make() : undefined;

  const userAgent = headerValues(request, "user-agent")[0] ?? "";
  const path = normalisedPath(request.target.split("?")[0] ?? "");
  const lockdown = zone.lockdowns.find(({ prefix }) => `${request.host.toLowerCase()}${path}`.startsWith(prefix));
  const lockedOut = lockdown !== undefined && !lockdown.addresses.some((each) => within(each, request.source));
  const underAttack = settings.security_level === "under_attack";

  const refusal =
    (records.length === 0 ? refuse("dns", "no proxied record", "block", coded(409, 1001)) : undefined) ??
    (access !== undefined && !allowed ? refuseByAccess(access) : undefined) ??
    (allowed ? undefined : customRules()) ??
    (allowed ? undefined : inPhase("http_ratelimit", rateRules)) ??
    (allowed
      ? undefined
      : inPhase("http_request_firewall_managed", () =>
          request.attackLike ? refuse("firewallManaged", "managed_free", "block", blocked) : undefined,
        )) ??
    (allowed ? undefined : inPhase("http_request_sbfm", superBotFight)) ??
    (zone.plan === "free" && bots.fight_mode === true && isAutomated(request)
      ? refuse("botFight", "bot_fight_mode", "managed_challenge", challenge)
      : undefined) ??
    product("zoneLockdown", lockedOut, () => refuse("zoneLockdown", "lockdown", "block", coded(403, 1106))) ??
    product("uaBlock", zone.user_agent_blocks.includes(userAgent), () => refuse("uaBlock", "ua", "block", blocked)) ??
    product("bic", settings.browser_check === "on" && oddUserAgent(userAgent), () =>
      refuse("bic", "bic", "block", coded(403, 1010)),
    ) ??
    product("securityLevel", underAttack, () =>
      refuse("securityLevel", String(settings.security_level), "managed_challenge", challenge),
    );
  if (refusal === undefined) return { action: "forward", origin, events };
  const { event, answer } = refusal;
  const action = event.action === "block" ? "block" : "challenge";
  return { action, decidedBy: event, answer, origin, events: [...events, event] };
}

/** What Browser Integrity Check rejects: no user agent, or that of a library that spammers use. */
const oddUserAgent = (userAgent: string): boolean => /^$|^(python-urllib|libwww-perl|Java)\//i.test(userAgent);

function within(literal: string, source: string): boolean {
  const set = addressLiteral(literal);
  return typeof set === "function" && set(source);
}

/** An Allow beats a Block, whatever their order. */
function accessRule({ access_rules: rules }: ZoneState, { source }: EdgeRequest): AccessRule | undefined {
  const matching = rules.filter(({ configuration: { value } }) => within(value, source));
  const by = (mode: string) => matching.find((rule) => rule.mode === mode);
  return by("whitelist") ?? by("block") ?? matching[0];
}
