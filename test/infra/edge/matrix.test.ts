/**
 * Every request, on every plan and with every product on that rejects requests: Cloudflare's answer, and the cells that
 * change if one of pushgate's rules is removed. The answers are stated here by kind of request; `decide` computes them
 * from the rules that infra/edge renders.
 */
import { describe, expect, test } from "vitest";
import type { Edge, Settings } from "../../../infra/config/settings.ts";
import { botSettings } from "../../../infra/edge/bots.ts";
import { records } from "../../../infra/edge/dns.ts";
import { edgeFaults, rulesOf } from "../../../infra/edge/zone/fits.ts";
import { merged, type PhaseName, phaseNames, phases, type Rule } from "../../../infra/edge/zone/phase.ts";
import { checkRule, quota } from "../../fakes/cloudflare/entitlements.ts";
import { decide } from "../../fakes/cloudflare/plane.ts";
import { type EdgeRequest, isAutomated } from "../../fakes/cloudflare/request.ts";
import { type Declared, emptyZone, type ZoneState, zoneFromDeclarations } from "../../fakes/cloudflare/zone.ts";
import { everyGitHost, fromEverywhere, otherHostname, type Row, requests } from "./requests.ts";

type PlanRow = {
  readonly name: string;
  readonly edge: Edge;
  /** Bot Fight Mode was on before pushgate came. */
  readonly fights?: true;
};
const plans: readonly PlanRow[] = [
  { name: "free, Bot Fight Mode switched off by choice", edge: { plan: "free", botFightMode: "off", generation: 1 } },
  { name: "free, Bot Fight Mode on", edge: { plan: "free", generation: 1 }, fights: true },
  ...(["pro", "business", "enterprise", "enterprise-bots"] as const).map((plan) => ({
    ...{ name: plan, edge: { plan, generation: 1 } },
  })),
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
const single = (name: string, ...on: Stage[]): Column => ({ name, on });
const columns: readonly Column[] = [
  single("nothing on"),
  single("a custom rule that challenges every request", "custom"),
  single("a rate rule that every request exceeds", "rate"),
  single("managed rules that match", "managed"),
  single("bot products at block", "sbfm", "botFight"),
  single("zone lockdown", "lockdown"),
  single("user agent blocks", "ua"),
  single("Browser Integrity Check", "bic"),
  single("under attack", "security"),
  single("all of it", ...stages),
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

type Removal =
  | "pushgate_delivery"
  | "pushgate_rest"
  | "pushgate_strict_tls"
  | "pushgate_origin_8443"
  | "records"
  | "bots";
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

const zoneRule = { enabled: true, description: "" };
function foreign({ edge: { plan } }: PlanRow, { on }: Column): Rule[] {
  const scored = on.includes("sbfm") && plan === "enterprise-bots";
  if (!scored && !on.includes("custom")) return [];
  const expression = scored ? "cf.bot_management.score lt 30" : 'http.host ne ""';
  return [{ ...zoneRule, ref: "zone_custom", action: "managed_challenge", expression }];
}

const ruleset = (phase: string, rules: readonly object[]): Declared => ({
  ...{ type: "cloudflare:index/ruleset:Ruleset", name: phase },
  inputs: { kind: "zone", name: "default", phase, rules },
});

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
  if (on.includes("ua"))
    base.user_agent_blocks = [...requests, ...fromEverywhere].flatMap(({ request }) => agentOf(request.headers));
  base.dns_records.push({ id: "www", name: otherHostname, type: "A", content: "203.0.113.80", proxied: true, ttl: 1 });

  const declaredRules = rulesOf(settings);
  const sets = phaseNames.map((name: PhaseName) => {
    const rules = merged(name, declaredRules[name], name === "custom" ? foreign(plan, column) : []);
    return ruleset(
      phases[name].phase,
      rules.filter(({ ref }) => ref !== without),
    );
  });
  if (on.includes("rate")) sets.push(ruleset("http_ratelimit", [rateRule]));
  const wantedBots = without === "bots" ? undefined : botSettings(plan.edge);
  const resources: Declared[] = [
    ...sets,
    ...(wantedBots ? [{ type: "cloudflare:index/botManagement:BotManagement", name: "bots", inputs: wantedBots }] : []),
    ...(without === "records" ? [] : records(settings)).map((inputs) => ({
      ...{ type: "cloudflare:index/dnsRecord:DnsRecord", name: `${inputs.name} ${inputs.type}`, inputs },
    })),
  ];
  return zoneFromDeclarations(resources, base);
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
    ...(on.includes("sbfm") ? { automated: true, score: 1 } : {}),
    counted: () => (on.includes("rate") ? 6 : 1),
  };
}

function answer(zone: ZoneState, { column: { access }, request }: Cell): string {
  const configuration = { target: "ip", value: request.source };
  const rules = access ? [{ id: "a", notes: "", mode: access, configuration }] : [];
  const { action, answer, decidedBy, origin } = decide({ ...zone, access_rules: rules }, request);
  if (decidedBy === undefined || answer === undefined) return `${action} ${origin.port} ${origin.ssl}`;
  // As a sender tells them apart.
  expect(answer.headers["cf-mitigated"]).toBe(action === "challenge" ? "challenge" : undefined);
  const text = /<h1>(.*)<\/h1>/.exec(answer.body)?.[1] ?? answer.body;
  return `${answer.status} ${decidedBy.action} ${decidedBy.source} ${decidedBy.ref}: ${text}`;
}

const cells = (plan: PlanRow, column: Column, rows: readonly Row[]): Cell[] =>
  rows.map((row) => ({ plan, column, row, request: prepared(row, column) }));
const wrong = ({ plan, column, row }: Cell, found: string, wanted: string): string[] =>
  found === wanted ? [] : [`${plan.name} / ${column.name} / ${row.name}: ${found}, not ${wanted}`];

describe.each(plans)("$name", (plan) => {
  test.each(columns)("$name: every request gets the stated answer", (column) => {
    const zone = zoneOf(plan, column);
    expect(cells(plan, column, requests).flatMap((cell) => wrong(cell, answer(zone, cell), stated(cell)))).toEqual([]);
  });

  /** The cells that change if it is removed; all others stay as they are. */
  const changes: Record<Removal, (cell: Cell, before: string) => boolean> = {
    // Every delivery is then one of the rest, even where Bot Fight Mode stopped it before.
    pushgate_delivery: ({ row, column }) => row.is === "delivery" && column.access === undefined,
    pushgate_rest: ({ row, column }) => row.is === "nothing" && column.access === undefined,
    // Without these two no request is rejected, but it goes to another port, or to another server there.
    pushgate_strict_tls: ({ row }, before) => row.is !== "elsewhere" && before.startsWith("forward"),
    pushgate_origin_8443: ({ row }, before) => row.is !== "elsewhere" && before.startsWith("forward"),
    records: ({ row }) => row.is !== "elsewhere",
    // The one declaration that reaches the whole zone, which is why it is the operator's to choose.
    bots: ({ column, request }, before) =>
      plan.edge.botFightMode === "off" &&
      column.on.includes("botFight") &&
      isAutomated(request) &&
      (before.startsWith("forward") ||
        stages.indexOf("botFight") < stages.findIndex((stage) => rejections[stage] === before)),
  };
  test.each(Object.keys(changes) as Removal[])("without %s, exactly the expected cells change", (without) => {
    let changed = 0;
    for (const column of columns) {
      const [whole, less] = [zoneOf(plan, column), zoneOf(plan, column, without)];
      const faults = cells(plan, column, requests).flatMap((cell) => {
        const [before, after] = [answer(whole, cell), answer(less, cell)];
        if (after !== before) changed++;
        const expected = changes[without](cell, before) ? after !== before : after === before;
        return [
          ...wrong(cell, after, stated(cell, without)),
          ...(expected ? [] : [`${column.name} / ${cell.row.name}: ${before} became ${after}`]),
        ];
      });
      expect(faults).toEqual([]);
    }
    // A removal that changes nothing would prove nothing.
    expect(changed > 0).toBe(without !== "bots" || plan.edge.botFightMode === "off");
  });

  test("the plan accepts count, length, fields and actions of every rule", () => {
    for (const column of columns) {
      for (const { phase, rules } of zoneOf(plan, column).rulesets) {
        expect(rules.length).toBeLessThanOrEqual(quota(phase, plan.edge.plan));
        rules.forEach((rule, index) => {
          checkRule(rule, phase, plan.edge.plan, `/rules/${index}`);
        });
      }
    }
  });
});

// What a plan changes is above; a range is admitted by one rule on each.
test.each([plans[0]!, plans[2]!])(
  "$name: both ends of every git host's ranges get the stated answer, and one address outside of each end, too",
  (plan) => {
    for (const column of [columns[0]!, columns.find(({ name }) => name === "all of it")!])
      for (const without of [undefined, "pushgate_delivery", "pushgate_rest"] as const) {
        const zone = zoneOf(plan, column, without);
        const all = cells(plan, column, fromEverywhere);
        expect(all.flatMap((cell) => wrong(cell, answer(zone, cell), stated(cell, without)))).toEqual([]);
      }
  },
);

test("preview rejects exactly the plans on which Cloudflare would reject deliveries", () => {
  const empty = { name: "default", description: "", rules: [] };
  const faults = plans.map((plan) =>
    edgeFaults(settingsOf(plan), {
      ...{ id: "z", name: "example.org", plan: plan.edge.plan.replace("-bots", "") },
      ...(plan.edge.plan === "free" ? { botFightMode: true } : {}),
      phases: { custom: empty, origin: empty, config: empty },
    }),
  );
  const rejectsDeliveries = plans.map((plan) =>
    cells(plan, columns[0]!, requests).some(
      (cell) => cell.row.is === "delivery" && !stated(cell).startsWith("forward"),
    ),
  );
  expect(rejectsDeliveries).toEqual([false, true, false, false, false, false]);
  expect(faults.map((each) => each.length > 0)).toEqual(rejectsDeliveries);
  expect(faults.flat()).toEqual([expect.stringContaining("pushgate:edge.botFightMode off")]);
  const chosen = plans.map(({ edge }) => botSettings({ ...edge, botFightMode: "off" }) !== undefined);
  expect(chosen).toEqual(plans.map(({ edge }) => edge.plan === "free"));
});

test.each([
  [false, undefined, []],
  [true, undefined, ["403 managed_challenge botFight bot_fight_mode"]],
  [false, "off", []],
  [true, "off", []],
] as const)(
  "on free, with Bot Fight Mode %s before and botFightMode %s, preview fails exactly where Cloudflare rejects",
  (fights, botFightMode, rejected) => {
    const edge: Edge = { plan: "free", generation: 1, ...(botFightMode && { botFightMode }) };
    const plan: PlanRow = { name: "free", edge, ...(fights && { fights }) };
    const found = cells(plan, columns[0]!, requests)
      .filter(({ row, request }) => row.is === "delivery" && isAutomated(request))
      .map((cell) => answer(zoneOf(plan, cell.column), cell));
    expect(new Set(found.filter((each) => !each.startsWith("forward")).map((each) => each.split(":")[0]))).toEqual(
      new Set(rejected),
    );
    const empty = { name: "default", description: "", rules: [] };
    const live = {
      id: "z",
      name: "example.org",
      plan: "free",
      botFightMode: fights,
      phases: { custom: empty, origin: empty, config: empty },
    };
    expect(edgeFaults(settingsOf(plan), live)).toHaveLength(rejected.length);
  },
);

test("the table has every kind of request, in both address families", () => {
  expect(requests.length).toBeGreaterThanOrEqual(25);
  expect(new Set(requests.map(({ name }) => name)).size).toBe(requests.length);
  // A neighbour's range is no gap: 9.234.98.160/28 ends where 9.234.98.176/28 begins.
  const inside = fromEverywhere.filter(({ name, is }) => is === "delivery" && name.includes(" from one "));
  expect(inside.map(({ name }) => name)).toContain("github from one after 9.234.98.160/28");
  for (const [family, mark] of Object.entries({ 4: ".", 6: ":" }))
    for (const is of ["delivery", "nothing"] as const)
      expect([family, is, fromEverywhere.some((row) => row.is === is && row.request.source.includes(mark))]).toContain(
        true,
      );
});
