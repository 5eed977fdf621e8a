/**
 * A fake of @pulumi/cloudflare 6.17.0: the resources that pushgate declares and the functions that it calls, over HTTP.
 * It rejects unknown and missing properties and malformed tokens.
 */
import { call, callForAll, configFaults, configureApi } from "./cloudflare-api.ts";
import { type Kind, pick, resource } from "./cloudflare-resource.ts";
import { type Props, serveProvider } from "./provider.ts";

const object = async (answer: Promise<unknown>): Promise<Props> => (await answer) as Props;
const without = (props: Props, ...keys: string[]): Props =>
  Object.fromEntries(Object.entries(props).filter(([key]) => !keys.includes(key)));

/** Removes the fields of a rule that the provider's schema lacks, as the real provider does. */
function asProvider(answer: Props): Props {
  const rules = ((answer.rules ?? []) as Props[]).map((rule) => ({
    ...rule,
    ...(rule.actionParameters ? { actionParameters: without(rule.actionParameters as Props, "phase") } : {}),
  }));
  return { ...answer, rules };
}

const zonePath = (kind: string) => (props: Props) => `zones/${props.zoneId}/${kind}`;
const records = zonePath("dns_records");
const rulesets = zonePath("rulesets");
const bots = zonePath("bot_management");
const settings = zonePath("settings");
const pulls = zonePath("origin_tls_client_auth/hostnames");

const botFields = [
  ...["aiBotsProtection", "autoUpdateModel", "bmCookieEnabled", "cfRobotsVariant", "contentBotsProtection"],
  ...["crawlerProtection", "enableJs", "fightMode", "isRobotsTxtManaged", "optimizeWordpress", "suppressSessionScore"],
  ...["sbfmDefinitelyAutomated", "sbfmLikelyAutomated", "sbfmStaticResourceProtection", "sbfmVerifiedBots"],
];
const putBots = (inputs: Props) => object(call("PUT", bots(inputs), without(inputs, "zoneId")));
const patchSetting = (inputs: Props) =>
  object(call("PATCH", `${settings(inputs)}/${inputs.settingId}`, { value: inputs.value }));

/** The API has a list, the provider one hostname. The certificate's fields are beside `configs`. */
function pullOutputs(answer: unknown): Props {
  const live = (Array.isArray(answer) ? answer[0] : answer) as Props;
  return { ...without(live, "id", "privateKey"), configs: [pick(live, ["hostname", "certId", "enabled"])] };
}
const hostnameOf = (props: Props): string => String((props.configs as Props[])[0]!.hostname);
const putPull = async (inputs: Props) =>
  pullOutputs(await call("PUT", pulls(inputs), { config: inputs.configs as Props[] }));

const kinds: Readonly<Record<string, Kind>> = {
  "cloudflare:index/dnsRecord:DnsRecord": {
    required: ["zoneId", "name", "ttl", "type"],
    optional: ["comment", "content", "data", "priority", "privateRouting", "proxied", "settings", "tags"],
    computed: ["createdOn", "modifiedOn", "meta", "proxiable"],
    replaces: ["zoneId", "type"],
    deleteBeforeReplace: true,
    importId: /^(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    id: ({ id }) => String(id),
    create: (inputs) => object(call("POST", records(inputs), without(inputs, "zoneId"))),
    read: (id, known) => object(call("GET", `${records(known)}/${id}`)),
    update: (id, inputs) => object(call("PUT", `${records(inputs)}/${id}`, without(inputs, "zoneId"))),
    delete: async (id, outputs) => void (await call("DELETE", `${records(outputs)}/${id}`)),
  },
  "cloudflare:index/ruleset:Ruleset": {
    required: ["kind", "name", "phase"],
    optional: ["zoneId", "accountId", "description", "rules"],
    computed: ["lastUpdated", "version"],
    replaces: ["zoneId", "accountId", "kind", "name", "phase"],
    importId: /^zones\/(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    id: ({ id }) => String(id),
    create: async (inputs) => asProvider(await object(call("POST", rulesets(inputs), without(inputs, "zoneId")))),
    read: async (id, known) => asProvider(await object(call("GET", `${rulesets(known)}/${id}`))),
    update: async (id, inputs) =>
      asProvider(await object(call("PUT", `${rulesets(inputs)}/${id}`, { rules: [], ...without(inputs, "zoneId") }))),
    delete: async (id, outputs) => void (await call("DELETE", `${rulesets(outputs)}/${id}`)),
  },
  "cloudflare:index/botManagement:BotManagement": {
    required: ["zoneId"],
    optional: botFields,
    replaces: ["zoneId"],
    importId: /^(?<zoneId>[^/]+)$/,
    id: ({ zoneId }) => String(zoneId),
    create: putBots,
    read: (_id, known) => object(call("GET", bots(known))),
    update: (_id, inputs) => putBots(inputs),
  },
  "cloudflare:index/zoneSetting:ZoneSetting": {
    required: ["zoneId", "settingId", "value"],
    optional: ["enabled"],
    computed: ["editable", "modifiedOn"],
    replaces: ["zoneId", "settingId"],
    writeOnly: ["settingId"],
    importId: /^(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    id: ({ settingId, id }) => String(settingId ?? id),
    create: patchSetting,
    read: async (id, known) => ({ ...(await object(call("GET", `${settings(known)}/${id}`))), settingId: id }),
    update: (_id, inputs) => patchSetting(inputs),
  },
  "cloudflare:index/originCaCertificate:OriginCaCertificate": {
    required: ["csr", "hostnames", "requestType"],
    optional: ["requestedValidity"],
    computed: ["certificate", "expiresOn"],
    replaces: "all",
    writeOnly: ["csr", "requestedValidity"],
    importId: /^(?<id>[^/]+)$/,
    id: ({ id }) => String(id),
    create: (inputs) => object(call("POST", "certificates", inputs)),
    read: (id) => object(call("GET", `certificates/${id}`)),
    delete: async (id) => void (await call("DELETE", `certificates/${id}`)),
  },
  "cloudflare:index/authenticatedOriginPullsHostnameCertificate:AuthenticatedOriginPullsHostnameCertificate": {
    required: ["zoneId", "certificate", "privateKey"],
    computed: ["expiresOn", "issuer", "serialNumber", "signature", "status", "uploadedOn"],
    replaces: "all",
    writeOnly: ["privateKey"],
    importId: /^(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    id: ({ id }) => String(id),
    create: (inputs) => object(call("POST", `${pulls(inputs)}/certificates`, without(inputs, "zoneId"))),
    read: (id, known) => object(call("GET", `${pulls(known)}/certificates/${id}`)),
    delete: async (id, outputs) => void (await call("DELETE", `${pulls(outputs)}/certificates/${id}`)),
  },
  "cloudflare:index/authenticatedOriginPulls:AuthenticatedOriginPulls": {
    required: ["zoneId", "configs"],
    computed: ["certId", "certStatus", "certificate", "createdAt", "enabled", "expiresOn", "hostname", "status"],
    replaces: ["zoneId"],
    importId: /^(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    id: hostnameOf,
    create: putPull,
    read: async (id, known) => pullOutputs(await call("GET", `${pulls(known)}/${id}`)),
    update: (_id, inputs) => putPull(inputs),
    async delete(id, outputs) {
      const { certId } = (outputs.configs as Props[])[0]!;
      await call("PUT", pulls(outputs), { config: [{ hostname: id, certId, enabled: null }] });
    },
  },
};

/** A function returns every field of its schema: an unset one is null, an empty list or an empty object. */
const dataRule = (rule: Props): Props => ({
  ...{ actionParameters: {}, exposedCredentialCheck: null, logging: null, ratelimit: null, categories: [] },
  ...rule,
});

async function getZone(args: Props): Promise<Props> {
  const name = (args.filter as Props | undefined)?.name;
  if (args.zoneId === undefined && name === undefined) throw new Error("zoneId or filter.name is required");
  let { zoneId } = args;
  if (zoneId === undefined) {
    const found = (await call("GET", `zones?name=${encodeURIComponent(String(name))}`)) as Props[];
    if (found.length !== 1)
      throw new Error(`failed to find exactly one result: found ${found.length} zones named ${name}`);
    zoneId = found[0]!.id;
  }
  return { ...args, ...(await object(call("GET", `zones/${zoneId}`))), zoneId };
}

await serveProvider({
  version: "6.17.0",
  checkConfig: configFaults,
  configure: configureApi,
  resources: Object.fromEntries(Object.entries(kinds).map(([token, kind]) => [token, resource(kind)])),
  functions: {
    "cloudflare:index/getZone:getZone": getZone,
    async "cloudflare:index/getRulesets:getRulesets"(args) {
      const list = await callForAll(rulesets(args));
      return { ...args, id: String(args.zoneId), rulesets: list, results: list };
    },
    async "cloudflare:index/getRuleset:getRuleset"(args) {
      const id = String(args.id ?? args.rulesetId);
      const live = asProvider(await object(call("GET", `${rulesets(args)}/${id}`)));
      return { ...args, ...live, rulesetId: id, rules: (live.rules as Props[]).map(dataRule) };
    },
    async "cloudflare:index/getBotManagement:getBotManagement"(args) {
      const unset = Object.fromEntries(botFields.map((key) => [key, null]));
      return { ...unset, ...args, ...(await object(call("GET", bots(args)))), id: String(args.zoneId) };
    },
    async "cloudflare:index/getIpRanges:getIpRanges"(args) {
      const live = await object(call("GET", "ips"));
      return { jdcloudCidrs: [], ...args, ...live, id: String(live.etag) };
    },
  },
});
