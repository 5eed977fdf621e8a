/**
 * What Cloudflare does with one request, as a function of the zone: settings and origin first, then the products in the
 * documented order; the first that terminates decides. A skip rule skips what runs after it and is on its list, and
 * nothing else: the free plan's Bot Fight Mode is on no list.
 */
import { addressLiteral } from "./address.ts";
import { compile, type Expression } from "./expression.ts";
import { type Answer, blocked, challenge, coded } from "./pages.ts";
import { type EdgeRequest, headerValues, isAutomated, normalisedPath } from "./request.ts";
import { type DnsRecord, type Rule, rulesOf, type ZoneState } from "./zone.ts";

/** `source`: a product, as Security Events names it. */
type SecurityEvent = { readonly source: string; readonly ref: string; readonly action: string };

/** Where and how Cloudflare connects to the origin for this request. */
type Origin = {
  readonly records: readonly DnsRecord[];
  readonly port: number;
  readonly ssl: "flexible" | "full" | "strict";
};

export type Verdict = {
  readonly action: "forward" | "block" | "challenge";
  /** The rule or product that decided; absent if forwarded. */
  readonly decidedBy?: SecurityEvent;
  /** What Cloudflare itself answers; absent if forwarded. */
  readonly answer?: Answer;
  readonly origin: Origin;
};

/** Compiled once, as thousands of requests of a test meet the same few rules. */
const compiled = new Map<string, Expression>();
function compiledOnce(source: string): Expression {
  const known = compiled.get(source) ?? compile(source);
  compiled.set(source, known);
  return known;
}

type Refusal = { readonly event: SecurityEvent; readonly answer: Answer };
const refuse = (source: string, ref: string, action: string, answer = answerOf(action)): Refusal => ({
  ...{ event: { source, ref, action }, answer },
});
const answerOf = (action: string): Answer => (action === "block" ? blocked : challenge);

/** Throws ExpressionError when a rule's expression could never have been accepted. */
export function decide(zone: ZoneState, request: EdgeRequest): Verdict {
  const matching = (phase: string): Rule[] =>
    rulesOf(zone, phase).filter((rule) => rule.enabled && compiledOnce(rule.expression).matches(request));
  const { settings } = zone;
  const modes = matching("http_config_settings").flatMap((rule) => rule.action_parameters?.ssl ?? []);
  const ports = matching("http_request_origin").flatMap((rule) => rule.action_parameters?.origin?.port ?? []);
  const ssl = (modes.at(-1) ?? settings.ssl) as Origin["ssl"];
  const host = request.host.toLowerCase();
  const records = zone.dns_records.filter(({ name, proxied }) => proxied && name === host);
  // TLS to the origin: with "full" and "strict" only where the visitor came by TLS too.
  const secure = (request.ssl ?? true) && ["full", "strict"].includes(ssl);
  const origin: Origin = { records, ssl, port: ports.at(-1) ?? (secure ? 443 : 80) };

  /** Phases and products. */
  const skipped: string[] = [];

  /** Top to bottom. */
  const customRules = (): Refusal | undefined => {
    for (const { action, ref, action_parameters: parameters } of matching("http_request_firewall_custom")) {
      if (action !== "skip") return refuse("firewallCustom", ref, action);
      skipped.push(...(parameters?.phases ?? []), ...(parameters?.products ?? []));
      if (parameters?.ruleset === "current") return undefined;
    }
    return undefined;
  };

  const rateRules = (): Refusal | undefined => {
    const isOver = ({ ref, ratelimit }: Rule) => (request.counted?.(ref) ?? 0) > ratelimit!.requests_per_period;
    const over = matching("http_ratelimit").find(isOver);
    return over && refuse("rateLimit", over.ref, over.action, coded(429, 1015));
  };

  const managedRules = () => request.attackLike && refuse("firewallManaged", "managed_free", "block");

  const bots = zone.bot_management;
  /** Pro and up, without the add-on. */
  const superBotFight = (): Refusal | false => {
    const field = "sbfm_definitely_automated";
    const action = String(bots[field]);
    const isSold = !["free", "enterprise-bots"].includes(zone.plan);
    return isSold && isAutomated(request) && action !== "allow" && refuse("sbfm", field, action);
  };
  const botFights = zone.plan === "free" && bots.fight_mode === true && isAutomated(request);

  const access = zone.access_rules.find(({ value }) => within(value, request.source));
  const isAllowed = access?.mode === "whitelist";
  /** Of a phase or a product, unless a rule skips it. */
  const unless = (name: string, run: () => Refusal | false | undefined) =>
    !isAllowed && !skipped.includes(name) && run();

  const userAgent = headerValues(request, "user-agent")[0] ?? "";
  const path = normalisedPath(request.target.split("?")[0] ?? "");
  const lockdown = zone.lockdowns.find(({ prefix }) => `${host}${path}`.startsWith(prefix));
  const isLockedOut = lockdown !== undefined && !lockdown.addresses.some((each) => within(each, request.source));
  const isOdd = settings.browser_check === "on" && oddUserAgent(userAgent);
  const isUnderAttack = settings.security_level === "under_attack";
  const isUnwanted = zone.user_agent_blocks.includes(userAgent);

  const refusal =
    (records.length === 0 && refuse("dns", "no proxied record", "block", coded(409, 1001))) ||
    (access?.mode === "block" && refuse("ip", access.id, "block", coded(403, 1006))) ||
    unless("", customRules) ||
    unless("http_ratelimit", rateRules) ||
    unless("http_request_firewall_managed", managedRules) ||
    unless("http_request_sbfm", superBotFight) ||
    (botFights && refuse("botFight", "bot_fight_mode", "managed_challenge")) ||
    unless("zoneLockdown", () => isLockedOut && refuse("zoneLockdown", "lockdown", "block", coded(403, 1106))) ||
    unless("uaBlock", () => isUnwanted && refuse("uaBlock", "ua", "block")) ||
    unless("bic", () => isOdd && refuse("bic", "bic", "block", coded(403, 1010))) ||
    unless("securityLevel", () => isUnderAttack && refuse("securityLevel", "under_attack", "managed_challenge"));
  if (!refusal) return { action: "forward", origin };
  const { event, answer } = refusal;
  const action = event.action === "block" ? "block" : "challenge";
  return { action, decidedBy: event, answer, origin };
}

/** What Browser Integrity Check rejects: no user agent, or that of a library that spammers use. */
const oddUserAgent = (userAgent: string): boolean => /^$|^(python-urllib|libwww-perl|Java)\//i.test(userAgent);

function within(literal: string, source: string): boolean {
  const set = addressLiteral(literal);
  return typeof set === "function" && set(source);
}
