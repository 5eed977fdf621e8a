/**
 * A fake of @pulumi/cloudflare 6.17.0: the resources that pushgate declares and the functions that it calls, over HTTP.
 * It rejects unknown and missing properties.
 */
import { call, configureApi } from "./cloudflare-api.ts";
import { botFields, bots, kinds, object, pulls, rulesets } from "./cloudflare-kinds.ts";
import { resource } from "./cloudflare-resource.ts";
import { type Props, serveProvider } from "./provider.ts";

/** A function returns every field of its schema: an unset one is null, an empty list or an empty object. */
const dataRule = (rule: Props): Props => ({
  ...{ actionParameters: {}, exposedCredentialCheck: null, logging: null, ratelimit: null, categories: [] },
  ...rule,
});

async function getZone(args: Props): Promise<Props> {
  const { name } = args.filter as Props;
  const found = (await call("GET", `zones?name=${encodeURIComponent(String(name))}`)) as Props[];
  if (found.length !== 1)
    throw new Error(`failed to find exactly one result: found ${found.length} zones named ${name}`);
  const zoneId = found[0]!.id;
  return { ...args, ...(await object(call("GET", `zones/${zoneId}`))), zoneId };
}

export const port = await serveProvider({
  version: "6.17.0",
  configure: configureApi,
  resources: Object.fromEntries(Object.entries(kinds).map(([token, kind]) => [token, resource(kind)])),
  functions: {
    "cloudflare:index/getZone:getZone": getZone,
    async "cloudflare:index/getRulesets:getRulesets"(args) {
      const list = await call("GET", rulesets(args));
      return { ...args, id: String(args.zoneId), rulesets: list, results: list };
    },
    async "cloudflare:index/getRuleset:getRuleset"(args) {
      const id = String(args.id);
      const live = await object(call("GET", `${rulesets(args)}/${id}`));
      return { ...args, ...live, rulesetId: id, rules: (live.rules as Props[]).map(dataRule) };
    },
    async "cloudflare:index/getBotManagement:getBotManagement"(args) {
      const unset = Object.fromEntries(botFields.map((key) => [key, null]));
      return { ...unset, ...args, ...(await object(call("GET", bots(args)))), id: String(args.zoneId) };
    },
    async "cloudflare:index/getAuthenticatedOriginPulls:getAuthenticatedOriginPulls"(args) {
      const live = await object(call("GET", `${pulls(args)}/${args.hostname}`));
      return { ...args, ...live, id: String(args.hostname) };
    },
  },
});
