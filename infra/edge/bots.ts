/** Layer 3. waf.ts's delivery rule skips bot products; no rule skips the free plan's Bot Fight Mode. */
import * as pulumi from "@pulumi/pulumi";
import { hookHostnames } from "../config/derived.ts";
import type { Edge, Settings } from "../config/settings.ts";
import { cloudflare } from "./provider.ts";
import type { LiveZone } from "./zone/live-zone.ts";

/** Only fields of the free plan: another plan's field makes the provider's result inconsistent. */
export function botSettings({ plan, botFightMode }: Edge): { fightMode: false; enableJs: true } | undefined {
  // enableJs is always true on the free plan. Left out, it shows as a difference at each preview.
  return plan === "free" && botFightMode === "off" ? { fightMode: false, enableJs: true } : undefined;
}

export function bots(
  settings: Settings,
  { id: zoneId, managedRobotsTxt }: Pick<LiveZone, "id" | "managedRobotsTxt">,
  opts: pulumi.CustomResourceOptions = {},
) {
  const wanted = botSettings(settings.edge);
  if (wanted === undefined) return undefined;
  // Left out, the provider would switch the zone's managed robots.txt off: it fills in false (decision 022).
  const args = { zoneId, ...wanted, isRobotsTxtManaged: managedRobotsTxt === true };
  if (hookHostnames(settings).length > 0) return new cloudflare.BotManagement("Bot Fight Mode", args, opts);
  // The API cannot delete the setting, and the state does not hold the value it had before.
  void pulumi.log.warn(
    "Bot Fight Mode stays off. If the zone had it on before pushgate, switch it on in Cloudflare's dashboard.",
  );
  return undefined;
}
