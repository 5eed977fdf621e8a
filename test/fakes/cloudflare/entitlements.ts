/**
 * What a plan includes in a phase: how many rules, which actions, fields and parameters, as far as rules of pushgate and
 * of a zone's owner in these tests have them. The messages are the API's where they are published (the quota, the bot
 * score); the others imitate them.
 */
import type { Plan } from "../../../infra/config/settings.ts";
import { compile, ExpressionError } from "./expression.ts";
import { Refusal } from "./refusal.ts";
import { fields } from "./request.ts";
import type { Rule } from "./zone.ts";

const challenges = ["challenge", "js_challenge", "managed_challenge"];

type Phase = { readonly permission: string; readonly actions: string[]; readonly rules: Partial<Record<Plan, number>> };
/** For each phase: the token's permission, the actions, and the number of rules on each plan. */
export const phases: Readonly<Record<string, Phase>> = {
  http_config_settings: {
    ...{ permission: "Config Rules", actions: ["set_config"] },
    rules: { free: 10, pro: 25, business: 50, enterprise: 300 },
  },
  http_ratelimit: {
    ...{ permission: "Zone WAF", actions: ["block", ...challenges] },
    rules: { free: 1, pro: 2, business: 5, enterprise: 5 },
  },
  http_request_firewall_custom: {
    ...{ permission: "Zone WAF", actions: ["block", "skip", ...challenges] },
    rules: { free: 5, pro: 20, business: 100, enterprise: 1000 },
  },
  http_request_origin: {
    ...{ permission: "Origin Rules", actions: ["route"] },
    rules: { free: 10, pro: 25, business: 50, enterprise: 300 },
  },
};

export const quota = (phase: string, plan: Plan): number =>
  phases[phase]!.rules[plan] ?? phases[phase]!.rules.enterprise!;

const booleans = [true, false];
const configValues: Readonly<Record<string, readonly unknown[]>> = {
  bic: booleans,
  email_obfuscation: booleans,
  rocket_loader: booleans,
  security_level: ["off", "essentially_off", "low", "medium", "high", "under_attack"],
  ssl: ["off", "flexible", "full", "strict", "origin_pull"],
};

/** What a skip rule may name; case counts. */
const skippable = {
  phases: ["http_ratelimit", "http_request_sbfm", "http_request_firewall_managed"],
  products: ["zoneLockdown", "uaBlock", "bic", "hot", "securityLevel", "rateLimit", "waf"],
};

/** Throws the API's rejection of a rule that this plan does not include in this phase. `at`: its JSON pointer. */
export function checkRule(rule: Rule, phase: string, plan: Plan, at: string): void {
  const { action, action_parameters: parameters = {} } = rule;
  const refuse = (code: number, message: string, below = ""): never => {
    throw new Refusal(400, code, message, `${at}${below}`);
  };
  const bad = (value: unknown, name: string, because: string): never =>
    refuse(20003, `'${String(value)}' is not a valid value for ${name} because ${because}`, `/action_parameters`);
  const oneOf = (value: unknown, name: string, allowed: readonly unknown[]): unknown =>
    allowed.includes(value) || bad(value, name, `it must be one of ${allowed.join(", ")}`);

  oneOf(action, "action", phases[phase]!.actions);
  try {
    const missing = [...compile(rule.expression).fields].find((name) => (fields[name]?.needs?.plan ?? plan) !== plan);
    if (missing !== undefined) {
      const use = `the use of field ${missing} is not allowed, ${fields[missing]!.needs!.words} is required`;
      throw new ExpressionError(20127, `not entitled: ${use}`);
    }
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const because = `'${rule.expression}' is not a valid value for expression because ${error.message}`;
    refuse(error.code, because, "/expression");
  }
  if (action === "skip") {
    for (const [name, allowed] of Object.entries(skippable))
      for (const value of (parameters[name] as string[] | undefined) ?? []) oneOf(value, name, allowed);
    if (parameters.ruleset !== undefined) oneOf(parameters.ruleset, "ruleset", ["current"]);
    if (parameters.ruleset === undefined && !parameters.phases?.length && !parameters.products?.length)
      bad("skip", "action", "there is nothing to skip");
  }
  // Every plan may set the port. Only Enterprise may set the host that answers, and its name, which no rule here does.
  if (action === "route") {
    const port = parameters.origin?.port;
    const others = [...Object.keys(parameters), ...Object.keys(parameters.origin ?? {})];
    for (const name of others) oneOf(name, "a route's parameter", ["origin", "port"]);
    if (!(Number.isInteger(port) && port! > 0 && port! < 65536)) bad(port, "port", "it must be from 1 to 65535");
  }
  if (action === "set_config") {
    for (const [name, value] of Object.entries(parameters))
      oneOf(value, name, configValues[name] ?? bad(name, "a setting", "it is unknown"));
  }
}
