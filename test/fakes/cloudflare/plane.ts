/**
 * What Cloudflare does with one request, as a function of the zone: settings and origin first, then the products in the
 * documented order; the first that terminates decides. A skip rule skips what runs after it and is on its list, and
 * nothing else: the free plan's Bot Fight Mode is on no list.
 */
import { addressLiteral } from "./address.ts";
import { compile, type Expression } from "./expression.ts";
import { type Answer, blocked, challenge, coded } from "./pages.ts";
import { type EdgeRequest, headerValues, isAutomated, normalisedPath } from "./request.ts";
import { type AccessRule, type DnsRecord, type Rule, rulesOf, type ZoneState } from "./zone.ts";

/** Names as Security Events gives its "source". */
export type Source =
  | ("dns" | "ip" | "firewallCustom" | "rateLimit" | "firewallManaged" | "sbfm" | "botFight")
  | ("zoneLockdown" | "uaBlock" | "bic" | "securityLevel");

export type SecurityEvent = { readonly source: Source; readonly ref: string; readonly action: string };

/** Where and how Cloudflare connects to the origin for this request. */
type Origin = {
  readonly records: readonly DnsRecord[];
  readonly port: number;
  readonly ssl: "flexible" | "full" | "strict";
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
const refuse = (source: Source, ref: string, action: string, answer: Answer): Refusal => ({
  event: { source, ref, action },
  answer,
});

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
  const host = request.host.toLowerCase();
  const records = zone.dns_records.filter(({ name, proxied }) => proxied && name === host);
  const secure = (request.ssl ?? true) && (ssl === "full" || ssl === "strict");
  const origin: Origin = { records, ssl, secure, port: ports.at(-1) ?? (secure ? 443 : 80) };

  /** Phases and products. */
  const skipped: string[] = [];
  const events: SecurityEvent[] = [];

  /** Top to bottom. */
  const customRules = (): Refusal | undefined => {
    for (const { action, ref, action_parameters: parameters, logging } of matching("http_request_firewall_custom")) {
      if (action === "block" || !["skip", "log"].includes(action)) {
        return refuse("firewallCustom", ref, action, action === "block" ? blocked : challenge);
      }
      if (logging?.enabled !== false) events.push({ source: "firewallCustom", ref, action });
      skipped.push(...(parameters?.phases ?? []), ...(parameters?.products ?? []));
      if (parameters?.ruleset === "current") return undefined;
    }
    return undefined;
  };

  const rateRules = (): Refusal | undefined => {
    for (const { ref, action, ratelimit } of matching("http_ratelimit"))
      if ((request.counted?.(ref) ?? 0) > ratelimit!.requests_per_period)
        return refuse("rateLimit", ref, action, coded(429, 1015));
    return undefined;
  };

  const bots = zone.bot_management;
  /** Pro and up, without the add-on. */
  const superBotFight = (): Refusal | undefined => {
    const field = "sbfm_definitely_automated";
    const action = String(bots[field]);
    if (zone.plan === "free" || zone.plan === "enterprise-bots" || !isAutomated(request) || action === "allow")
      return undefined;
    return refuse("sbfm", field, action, action === "block" ? blocked : challenge);
  };

  const access = accessRule(zone, request);
  const isAllowed = access?.mode === "whitelist";
  const refuseByAccess = ({ id, mode }: AccessRule): Refusal =>
    refuse("ip", id, mode, mode === "block" ? coded(403, 1006) : challenge);
  /** Of a phase or a product, unless a rule skips it. */
  const unless = (name: string, run: () => Refusal | false | undefined) =>
    (!isAllowed && !skipped.includes(name) && run()) || undefined;

  const userAgent = headerValues(request, "user-agent")[0] ?? "";
  const path = normalisedPath(request.target.split("?")[0] ?? "");
  const lockdown = zone.lockdowns.find(({ prefix }) => `${host}${path}`.startsWith(prefix));
  const isLockedOut = lockdown !== undefined && !lockdown.addresses.some((each) => within(each, request.source));
  const level = String(settings.security_level);

  const refusal =
    (records.length === 0 ? refuse("dns", "no proxied record", "block", coded(409, 1001)) : undefined) ??
    (access !== undefined && !isAllowed ? refuseByAccess(access) : undefined) ??
    unless("", customRules) ??
    unless("http_ratelimit", rateRules) ??
    unless(
      "http_request_firewall_managed",
      () => request.attackLike && refuse("firewallManaged", "managed_free", "block", blocked),
    ) ??
    unless("http_request_sbfm", superBotFight) ??
    (zone.plan === "free" && bots.fight_mode === true && isAutomated(request)
      ? refuse("botFight", "bot_fight_mode", "managed_challenge", challenge)
      : undefined) ??
    unless("zoneLockdown", () => isLockedOut && refuse("zoneLockdown", "lockdown", "block", coded(403, 1106))) ??
    unless("uaBlock", () => zone.user_agent_blocks.includes(userAgent) && refuse("uaBlock", "ua", "block", blocked)) ??
    unless(
      "bic",
      () =>
        settings.browser_check === "on" && oddUserAgent(userAgent) && refuse("bic", "bic", "block", coded(403, 1010)),
    ) ??
    unless(
      "securityLevel",
      () => level === "under_attack" && refuse("securityLevel", level, "managed_challenge", challenge),
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
