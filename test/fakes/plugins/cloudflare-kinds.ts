/**
 * The resources of the fake cloudflare plugin: each as strict, and as blind in a refresh, as @pulumi/cloudflare 6.17.0
 * (terraform-provider-cloudflare 5.19.1). docs/decisions/022-what-a-refresh-does-not-see.md has the table, and
 * cloudflare-kinds.slow.test.ts compares both.
 */
import { call } from "./cloudflare-api.ts";
import type { Kind } from "./cloudflare-resource.ts";
import type { Props } from "./provider.ts";

const object = async (answer: Promise<unknown>): Promise<Props> => (await answer) as Props;
const without = (props: Props, ...keys: string[]): Props =>
  Object.fromEntries(Object.entries(props).filter(([key]) => !keys.includes(key)));

/** The provider fills in a rule's empty parameters and description, and sends them. */
const asSent = (inputs: Props): Props => ({
  ...{ description: "", ...without(inputs, "zoneId") },
  rules: ((inputs.rules ?? []) as Props[]).map((rule) => ({ description: "", actionParameters: {}, ...rule })),
});

const zonePath = (kind: string) => (props: Props) => `zones/${props.zoneId}/${kind}`;
const records = zonePath("dns_records");
const rulesets = zonePath("rulesets");
const bots = zonePath("bot_management");
const pulls = zonePath("origin_tls_client_auth/hostnames");

/** Those that a zone on the free plan has. */
const botFields = ["aiBotsProtection", "enableJs", "fightMode", "isRobotsTxtManaged"];
const putBots = (inputs: Props) => object(call("PUT", bots(inputs), without(inputs, "zoneId")));

/** The API has a list, the provider one hostname. The provider copies each field but the configuration. */
const pullOutputs = (answer: unknown): Props => without(answer as Props, "id", "privateKey", "configs");
function oneConfig({ configs }: Props): Props {
  const list = configs as Props[];
  if (list.length !== 1) throw new Error("invalid config: config must contain exactly one hostname association.");
  return list[0]!;
}
async function putPull(inputs: Props): Promise<Props> {
  const { hostname } = oneConfig(inputs);
  const answer = (await call("PUT", pulls(inputs), { config: inputs.configs as Props[] })) as Props[];
  const mine = answer.find((one) => one.hostname === hostname);
  if (mine === undefined) throw new Error(`hostname "${hostname}" not found in API response`);
  return pullOutputs(mine);
}

export const kinds: Readonly<Record<string, Kind>> = {
  "cloudflare:index/dnsRecord:DnsRecord": {
    required: ["zoneId", "name", "ttl", "type"],
    optional: ["comment", "content", "proxied", "settings", "tags"],
    computed: ["createdOn", "modifiedOn", "meta", "proxiable", "settings", "tags"],
    defaults: { proxied: false },
    replaces: ["zoneId", "type"],
    importId: /^(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    create: (inputs) => object(call("POST", records(inputs), without(inputs, "zoneId"))),
    read: (id, known) => object(call("GET", `${records(known)}/${id}`)),
    update: (id, inputs) => object(call("PUT", `${records(inputs)}/${id}`, without(inputs, "zoneId"))),
    delete: async (id, outputs) => void (await call("DELETE", `${records(outputs)}/${id}`)),
  },
  "cloudflare:index/ruleset:Ruleset": {
    required: ["kind", "name", "phase"],
    optional: ["zoneId", "description", "rules"],
    computed: ["lastUpdated", "version"],
    replaces: ["zoneId", "kind", "name", "phase"],
    importId: /^zones\/(?<zoneId>[^/]+)\/(?<id>[0-9a-f]{32})$/,
    create: (inputs) => object(call("POST", rulesets(inputs), asSent(inputs))),
    read: (id, known) => object(call("GET", `${rulesets(known)}/${id}`)),
    update: (id, inputs) => object(call("PUT", `${rulesets(inputs)}/${id}`, asSent(inputs))),
    delete: async (id, outputs) => void (await call("DELETE", `${rulesets(outputs)}/${id}`)),
  },
  "cloudflare:index/botManagement:BotManagement": {
    required: ["zoneId"],
    optional: botFields,
    computed: [...botFields, "usingLatestModel"],
    // So a managed robots.txt goes off unless the program declares it.
    defaults: { isRobotsTxtManaged: false },
    replaces: ["zoneId"],
    importId: /^(?<zoneId>[^/]+)$/,
    id: ({ zoneId }) => String(zoneId),
    create: putBots,
    read: (_id, known) => object(call("GET", bots(known))),
    update: (_id, inputs) => putBots(inputs),
  },
  "cloudflare:index/originCaCertificate:OriginCaCertificate": {
    required: ["csr", "hostnames", "requestType"],
    optional: ["requestedValidity"],
    computed: ["certificate", "expiresOn"],
    replaces: "all",
    // requestedValidity is not restored after an import, so no refresh of the fake does.
    writeOnly: ["csr"],
    importId: /^(?<id>[^/]+)$/,
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
    create: (inputs) => object(call("POST", `${pulls(inputs)}/certificates`, without(inputs, "zoneId"))),
    read: (id, known) => object(call("GET", `${pulls(known)}/certificates/${id}`)),
    delete: async (id, outputs) => void (await call("DELETE", `${pulls(outputs)}/certificates/${id}`)),
  },
  "cloudflare:index/authenticatedOriginPulls:AuthenticatedOriginPulls": {
    required: ["zoneId", "configs"],
    computed: [
      ...["certId", "certStatus", "certUpdatedAt", "certUploadedOn", "certificate", "createdAt", "enabled"],
      ...["expiresOn", "issuer", "privateKey", "serialNumber", "signature", "status", "updatedAt"],
    ],
    replaces: ["zoneId"],
    writeOnly: ["configs"],
    importId: /^(?<zoneId>[^/]+)\/(?<id>[^/]+)$/,
    id: ({ hostname }) => String(hostname),
    create: putPull,
    read: async (id, known) => pullOutputs(await call("GET", `${pulls(known)}/${id}`)),
    update: (_id, inputs) => putPull(inputs),
    async delete(hostname, outputs) {
      await call("PUT", pulls(outputs), { config: [{ hostname, certId: outputs.certId, enabled: null }] });
    },
  },
};
