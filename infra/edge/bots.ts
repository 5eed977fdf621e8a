/**
 * Bot management, by plan. Where it runs in the rules engine the skip rule reaches it and nothing is declared here.
 * The free plan's Bot Fight Mode runs outside it: no rule, page rule or configuration rule skips it, and whether an IP
 * Access rule does is contested in the vendor's own pages. What is left is to switch it off for the whole zone, which
 * is the operator's to say (`botFightMode: off`).
 */
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { hostnames } from "../config/hostnames.ts";
import type { Edge, Settings } from "../config/settings.ts";

/** Only what this plan has: a field of another plan's makes the provider's result inconsistent. */
export function botSettings({ plan, botFightMode }: Edge): { fightMode: false; enableJs: true } | undefined {
  // enableJs is always true on free; left out, it shows as a difference for ever.
  return plan === "free" && botFightMode === "off" ? { fightMode: false, enableJs: true } : undefined;
}

export function bots(
  settings: Pick<Settings, "edge" | "hosts">,
  zoneId: pulumi.Input<string>,
  opts: pulumi.CustomResourceOptions = {},
): cloudflare.BotManagement | undefined {
  const wanted = botSettings(settings.edge);
  if (wanted === undefined) return undefined;
  if (hostnames(settings).length > 0)
    return new cloudflare.BotManagement("Bot Fight Mode", { zoneId, ...wanted }, opts);
  // The API has no delete for it, and nobody remembers what it was.
  void pulumi.log.warn(
    "Bot Fight Mode stays off: if the zone had it on before pushgate, switch it on in the dashboard",
  );
  return undefined;
}
