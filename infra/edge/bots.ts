/** Layer 3. waf.ts's delivery rule skips bot products; no rule skips the free plan's Bot Fight Mode. */
import * as pulumi from "@pulumi/pulumi";
import { hookHostnames } from "../config/derived.ts";
import type { Settings } from "../config/settings.ts";
import { cloudflare } from "./provider.ts";
import type { LiveZone } from "./zone/live-zone.ts";

export function bots(
  settings: Settings,
  { id: zoneId, managedRobotsTxt }: Pick<LiveZone, "id" | "managedRobotsTxt">,
  opts: pulumi.CustomResourceOptions = {},
) {
  if (settings.edge.botFightMode === undefined) return undefined;
  // Only fields of the free plan: another plan's field makes the provider's result inconsistent. Left out, enableJs, which is
  // always true there, shows as a difference at each preview, and the zone's managed robots.txt goes off (decision 022).
  const args = { zoneId, fightMode: false, enableJs: true, isRobotsTxtManaged: managedRobotsTxt === true };
  if (hookHostnames(settings).length > 0) return new cloudflare.BotManagement("Bot Fight Mode", args, opts);
  // The API cannot delete the setting, and the state does not hold the value it had before.
  void pulumi.log.warn(
    "Bot Fight Mode stays off. If the zone had it on before pushgate, switch it on in Cloudflare's dashboard.",
  );
  return undefined;
}
