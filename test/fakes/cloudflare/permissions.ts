/** What README says that a token needs; as the dashboard names it, whose Edit is the API's Write. */
import type { Settings } from "../../../infra/config/settings.ts";

export const permissions = ({ edge }: Pick<Settings, "edge">): string[] => [
  ...["Zone Read", "DNS Edit", "SSL and Certificates Edit", "Zone WAF Edit", "Origin Rules Edit", "Config Rules Edit"],
  ...(edge.plan === "free" ? [`Bot Management ${edge.botFightMode === undefined ? "Read" : "Edit"}`] : []),
];
