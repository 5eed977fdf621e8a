/** The Rulesets API for one zone: one ruleset a phase, all its rules replaced at once, a rule's id kept by its `ref`. */
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { checkRule, phases, quota } from "./entitlements.ts";
import { byId, type Call, found, now, Refusal, type Reply, type Route } from "./refusal.ts";
import { entryPoint, type Rule, type Ruleset, withoutEmpty, withoutNulls, type ZoneState } from "./zone.ts";

const newId = (): string => randomBytes(16).toString("hex");

const refuse = (message: string, pointer: string, code = 20003): never => {
  throw new Refusal(400, code, message, pointer);
};

/** What a request may carry; the rest is computed, and the API rejects unknown fields by name. */
const rulesetFields = ["id", "name", "description", "kind", "phase", "rules", "version", "last_updated"];
const ruleFields = [
  ...["id", "ref", "version", "action", "action_parameters", "categories", "description", "enabled", "expression"],
  ...["exposed_credential_check", "last_updated", "logging", "ratelimit"],
];

function known(given: object, allowed: readonly string[], pointer: string): void {
  for (const name of Object.keys(given))
    if (!allowed.includes(name)) refuse(`invalid JSON: unknown field "${name}"`, `${pointer}/${name}`, 20002);
}

function checked(zone: ZoneState, given: readonly Partial<Rule>[], before: Ruleset | undefined, phase: string): Rule[] {
  const most = quota(phase, zone.plan);
  const exceeded = `exceeded the maximum number of rules in the phase ${phase}: ${given.length} out of ${most}`;
  if (given.length > most) refuse(exceeded, "/rules", 50001);
  const refs = new Set<string>();
  return given.map((rule, index) => {
    const at = `/rules/${index}`;
    known(rule, ruleFields, at);
    if ((rule.description?.length ?? 0) > 500) refuse("the description is too long", `${at}/description`);
    const old = before?.rules.find((one) => (rule.ref === undefined ? one.id === rule.id : one.ref === rule.ref));
    const id = old?.id ?? newId();
    const { version: _, last_updated: __, ...content } = { ...rule, id, ref: rule.ref ?? old?.ref ?? id };
    if (refs.has(content.ref)) refuse(`'${content.ref}' is not a valid value for ref because it is not unique`, at);
    refs.add(content.ref);
    // A skip is logged unless the rule says otherwise.
    const logging = rule.action === "skip" ? { logging: rule.logging ?? { enabled: true } } : {};
    const made = { ...content, ...logging, enabled: rule.enabled ?? true } as Rule;
    checkRule(made, phase, zone.plan, at);
    const { version, last_updated, ...kept } = old ?? ({} as Rule);
    // Empty parameters and an empty description are no change of what a rule does.
    const [was, is] = withoutEmpty([kept as Rule, made]);
    const same = old !== undefined && isDeepStrictEqual(was, is);
    if (same) return { ...made, version, last_updated };
    return { ...made, version: `${Number(version ?? 0) + 1}`, last_updated: now() };
  });
}

export function rulesetRoutes(zone: ZoneState): Route[] {
  const one = ({ params: { id } }: Call): Ruleset =>
    byId(zone.rulesets, id, 20000, `could not find ruleset with ID "${id}"`);
  const permissionFor = (phase: string): string =>
    Object.hasOwn(phases, phase)
      ? phases[phase]!.permission
      : refuse(`'${phase}' is not a valid value for phase`, "/phase");
  const read = (call: Call, ruleset: Ruleset): Reply => {
    call.demand(`${phases[ruleset.phase]?.permission ?? "Zone WAF"} Read`);
    return { result: ruleset };
  };
  const dry = ({ query }: Call): boolean => query.get("dry_run") === "true";

  function write(call: Call, before: Ruleset | undefined, phase: string): Reply {
    const given = withoutNulls(call.body) as Partial<Ruleset>;
    call.demand(`${permissionFor(phase)} Write`);
    known(given, rulesetFields, "");
    for (const name of ["kind", "phase"] as const)
      if (before && given[name] !== undefined && given[name] !== before[name])
        refuse(`'${given[name]}' is not a valid value for ${name} because it cannot change`, `/${name}`);
    const rules = checked(zone, given.rules ?? [], before, phase);
    if (dry(call)) return { result: null };
    const ruleset: Ruleset = {
      ...{ id: before?.id ?? newId(), kind: "zone", phase, rules, last_updated: now() },
      name: given.name ?? before?.name ?? "default",
      description: given.description ?? before?.description ?? "",
      version: `${Number(before?.version ?? 0) + 1}`,
    };
    zone.rulesets = [...zone.rulesets.filter((each) => each !== before), ruleset];
    return { result: ruleset };
  }

  function create(call: Call): Reply {
    const { kind, phase = "", name } = call.body as Partial<Ruleset>;
    permissionFor(phase);
    if (kind !== "zone") refuse(`'${kind}' is not a valid value for kind`, "/kind");
    if (!name) refuse("'' is not a valid value for name because it cannot be blank", "/name");
    const because = `exceeded maximum number of zone rulesets for phase ${phase}`;
    if (entryPoint(zone, phase)) refuse(`'zone' is not a valid value for kind because ${because}`, "/kind", 20217);
    return write(call, undefined, phase);
  }

  function remove(call: Call): Reply {
    const ruleset = one(call);
    call.demand(`${permissionFor(ruleset.phase)} Write`);
    zone.rulesets = zone.rulesets.filter((each) => each !== ruleset);
    return { status: 204 };
  }

  function ofPhase(call: Call): Reply {
    const { phase = "" } = call.params;
    call.demand(`${permissionFor(phase)} Read`);
    return read(call, found(entryPoint(zone, phase), 10003, `could not find entrypoint ruleset in the ${phase} phase`));
  }

  const R = "/zones/:zone/rulesets";
  return [
    ["POST", R, undefined, create],
    ["GET", `${R}/phases/:phase/entrypoint`, undefined, ofPhase],
    ["GET", `${R}/:id`, undefined, (call) => read(call, one(call))],
    ["PUT", `${R}/:id`, undefined, (call) => write(call, one(call), one(call).phase)],
    ["DELETE", `${R}/:id`, undefined, remove],
  ];
}
