/**
 * What a plan includes in a phase: how many rules, which actions, fields and numbers. The messages are the API's where
 * they are published (the quota, `matches`, a rate rule's timeout, the bot score); the others imitate them.
 */
import type { Plan } from "../../../infra/config/settings.ts";
import { compile, type Expression, ExpressionError } from "./expression.ts";
import { Refusal } from "./refusal.ts";
import { fields } from "./request.ts";
import type { Rule } from "./zone.ts";

type PerPlan = readonly [free: number, pro: number, business: number, enterprise: number];
const order: readonly Plan[] = ["free", "pro", "business", "enterprise"];
const at = (numbers: PerPlan, plan: Plan): number => numbers[plan === "enterprise-bots" ? 3 : order.indexOf(plan)]!;
const atLeast = (plan: Plan, least: Plan): boolean =>
  plan === "enterprise-bots" || order.indexOf(plan) >= order.indexOf(least);

const challenges = ["challenge", "js_challenge", "managed_challenge"];

/** For each phase: the token's permission, the actions, and the number of rules on each plan. */
export const phases: Readonly<Record<string, { permission: string; actions: string[]; rules: PerPlan }>> = {
  http_config_settings: { permission: "Config Rules", actions: ["set_config"], rules: [10, 25, 50, 300] },
  http_ratelimit: { permission: "Zone WAF", actions: ["block", "log", ...challenges], rules: [1, 2, 5, 5] },
  http_request_firewall_custom: {
    permission: "Zone WAF",
    actions: ["block", "log", "skip", ...challenges],
    rules: [5, 20, 100, 1000],
  },
  http_request_origin: { permission: "Origin Rules", actions: ["route"], rules: [10, 25, 50, 300] },
};

export const quota = (phase: string, plan: Plan): number => at(phases[phase]!.rules, plan);

/** What a skip rule may name; case counts. */
const skippable = {
  phases: ["http_ratelimit", "http_request_sbfm", "http_request_firewall_managed"],
  products: ["zoneLockdown", "uaBlock", "bic", "hot", "securityLevel", "rateLimit", "waf"],
};

const bad = (value: unknown, name: string, because: string, pointer: string): never => {
  throw new Refusal(400, 20003, `'${String(value)}' is not a valid value for ${name} because ${because}`, pointer);
};

/** Throws the API's rejection of a rule that this plan does not include in this phase. `at`: its JSON pointer. */
export function checkRule(rule: Rule, phase: string, plan: Plan, at: string): void {
  const { action, action_parameters: parameters = {}, ratelimit } = rule;
  if (!phases[phase]!.actions.includes(action))
    bad(action, "action", `it is not allowed in the phase ${phase}`, `${at}/action`);
  checkExpression(rule.expression, phase, plan, at);
  if (action === "log" && !atLeast(plan, "enterprise"))
    throw new Refusal(
      400,
      20003,
      "not entitled: the use of action log is not allowed, an Enterprise plan is required",
      at,
    );
  if (action === "skip") checkSkip(parameters, at);
  if (parameters.response !== undefined && action !== "block")
    bad("response", "an action parameter", `it goes with block, not with ${action}`, `${at}/action_parameters`);
  if (parameters.response !== undefined && plan === "free")
    throw new Refusal(400, 20003, "not entitled to use a custom response, a Pro plan is required", at);
  if (action === "route") checkOrigin(parameters, plan, at);
  if (action === "set_config") checkConfig(parameters, at);
  if (phase === "http_ratelimit") checkRate(ratelimit, action, plan, at);
  else if (ratelimit !== undefined)
    bad("ratelimit", "a rule", `the phase ${phase} has no rate limits`, `${at}/ratelimit`);
}

function checkExpression(source: unknown, phase: string, plan: Plan, at: string): void {
  const text = typeof source === "string" ? source : "";
  try {
    const expression = compile(text);
    const missing = notEntitled(expression, phase, plan);
    if (missing) throw new ExpressionError(20127, `not entitled: the use of ${missing} is required`);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const because = `'${text}' is not a valid value for expression because ${error.message}`;
    throw new Refusal(400, error.code, because, `${at}/expression`);
  }
}

/** The free plan's rate rule may read the path and verified bots; each plan adds fields. */
const rateFields: readonly (readonly [Plan, readonly string[]])[] = [
  ["free", ["http.request.uri.path", "cf.client.bot"]],
  ["pro", ["http.host", "http.request.uri", "http.request.full_uri", "http.request.uri.query"]],
  ["business", ["http.request.method", "ip.src", "http.user_agent"]],
];

function notEntitled({ fields: used, operators }: Expression, phase: string, plan: Plan): string | undefined {
  if (operators.has("matches") && !atLeast(plan, "business"))
    return "operator Matches is not allowed, a Business plan or a WAF Advanced plan";
  const allowed = new Set(rateFields.flatMap(([least, names]) => (atLeast(plan, least) ? names : [])));
  for (const name of used) {
    const needs = fields[name]?.needs;
    if (needs && !needs.plans.includes(plan)) return `field ${name} is not allowed, ${needs.words}`;
    if (phase === "http_ratelimit" && !atLeast(plan, "enterprise") && !allowed.has(name))
      return `field ${name} is not allowed, an higher Advanced Rate Limiting plan`;
  }
  return undefined;
}

function checkSkip(parameters: NonNullable<Rule["action_parameters"]>, at: string): void {
  const { ruleset, phases: later, products, rulesets, rules } = parameters;
  for (const [name, allowed] of Object.entries(skippable))
    for (const value of (parameters[name] as string[] | undefined) ?? [])
      if (!allowed.includes(value))
        bad(value, name, `it must be one of ${allowed.join(", ")}`, `${at}/action_parameters/${name}`);
  if (ruleset !== undefined && ruleset !== "current") bad(ruleset, "ruleset", 'it must be "current"', at);
  if (ruleset !== undefined && (rulesets !== undefined || rules !== undefined))
    bad(ruleset, "ruleset", "rulesets and rules cannot be set with it", at);
  if (later !== undefined && rulesets !== undefined) bad("rulesets", "skip", "phases cannot be set with it", at);
  if (ruleset === undefined && !later?.length && !products?.length)
    bad("skip", "action", "there is nothing to skip", at);
}

/** Every plan may set the port. Only Enterprise may set the host that answers, and its name. */
function checkOrigin(parameters: NonNullable<Rule["action_parameters"]>, plan: Plan, at: string): void {
  const pointer = `${at}/action_parameters`;
  for (const name of Object.keys(parameters))
    if (!["host_header", "origin", "sni"].includes(name)) bad(name, "a route's parameter", "it is unknown", pointer);
  const { origin = {}, host_header, sni } = parameters;
  const { port, host } = origin;
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65536))
    bad(port, "port", "it must be from 1 to 65535", `${pointer}/origin/port`);
  if (port === undefined && host === undefined && host_header === undefined && sni === undefined)
    bad("route", "action", "it overrides nothing", pointer);
  const overrides = { DNS: host, "host header": host_header, SNI: sni };
  for (const [name, value] of Object.entries(overrides))
    if (value !== undefined && !atLeast(plan, "enterprise"))
      throw new Refusal(400, 20003, `not entitled to override the ${name}, an Enterprise plan is required`, pointer);
}

/** Settings of a configuration rule, as far as pushgate or the zone's own rules in tests write them. */
const configValues: Readonly<Record<string, readonly unknown[]>> = {
  automatic_https_rewrites: [true, false],
  bic: [true, false],
  email_obfuscation: [true, false],
  hotlink_protection: [true, false],
  opportunistic_encryption: [true, false],
  rocket_loader: [true, false],
  security_level: ["off", "essentially_off", "low", "medium", "high", "under_attack"],
  ssl: ["off", "flexible", "full", "strict", "origin_pull"],
};

function checkConfig(parameters: Record<string, unknown>, at: string): void {
  if (Object.keys(parameters).length === 0) bad("set_config", "action", "it sets nothing", `${at}/action_parameters`);
  for (const [name, value] of Object.entries(parameters)) {
    const pointer = `${at}/action_parameters/${name}`;
    const values = configValues[name] ?? bad(name, "a setting", "it is unknown", pointer);
    if (!values.includes(value)) bad(value, name, `it must be one of ${values.join(", ")}`, pointer);
  }
}

const periods = [
  10, 15, 20, 30, 40, 45, 60, 90, 120, 180, 240, 300, 480, 600, 900, 1200, 1800, 2400, 3600, 65535, 86400,
];

function checkRate(limit: Rule["ratelimit"], action: string, plan: Plan, where: string): void {
  const pointer = `${where}/ratelimit`;
  const no = (message: string) => {
    throw new Refusal(400, 20003, message, pointer);
  };
  if (limit === undefined) throw new Refusal(400, 20003, "a rate limiting rule needs ratelimit", pointer);
  if (!limit.characteristics.includes("cf.colo.id"))
    throw new Refusal(
      400,
      20155,
      "cf.colo.id is required: ratelimiting counting is processed at colocation level only",
      pointer,
    );
  const by = limit.characteristics.filter((one) => one !== "cf.colo.id" && one !== "ip.src");
  if (by.length > 0 && !atLeast(plan, "business")) no(`not entitled to count by ${by.join(", ")}`);
  if (!periods.includes(limit.period)) no(`'${limit.period}' is not a valid value for period`);
  if (limit.period > at([10, 60, 600, 65535], plan)) no(`not entitled to use a period of ${limit.period}`);
  const timeout = limit.mitigation_timeout ?? 0;
  const challenging = action !== "block" && action !== "log";
  if (challenging && !atLeast(plan, "enterprise") && timeout !== 0)
    no("a mitigation timeout with a challenge action needs an Enterprise plan");
  if (!challenging && plan === "free" && timeout !== 10)
    no("not entitled to use a mitigation timeout different from 10");
  if (timeout > at([10, 3600, 86400, 86400], plan)) no(`not entitled to use a mitigation timeout of ${timeout}`);
  if (!challenging && !atLeast(plan, "enterprise") && timeout === 0)
    no("not entitled to use a mitigation timeout of 0");
  if (limit.counting_expression && !atLeast(plan, "business")) no("not entitled to use a counting expression");
}
