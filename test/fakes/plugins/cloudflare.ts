/**
 * A fake of @pulumi/cloudflare 6.17.0: the resources that pushgate declares, over HTTP. It rejects unknown and missing
 * properties.
 */
import { call, configureApi } from "./cloudflare-api.ts";
import { kinds } from "./cloudflare-kinds.ts";
import { resource } from "./cloudflare-resource.ts";
import { type Props, serveProvider } from "./provider.ts";

export const port = await serveProvider({
  version: "6.17.0",
  configure: configureApi,
  resources: Object.fromEntries(Object.entries(kinds).map(([token, kind]) => [token, resource(kind)])),
  functions: {
    "cloudflare:index/getIpRanges:getIpRanges": async () => (await call("GET", "ips")) as Props,
  },
});
