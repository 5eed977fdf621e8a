/**
 * Rules that a zone's owner may have in the phases that pushgate writes to: one of each phase is off, one has a logging
 * option, and some skip. They have what a careless copy would lose: a missing ref, a missing and an empty description,
 * quotes, line ends.
 */
import { type Rule, withoutEmpty } from "../fakes/cloudflare/zone.ts";

/** What a rule does, for a comparison: also without the two fields that change with each write. */
export const content = (rules: readonly Rule[]) =>
  withoutEmpty(rules).map(({ version: _, last_updated: __, ...rest }) => rest);

export const custom = "http_request_firewall_custom";
export const origin = "http_request_origin";
export const config = "http_config_settings";

export const foreignRules: Readonly<Record<string, readonly object[]>> = {
  [custom]: [
    {
      ...{ action: "skip", expression: 'ip.src in {192.0.2.0/24} and http.user_agent ne "a \\"b\\" \\\\"' },
      action_parameters: { phases: ["http_ratelimit"], products: ["uaBlock", "bic"] },
      ...{ logging: { enabled: false }, description: "office — skips\nwhat it needs" },
    },
    {
      ...{ ref: "their_block", action: "block", expression: 'http.host eq "old.example.org"', enabled: false },
      action_parameters: { response: { status_code: 410, content: "gone\n", content_type: "text/plain" } },
      description: "",
    },
    {
      ...{ action: "skip", expression: '(http.request.uri.path eq "/health")', description: "health" },
      ...{ action_parameters: { ruleset: "current" }, logging: { enabled: true } },
    },
  ],
  [origin]: [
    {
      ...{ action: "route", expression: 'http.host eq "b.example.org"', enabled: false, description: "off" },
      action_parameters: { origin: { port: 8081 } },
    },
    {
      ...{ ref: "their_route", action: "route", expression: "ssl", logging: { enabled: true }, description: "" },
      action_parameters: { origin: { port: 8082 } },
    },
  ],
  [config]: [
    {
      ...{ action: "set_config", expression: "not ssl", enabled: false, description: "off" },
      action_parameters: { ssl: "flexible", bic: false, rocket_loader: true, security_level: "essentially_off" },
    },
    {
      ...{ ref: "their_config", action: "set_config", expression: 'http.host eq "a.example.org"' },
      ...{ action_parameters: { email_obfuscation: false }, logging: { enabled: false } },
    },
  ],
};
