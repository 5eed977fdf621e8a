/** The path of a delivery, each layer after those that protect it; the numbers are those of README's picture. */
import * as pulumi from "@pulumi/pulumi";
import { runLocally } from "./apply/ship.ts";
import { allHostnames, namesOf, siteHostnames, webhookUrls } from "./config/derived.ts";
import { readSettings } from "./config/read.ts";
import { cloudflareApi } from "./edge/api.ts";
import { bots } from "./edge/bots.ts";
import { canary } from "./edge/canary.ts";
import { clientCertificateScript, presentClientCertificate, readClientCertificate } from "./edge/client-certificate.ts";
import { dns } from "./edge/dns.ts";
import { originCertificate } from "./edge/origin-certificate.ts";
import { readPresented, untilPresented } from "./edge/presented.ts";
import { compareRanges } from "./edge/ranges.ts";
import { reportDrift } from "./edge/zone/drift.ts";
import { tryOut } from "./edge/zone/dry-run.ts";
import { assertFits, rulesOf } from "./edge/zone/fits.ts";
import { inspect, type LiveZone } from "./edge/zone/live-zone.ts";
import { keeper, lock, lockHosts, ruleset } from "./edge/zone/lock.ts";
import { declareClientCa, declareHost, probeHosts, rejectDown, summary } from "./host/declare.ts";
import { buildPrograms } from "./host/programs/programs.ts";

const { settings, secrets, access } = readSettings();
const api = cloudflareApi(access);
const names = allHostnames(settings);

void compareRanges(settings.hooks);

// What is there now. All faults of the zone and of every host are reported here, before anything changes.
const [{ live, presented }, probed, programs] = await Promise.all([
  inspect(api, settings.zone).then(judge),
  probeHosts(settings),
  buildPrograms(settings),
]);

async function judge(live: LiveZone) {
  assertFits(settings, live);
  reportDrift(settings, live);
  const [presented] = await Promise.all([readPresented({ api, id: live.id }, names), tryOut(api, settings, live)]);
  return { live, presented };
}

const parent = new pulumi.ComponentResource("pushgate:index:Zone", settings.zone);
const after = (...layers: (pulumi.Resource | undefined)[]) => ({
  parent,
  dependsOn: layers.filter((layer) => layer !== undefined),
});
const keep = keeper(api, live);
const rules = rulesOf(settings);

const script = clientCertificateScript(settings.zone, settings.edge.generation);
const made = readClientCertificate(runLocally("client certificate", script, { parent }));
// The key beside the CA makes all of it secret. The CA is public: unmarked, preview can show what changes in nginx.
const clientCa = pulumi.unsecret(made.apply(({ ca }) => ca));

// The hosts' layers: receiver and sockets (8, 7), builder and site (9), nginx (6), firewall (5).
const inputs = { settings, programs, secrets, zoneId: live.id, clientCa, signOrigin: originCertificate };
const hosts = probed.map((host) => declareHost(host, inputs));
const applied = hosts.map(({ last }) => last);

// Cloudflare's layers, side by side, once every host is ready for them.
const onceApplied = after(...applied);

// 4: Cloudflare presents the client certificate, contacts the origin port and checks the origin certificate.
const zone = { api, id: live.id };
const presentations = presentClientCertificate(zone, presented, names, made, onceApplied);
const strictTls = ruleset(live, "config", rules.config, keep, onceApplied);
const originPort = ruleset(live, "origin", rules.origin, keep, onceApplied);

// 6 again: nginx stops trusting the former client certificate once Cloudflare presents the new one, and leaves a former port.
const clientCas = hosts.map((host) => {
  const own = namesOf(settings, host.host);
  const mine = presentations.filter(({ hostname }) => own.includes(hostname));
  const [certId = ""] = mine.map((one) => one.certId);
  const presents = (id: string) => Promise.all(own.map((name) => untilPresented(zone, name, id)));
  const resources = mine.flatMap(({ resource }) => [resource, ...(originPort ? [originPort] : [])]);
  return declareClientCa(host, inputs, { certId, resources }, presents);
});

// 3: no rule can skip Bot Fight Mode, which is off only where the operator chose that. 2: a signed delivery skips every
// other product; every other request is blocked.
const botManagement = bots(settings, live, onceApplied);
const waf = ruleset(live, "custom", rules.custom, keep, onceApplied);

// 1: the names that lead to the hosts, after everything else.
const clientCertificates = presentations.map(({ resource }) => resource);
const edge = [...clientCertificates, strictTls, originPort, botManagement, waf];
const records = dns(settings, live.id, after(...applied, ...edge, ...clientCas));

// The last resources, and so the first that `pulumi destroy` meets: they reject the destroy while hosts are present.
lock(keep, records, parent);
lockHosts(hosts, records);

// Last of all, so that the other hosts and Cloudflare are done.
rejectDown(hosts, after(...records, ...clientCas).dependsOn);

canary(settings, access.baseUrl, records);
summary(settings, [...applied, ...clientCas, ...records]);

/** URLs to enter at the git host, by hook and host. `npx pushgate hook` prints them with their secrets. */
export const webhooks = Object.fromEntries(
  webhookUrls(settings).map(({ hook, host, url }) => [`${hook} on ${host}`, url]),
);
export const sites = siteHostnames(settings).map((hostname) => `https://${hostname}/`);
