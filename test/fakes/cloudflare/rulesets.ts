/** The Rulesets API for one zone: one ruleset a phase, all its rules replaced at once, a rule's id kept by its `ref`. */
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { checkRule, phases, quota } from "./entitlements.ts";
import { type Call, cursored, found, now, Refusal, type Reply, type Route } from "./refusal.ts";
import { entryPoint, type Rule, type Ruleset, withoutEmpty, withoutNulls, type ZoneState } from "./zone.ts";

const newId = (): string => randomBytes(16).toString("hex");

/** What a request may carry; the rest is computed, and the API rejects unknown fields by name. */
const rulesetFields = ["id", "name", "description", "kind", "phase", "rules", "version", "last_updated"];
const ruleFields = [
  ...["id", "ref", "version", "action", "action_parameters", "categories", "description", "enabled", "expression"],
  ...["exposed_credential_check", "last_updated", "logging", "ratelimit"],
];
const longestDescription = 500;

function known(given: object, allowed: readonly string[], pointer: string): void {
  for (const name of Object.keys(given))
    if (!allowed.includes(name))
      throw new Refusal(400, 20002, `invalid JSON: unknown field "${name}"`, `${pointer}/${name}`);
}

function checked(zone: ZoneState, given: readonly Partial<Rule>[], before: Ruleset | undefined, phase: string): Rule[] {
  const most = quota(phase, zone.plan);
  if (given.length > most)
    throw new Refusal(
      400,
      50001,
      `exceeded the maximum number of rules in the phase ${phase}: ${given.length} out of ${most}`,
      "/rules",
    );
  const refs = new Set<string>();
  return given.map((rule, index) => {
    const at = `/rules/${index}`;
    known(rule, ruleFields, at);
    if ((rule.description?.length ?? 0) > longestDescription)
      throw new Refusal(400, 20003, "the description is too long", `${at}/description`);
    const old = before?.rules.find((one) => (rule.ref === undefined ? one.id === rule.id : one.ref === rule.ref));
    const id = old?.id ?? newId();
    const { version: _, last_updated: __, ...content } = { ...rule, id, ref: rule.ref ?? old?.ref ?? id };
    if (refs.has(content.ref))
      throw new Refusal(400, 20003, `'${content.ref}' is not a valid value for ref because it is not unique`, at);
    refs.add(content.ref);
    // A skip is logged unless the rule says otherwise.
    const logging = rule.action === "skip" ? { logging: rule.logging ?? { enabled: true } } : {};
    const made = { ...content, ...logging, enabled: rule.enabled ?? true } as Rule;
    checkRule(made, phase, zone.plan, at);
    const { version, last_updated, ...kept } = old ?? ({} as Rule);
    // Empty parameters and an empty description are no change of what a rule does.
    const [was, is] = withoutEmpty([kept as Rule, made]);
    const same = old !== undefined && isDeepStrictEqual(was, is);
    return {
      ...made,
      version: same ? version : `${Number(version ?? 0) + 1}`,
      last_updated: same ? last_updated : now(),
    };
  });
}

export function rulesetRoutes(zone: ZoneState): Route[] {
  const byId = ({ params }: Call): Ruleset =>
    found(
      zone.rulesets.find(({ id }) => id === params.id),
      20000,
      `could not find ruleset with ID "${params.id}"`,
    );
  const inPhase = (phase: string): Ruleset | undefined => entryPoint(zone, phase);
  const permissionFor = (phase: string): string => {
    if (!Object.hasOwn(phases, phase))
      throw new Refusal(400, 20003, `'${phase}' is not a valid value for phase`, "/phase");
    return phases[phase]!.permission;
  };
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
        throw new Refusal(
          400,
          20003,
          `'${given[name]}' is not a valid value for ${name} because it cannot change`,
          `/${name}`,
        );
    const rules = checked(zone, given.rules ?? [], before, phase);
    if (dry(call)) return { result: null };
    const ruleset: Ruleset = {
      id: before?.id ?? newId(),
      name: given.name ?? before?.name ?? "default",
      description: given.description ?? before?.description ?? "",
      kind: "zone",
      version: `${Number(before?.version ?? 0) + 1}`,
      phase,
      last_updated: now(),
      rules,
    };
    zone.rulesets = [...zone.rulesets.filter((one) => one !== before), ruleset];
    return { result: ruleset };
  }

  function create(call: Call): Reply {
    const { kind, phase = "", name } = call.body as Partial<Ruleset>;
    permissionFor(phase);
    if (kind !== "zone") throw new Refusal(400, 20003, `'${kind}' is not a valid value for kind`, "/kind");
    if (!name) throw new Refusal(400, 20003, "'' is not a valid value for name because it cannot be blank", "/name");
    if (inPhase(phase)) {
      const because = `exceeded maximum number of zone rulesets for phase ${phase}`;
      throw new Refusal(400, 20217, `'zone' is not a valid value for kind because ${because}`, "/kind");
    }
    return write(call, undefined, phase);
  }

  function remove(call: Call): Reply {
    const ruleset = byId(call);
    call.demand(`${permissionFor(ruleset.phase)} Write`);
    if (dry(call)) return { result: null };
    zone.rulesets = zone.rulesets.filter((one) => one !== ruleset);
    return { status: 204, result: null };
  }

  const phase = ({ params }: Call): string => params.phase ?? "";
  const missing = (name: string) => `could not find entrypoint ruleset in the ${name} phase`;
  return [
    [
      "GET",
      "/zones/:zone/rulesets",
      "Zone WAF Read",
      ({ query }) =>
        cursored(
          zone.rulesets.map(({ rules: _, ...about }) => about),
          query,
        ),
    ],
    ["POST", "/zones/:zone/rulesets", undefined, create],
    [
      "GET",
      "/zones/:zone/rulesets/phases/:phase/entrypoint",
      undefined,
      (call) => read(call, found(inPhase(phase(call)), 10003, missing(phase(call)))),
    ],
    [
      "PUT",
      "/zones/:zone/rulesets/phases/:phase/entrypoint",
      undefined,
      (call) => write(call, inPhase(phase(call)), phase(call)),
    ],
    ["GET", "/zones/:zone/rulesets/:id", undefined, (call) => read(call, byId(call))],
    ["PUT", "/zones/:zone/rulesets/:id", undefined, (call) => write(call, byId(call), byId(call).phase)],
    ["DELETE", "/zones/:zone/rulesets/:id", undefined, remove],
  ];
}
