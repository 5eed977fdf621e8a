/** What must hold in the live zone before anything is written to it. dry-run.ts checks quotas. */
import * as pulumi from "@pulumi/pulumi";
import { hookHostnames } from "../../config/derived.ts";
import type { Settings } from "../../config/settings.ts";
import { configRules, originRules } from "../origin.ts";
import { customRules } from "../waf.ts";
import { CloudflareError, type LiveZone } from "./live-zone.ts";
import { foreignRules, isOurs, lostBy, type PhaseName, phaseNames, phases, quoted, type Rule } from "./phase.ts";

export const rulesOf = (settings: Settings): Record<PhaseName, Rule[]> => ({
  custom: customRules(settings),
  origin: originRules(settings),
  config: configRules(settings),
});

function lossFaults(live: LiveZone): string[] {
  return phaseNames.flatMap((name) =>
    foreignRules(live.phases[name].rules)
      .filter((rule) => lostBy(rule).length > 0)
      .map(
        (rule) =>
          `${phases[name].name}: the zone's own rule ${quoted([rule])} (${rule.action}) would lose ${lostBy(rule).join(", ")}, which the Pulumi provider does not know. Write the rule without, such as with ruleset in place of phase.`,
      ),
  );
}

/** Only a rule that would be damaged may stop a removal. */
export function edgeFaults({ edge: { plan, botFightMode }, ...settings }: Settings, live: LiveZone): string[] {
  const isKnown = ["free", "pro", "business", "enterprise"].includes(live.plan);
  const wanted = isKnown ? `plan: ${live.plan}` : "the plan whose features it shares";
  const ofHooks = {
    [`pushgate:edge.plan is ${plan}, but the zone ${live.name} is on ${live.plan}, and the plan decides what a rule can skip. Write ${wanted}, or check that zone and token are the right ones.`]:
      live.plan !== (plan === "enterprise-bots" ? "enterprise" : plan),
    [`the zone ${live.name} has Bot Fight Mode on, which no rule can skip on the free plan: Cloudflare would answer deliveries with 403, and no log on the host would show them. Run npx pulumi config set --path pushgate:edge.botFightMode off, which has up switch it off for the whole zone, or choose the pro plan, where a rule skips it for hooks alone.`]:
      live.botFightMode === true && botFightMode !== "off",
  };
  const faults = hookHostnames(settings).length > 0 ? Object.entries(ofHooks) : [];
  return [...faults.flatMap(([text, isSo]) => (isSo ? [text] : [])), ...lossFaults(live)];
}

/** Throws CloudflareError. Warns of a ruleset that the stack may have to adopt: only the state knows, which it cannot read. */
export function assertFits(settings: Settings, live: LiveZone): void {
  const faults = edgeFaults(settings, live);
  if (faults.length > 0) throw new CloudflareError(faults);
  const ours = rulesOf(settings);
  for (const name of phaseNames) {
    const { id, rules } = live.phases[name];
    if (ours[name].length > 0 && id !== undefined && !rules.some(isOurs))
      void pulumi.log.warn(
        `the zone ${live.name} has a ruleset for ${phases[name].name} without a rule of pushgate, and a phase takes one ruleset: if this stack has not adopted it, \`up\` fails with 20217. Run npx pushgate adopt first.`,
      );
  }
}
