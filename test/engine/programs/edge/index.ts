/** One of each Cloudflare resource that pushgate declares, in its smallest form; certificates only if configured. */
import * as cloudflare from "@pulumi/cloudflare";
import * as pulumi from "@pulumi/pulumi";
import { presentClientCertificate } from "../../../../infra/edge/client-certificate.ts";
import { readPresented } from "../../../../infra/edge/presented.ts";

const config = new pulumi.Config();
const cloudflareConfig = new pulumi.Config("cloudflare");
const zone = await cloudflare.getZone({ filter: { name: config.require("zone") } });
const zoneId = zone.id;
const hostname = `hooks.${zone.name}`;

export const plan = zone.plan.legacyId;
export const fightMode = (await cloudflare.getBotManagement({ zoneId })).fightMode;
export const ranges = (await cloudflare.getIpRanges({})).ipv4Cidrs.length;
const { rulesets } = await cloudflare.getRulesets({ zoneId });
const read = await Promise.all(rulesets.map(({ id }) => cloudflare.getRuleset({ zoneId, id })));
export const liveRefs = read.flatMap(({ rules }) => rules.map(({ ref }) => ref));

new cloudflare.Ruleset("custom rules", {
  ...{ zoneId, kind: "zone", phase: "http_request_firewall_custom", name: "default", description: "" },
  rules: [
    {
      ...{ ref: "hooks_skip", action: "skip", enabled: true, description: "deliveries", logging: { enabled: true } },
      expression: `http.host eq "${hostname}" and http.request.method eq "POST"`,
      actionParameters: { ruleset: "current", phases: ["http_ratelimit"], products: ["bic"] },
    },
    {
      ref: "hooks_block",
      action: "block",
      enabled: true,
      description: "rest",
      expression: `http.host eq "${hostname}"`,
    },
  ],
});
new cloudflare.BotManagement("bots", { zoneId, fightMode: false, enableJs: true });
new cloudflare.DnsRecord("record", {
  ...{ zoneId, name: hostname, type: config.get("type") ?? "A", proxied: true, ttl: 1 },
  content: config.get("content") ?? "203.0.113.10",
});

const csr = config.get("csr");
if (csr !== undefined) {
  const args = { csr, hostnames: [hostname], requestType: "origin-ecc", requestedValidity: 5475 };
  new cloudflare.OriginCaCertificate("origin", args, { ignoreChanges: ["requestedValidity"] });
  const certificate = config.require("certificate");
  const access = { baseUrl: cloudflareConfig.require("baseUrl"), token: cloudflareConfig.require("apiToken") };
  // "blind" removes the program's look at Cloudflare.
  const live = config.getBoolean("blind") ? new Map() : await readPresented(zoneId, [hostname]);
  const presented = { id: zoneId, live, access };
  presentClientCertificate(presented, [hostname], { certificate, key: config.requireSecret("privateKey") });
}
