/**
 * Every request, on every plan and with every product on that rejects requests: Cloudflare's answer, also without one of
 * pushgate's rules. The answers are stated here by kind of request; `decide` computes them from the rules that infra/edge
 * renders.
 */
import { describe, expect, test } from "vitest";
import type { Edge, Settings } from "../../../infra/config/settings.ts";
import { records } from "../../../infra/edge/dns.ts";
import { rulesOf } from "../../../infra/edge/zone/fits.ts";
import { merged, phaseNames, phases, type Rule } from "../../../infra/edge/zone/phase.ts";
import { checkRule, quota } from "../../fakes/cloudflare/entitlements.ts";
import { decide } from "../../fakes/cloudflare/plane.ts";
import { type EdgeRequest, isAutomated } from "../../fakes/cloudflare/request.ts";
import { declaredZone, emptyZone, type ZoneState } from "../../fakes/cloudflare/zone.ts";
import { everyGitHost, otherHostname, type Row, requests } from "./requests.ts";

/** `fights`: Bot Fight Mode was on before pushgate came, and is not switched off by choice. */
type PlanRow = { readonly edge: Edge; readonly fights?: true };
const plans: readonly PlanRow[] = [
  { edge: { plan: "free", botFightMode: "off", generation: 1 } },
  { edge: { plan: "free", generation: 1 }, fights: true },
  ...(["pro", "business", "enterprise", "enterprise-bots"] as const).map((plan) => ({ edge: { plan, generation: 1 } })),
];

/** In the order in which Cloudflare runs them; `botFight` is the one that no skip rule and no IP Access rule reaches. */
const stages = ["custom", "rate", "managed", "sbfm", "botFight", "lockdown", "ua", "bic", "security"] as const;
type Stage = (typeof stages)[number];
const blocked = "Sorry, you have been blocked";
const challenged = "Enable JavaScript and cookies to continue";
/** Status, action, product, rule or setting, and the text that the sender reads. */
const rejections: Record<Stage, string> = {
  custom: `403 managed_challenge firewallCustom zone_custom: ${challenged}`,
  rate: "429 block rateLimit zone_rate: error code: 1015",
  managed: `403 block firewallManaged managed_free: ${blocked}`,
  sbfm: `403 block sbfm sbfm_definitely_automated: ${blocked}`,
  botFight: `403 managed_challenge botFight bot_fight_mode: ${challenged}`,
  lockdown: "403 block zoneLockdown lockdown: error code: 1106",
  ua: `403 block uaBlock ua: ${blocked}`,
  bic: "403 block bic bic: error code: 1010",
  security: `403 managed_challenge securityLevel under_attack: ${challenged}`,
};

/** Products that are on in the zone; each rejects every request that reaches it. */
type Column = { readonly name: string; readonly on: readonly Stage[]; readonly access?: "block" | "whitelist" };
const nothingOn: Column = { name: "nothing on", on: [] };
const bots: Column = { name: "bot products at block", on: ["sbfm", "botFight"] };
const allOn: Column = { name: "all of it", on: stages };
const columns: readonly Column[] = [
  ...[nothingOn, bots, allOn],
  ...stages.filter((stage) => !bots.on.includes(stage)).map((stage) => ({ name: stage, on: [stage] })),
  { name: "an IP Access rule that blocks the source", on: [], access: "block" },
  { name: "an IP Access rule that allows the source", on: [], access: "whitelist" },
];

/** Enterprise with the add-on has no product of its own here: a custom rule reads the score. */
const rejecting = ({ edge: { plan }, fights }: PlanRow, { on }: Column): Stage[] =>
  stages.filter((stage) => {
    const bots = on.includes("sbfm");
    if (stage === "custom") return on.includes(stage) || (bots && plan === "enterprise-bots");
    if (stage === "sbfm") return bots && ["pro", "business", "enterprise"].includes(plan);
    if (stage === "botFight") return fights === true;
    // Not sold on free.
    return on.includes(stage) && !(stage === "lockdown" && plan === "free");
  });

const removals = [
  ...(["pushgate_delivery", "pushgate_rest", "pushgate_strict_tls", "pushgate_origin_8443", "records"] as const),
  // The one declaration that reaches the whole zone, which is why it is the operator's to choose.
  "bots" as const,
];
type Removal = (typeof removals)[number];
type Cell = { readonly plan: PlanRow; readonly column: Column; readonly row: Row; readonly request: EdgeRequest };

/** The answer, by the kind of request and by what rejects it. */
function stated({ plan, column, row: { is }, request }: Cell, without?: Removal): string {
  const here = is !== "elsewhere";
  if (here && without === "records") return "409 block dns no proxied record: error code: 1001";
  if (column.access === "block") return "403 block ip a: error code: 1006";
  const allowed = column.access === "whitelist";
  const skips = is === "delivery" && without !== "pushgate_delivery";
  const admitted = !here || is === "site" || skips || is === "canary" || without === "pushgate_rest";
  if (!allowed && !admitted) return `403 block firewallCustom pushgate_rest: ${blocked}`;
  const on = rejecting(plan, column);
  // The zone had it on before pushgate, and only pushgate's declaration keeps it off.
  if (without === "bots" && column.on.includes("botFight") && plan.edge.botFightMode === "off") on.push("botFight");
  const rejects = (stage: Stage) => (stage === "botFight" ? isAutomated(request) : !skips && !allowed);
  const first = stages.find((stage) => on.includes(stage) && rejects(stage));
  if (first) return rejections[first];
  const port = here && without !== "pushgate_origin_8443" ? 8443 : request.ssl === false ? 80 : 443;
  return `forward ${port} ${here && without !== "pushgate_strict_tls" ? "strict" : "full"}`;
}

function foreign({ edge: { plan } }: PlanRow, { on }: Column): Rule[] {
  const scored = on.includes("sbfm") && plan === "enterprise-bots";
  if (!scored && !on.includes("custom")) return [];
  const expression = scored ? "cf.bot_management.score lt 30" : 'http.host ne ""';
  return [{ enabled: true, description: "", ref: "zone_custom", action: "managed_challenge", expression }];
}

const settingsOf = ({ edge }: PlanRow): Settings => ({ ...everyGitHost, edge });

function zoneOf(plan: PlanRow, column: Column, without?: Removal): ZoneState {
  const settings = settingsOf(plan);
  const base = emptyZone(settings.zone, plan.edge.plan);
  const { on } = column;
  if (plan.edge.plan === "free") base.bot_management.fight_mode = plan.fights === true || on.includes("botFight");
  else if (plan.edge.plan !== "enterprise-bots")
    base.bot_management.sbfm_definitely_automated = on.includes("sbfm") ? "block" : "allow";
  base.settings.browser_check = on.includes("bic") ? "on" : "off";
  base.settings.security_level = on.includes("security") ? "under_attack" : "medium";
  if (on.includes("lockdown") && plan.edge.plan !== "free")
    base.lockdowns = ["", "www.", "blog.", "hooks."].map((name) => ({
      prefix: `${name}example.org/`,
      addresses: ["192.0.2.250"],
    }));
  if (on.includes("ua")) base.user_agent_blocks = requests.flatMap(({ request }) => agentOf(request.headers));
  base.dns_records.push({ id: "www", name: otherHostname, type: "A", content: "203.0.113.80", proxied: true, ttl: 1 });

  // As live-zone.test.ts has it declared.
  if (without !== "bots" && plan.edge.botFightMode === "off") base.bot_management.fight_mode = false;
  const declaredRules = rulesOf(settings);
  const rules: Record<string, Rule[]> = {};
  for (const name of phaseNames) {
    const all = merged(name, declaredRules[name], name === "custom" ? foreign(plan, column) : []);
    rules[phases[name].phase] = all.filter(({ ref }) => ref !== without);
  }
  const rates = on.includes("rate") && { http_ratelimit: [rateRule] };
  return declaredZone(base, { ...rules, ...rates }, without === "records" ? [] : records(settings));
}
/** A rate rule that every plan accepts: it counts the path by address. */
const rateRule = {
  ...{ ref: "zone_rate", action: "block", enabled: true, expression: 'starts_with(http.request.uri.path, "/")' },
  ratelimit: { characteristics: ["cf.colo.id", "ip.src"], period: 10, requestsPerPeriod: 5, mitigationTimeout: 10 },
};

const agentOf = (headers: EdgeRequest["headers"]): string => String(headers["user-agent"] ?? "");

/** The row's request, changed so that the products that are on reject it. */
function prepared({ request }: Row, { on }: Column): EdgeRequest {
  const { "user-agent": agent, ...headers } = request.headers;
  return {
    ...request,
    headers: on.includes("bic") || agent === undefined ? headers : request.headers,
    attackLike: on.includes("managed"),
    ...(on.includes("sbfm") && { automated: true }),
    counted: () => (on.includes("rate") ? 6 : 1),
  };
}

function answer(zone: ZoneState, { column: { access }, request }: Cell): string {
  const rules = access ? [{ id: "a", mode: access, value: request.source }] : [];
  const { action, answer, decidedBy, origin } = decide({ ...zone, access_rules: rules }, request);
  if (decidedBy === undefined || answer === undefined) return `${action} ${origin.port} ${origin.ssl}`;
  // As a sender tells them apart.
  expect(answer.headers["cf-mitigated"]).toBe(action === "challenge" ? "challenge" : undefined);
  const text = /<h1>(.*)<\/h1>/.exec(answer.body)?.[1] ?? answer.body;
  return `${answer.status} ${decidedBy.action} ${decidedBy.source} ${decidedBy.ref}: ${text}`;
}

const cells = (plan: PlanRow, column: Column): Cell[] =>
  requests.map((row) => ({ plan, column, row, request: prepared(row, column) }));

/** The cells whose answer is not the stated one. */
function wrong(all: readonly Cell[], zone: ZoneState, without?: Removal): string[] {
  return all.flatMap((cell) => {
    const [found, wanted] = [answer(zone, cell), stated(cell, without)];
    return found === wanted ? [] : [`${cell.row.name}: ${found}, not ${wanted}`];
  });
}

describe.each(plans)("$edge.plan, Bot Fight Mode $edge.botFightMode", (plan) => {
  test.each(columns)("$name: every request gets the stated answer", (column) => {
    expect(wrong(cells(plan, column), zoneOf(plan, column))).toEqual([]);
  });

  // Of a removed skip rule every product makes a difference.
  test.each(removals)("without %s, every request gets the stated answer, and some another one", (without) => {
    let changed = 0;
    for (const column of without === "pushgate_delivery" ? columns : [nothingOn, bots, allOn, columns.at(-1)!]) {
      const all = cells(plan, column);
      expect(wrong(all, zoneOf(plan, column, without), without)).toEqual([]);
      changed += all.filter((cell) => stated(cell) !== stated(cell, without)).length;
    }
    // A removal that changes nothing would prove nothing.
    expect(changed > 0).toBe(without !== "bots" || plan.edge.botFightMode === "off");
  });

  test("the plan accepts count, length, fields and actions of every rule", () => {
    for (const { phase, rules } of zoneOf(plan, nothingOn).rulesets) {
      expect(rules.length).toBeLessThanOrEqual(quota(phase, plan.edge.plan));
      for (const rule of rules) checkRule(rule, phase, plan.edge.plan, "");
    }
  });
});
