/**
 * Layer 6, the reverse proxy: one nginx server of pushgate's own on the origin port, beside the sites that nginx serves
 * already. Rules of its text, pushgate.conf:
 * - At http level there are only zones, maps, geos and the log format, with prefixed names: anything else there would
 *   change other sites. The servers set each directive that the operator's http level could pass down and that changes
 *   an answer; test/infra/host/http-level.test.ts lists all of nginx's.
 * - The upstream is a literal address, never `upstream {}`: a kept connection would carry a rejected sender's request
 *   past the allowlist of the socket.
 * - What nginx itself rejects has `X-Served-By: pushgate-proxy` and a small JSON body. 494 to 497 are nginx's codes for
 *   oversized headers, a certificate that does not verify, no certificate, and plain HTTP. 414 keeps nginx's own page:
 *   nginx applies no error_page before it has read the path.
 */
import { gitHosts } from "../../../service/git-hosts/index.ts";
import type { HostLayer } from "../../apply/layer.ts";
import { type SourceSet, servedSites, sourceSets } from "../../config/derived.ts";
import type { GitHostName, Host, Settings } from "../../config/settings.ts";
import { canaryPath, servedByProxy, webhookPath } from "../../contract.ts";
import { anywhere, loopback, networks } from "../../networks.ts";
import { enabledAndActive, file, layerOf, template, textBeside } from "../kit.ts";
import { paths } from "../paths.ts";
import { clientCaPath, lines, listen6, logs, originServer, trust, whereExists } from "./origin-server.ts";
import { websites } from "./website.ts";

const geo = (key: string, variable: string, cidrs: readonly string[]) => `geo ${key} ${variable} {
    default 0;
${lines(cidrs, (cidr) => `${cidr} 1;`)}
}`;

const sourceGeo = ({ name }: SourceSet) => `$pushgate_from_${name.replaceAll("-", "_")}`;

const hookLocation = (hook: string, port: number, { proxyBurst }: Settings["limits"]) => `\
    location = ${webhookPath(hook)} {
        if ($request_method != POST) {
            return 405 '{"error":"method not allowed"}';
        }
        limit_req zone=pushgate_strangers${proxyBurst > 0 ? ` burst=${proxyBurst} nodelay` : ""};
        proxy_pass http://$pushgate_loopback:${port};
    }`;

/** nginx's variable for the header with the id of a git host's delivery. */
const deliveryId = (gitHost: GitHostName) => `$http_${gitHosts[gitHost].deliveryHeader.replaceAll("-", "_")}`;

export function renderProxy(settings: Settings, host: Host): string {
  const { limits } = settings;
  const sets = sourceSets(settings);
  const hooks = sets.flatMap((set) => set.hooks.map(({ name }) => ({ name, set })));
  const server = template(import.meta.url, "pushgate.conf", {
    sourceGeos: sets.map((set) => geo("$remote_addr", sourceGeo(set), set.cidrs)).join("\n\n"),
    cloudflareGeo: geo("$realip_remote_addr", "$pushgate_peer_is_edge", networks.cloudflare.cidrs),
    loopback4: loopback.v4,
    loopback6: loopback.v6,
    hookPaths: lines(hooks, ({ name }) => `${webhookPath(name)} ${name};`),
    hookSources: lines(hooks, ({ name, set }) => `${webhookPath(name)} ${sourceGeo(set)};`),
    hookDeliveries: lines(settings.hooks, ({ name, gitHost }) => `${webhookPath(name)} ${deliveryId(gitHost)};`),
    hookLocations: hooks.map(({ name, set }) => hookLocation(name, set.port, limits)).join("\n\n"),
    originServer,
    originPort: host.originPort,
    hostname: host.hostname,
    listen6: whereExists(listen6.hooks),
    accessLog: logs.access,
    errorLog: logs.error,
    rate: limits.proxyRate,
    largestBody: limits.bodyBytes,
    canaryPath,
    servedBy: servedByProxy,
  });
  return [server, ...websites(settings, host)].join("\n");
}

/** `clientCaPem`: PEM of the CA of the client certificate that Cloudflare presents. It is public. */
export function proxyLayer(settings: Settings, host: Host, clientCaPem: string): HostLayer {
  const { originPort } = host;
  const answer = `400 ${servedByProxy}`;
  return layerOf(import.meta.url, "proxy", {
    values: {
      port: originPort,
      conf: paths.nginx,
      ...trust,
      listen6_hooks: listen6.hooks,
      listen6_site: listen6.site,
      access_log: logs.access,
      error_log: logs.error,
      site_logs: servedSites(settings).map(({ hook }) => logs.site(hook)),
      all_site_logs: logs.site("*"),
      any4: anywhere.v4.replace(/\/.*/, ""),
      loopback4: loopback.v4,
      loopback6: loopback.v6,
      answer,
    },
    files: [
      file(clientCaPath, `${clientCaPem.trimEnd()}\n`),
      file(paths.nginx, renderProxy(settings, host), { check: textBeside(import.meta.url, "check.sh") }),
    ],
    owns: [paths.nginx, clientCaPath],
    facts: [
      enabledAndActive("nginx.service"),
      {
        name: `nginx listens on the origin port ${originPort}, on IPv6 too where the kernel has it`,
        read: "listens",
        want: "yes",
      },
      {
        name: "nginx's workers hold CAP_NET_RAW, for the transparent bind",
        read: "of_each_worker holds_net_raw",
        want: "yes",
      },
      { name: "nginx has loaded the present configuration", read: "workers_are_current", want: "yes" },
      {
        name: `answer of the origin port ${originPort} to a client without a certificate`,
        read: "greeting",
        want: answer,
        about: "origin port",
      },
      {
        name: `answer of the origin port ${originPort} to a client certificate of another CA`,
        read: "greeting_of_foreigner",
        want: answer,
        about: "origin port",
      },
      { name: "the CA that nginx trusts beside the newest", read: "trusted", want: "as declared" },
      // A server cannot undo a proxy_set_body of the http level: nginx has no value that means "not set".
      {
        name: "nginx's http level replaces the bodies of deliveries (proxy_set_body)",
        read: "replaces_bodies",
        want: "no",
      },
    ],
    shared: ["proxy/trust.sh"],
  });
}
