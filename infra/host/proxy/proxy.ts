/**
 * Layer 6, the reverse proxy: one nginx server of our own on the origin port, beside whatever other sites nginx serves.
 *
 * Rules: every directive stands inside our server; at http level only zones, maps, geos and the log format, which have
 * prefixed names, because anything else there would change the other sites. What an http level of the operator's could
 * hand down to us and would change an answer, we set ourselves. The upstream is a literal address, never `upstream {}`:
 * a kept connection would carry a refused sender's request past the socket's allowlist.
 *
 * What the proxy refuses itself says so: `X-Served-By: pushgate-proxy` and a small JSON body. Published sites that are
 * served here, too, have servers of their own behind it: website.ts.
 */

import type { HostLayer } from "../../apply/layer.ts";
import { type SourceSet, servedSites, sourceSets } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { canaryPath, servedByProxy, webhookPath } from "../../contract.ts";
import { loopback, networks } from "../../networks.ts";
import { paths } from "../paths.ts";
import { lines, trust, visitor } from "./origin-server.ts";
import * as live from "./scripts.ts";
import { renderWebsites } from "./website.ts";

/** A named location whose whole work is one answer. */
const answer = (status: number, error: string) =>
  `return ${status} '${JSON.stringify({ error }).replaceAll("'", "\\'")}';`;

/**
 * nginx's own errors, by what they mean here. 494 to 497 are its names for oversized headers, a certificate that does
 * not verify, no certificate, and plain HTTP on this port. 414 keeps nginx's page: before there is an address, no
 * error_page is asked.
 */
const ownErrors = [
  { codes: [400, 494, 495, 496, 497], status: 400, error: "bad request, or no client certificate of this zone" },
  { codes: [405], status: 405, error: "method not allowed" },
  { codes: [413], status: 413, error: "body too large" },
  { codes: [429], status: 429, error: "too many requests" },
] as const;

const geoOf = (set: SourceSet) => `$pushgate_from_${set.name.replaceAll("-", "_")}`;

/** Which allowlist admits whom: for the log, and to tell a stranger's 403 from this machine's own fault. */
const geo = (key: string, variable: string, cidrs: readonly string[]) => `geo ${key} ${variable} {
    default 0;
${lines(cidrs, (cidr) => `${cidr} 1;`)}
}`;

function hookLocation(hook: string, { port }: SourceSet, { proxyBurst }: Settings["limits"]): string {
  return `
    location = ${webhookPath(hook)} {
        if ($request_method != POST) {
            ${answer(405, "method not allowed")}
        }
        limit_req zone=pushgate${proxyBurst > 0 ? ` burst=${proxyBurst} nodelay` : ""};
        proxy_pass http://$pushgate_loopback:${port};
    }`;
}

export function renderProxy(settings: Settings, host: Host): string {
  const { limits } = settings;
  const sets = sourceSets(settings);
  const ruled = sets.flatMap((set) => set.hooks.map((hook) => ({ hook: hook.name, set })));
  return `# Rendered by pushgate; a change made here is reported by the next preview and undone by the next up.

${sets.map((set) => geo("$remote_addr", geoOf(set), set.cidrs)).join("\n\n")}

# The peer itself, before its CF-Connecting-IP is believed.
${geo("$realip_remote_addr", "$pushgate_peer_is_edge", networks.cloudflare.cidrs)}

# One address. Several, which newer nginx shows joined by a comma, are nobody's; so is none.
map $http_cf_connecting_ip $pushgate_has_client {
    default 0;
    "~^[0-9A-Fa-f.:]+$" 1;
}

# The transparent bind needs an upstream of the client's own family.
map $remote_addr $pushgate_loopback {
    default ${loopback.v4};
    "~:" "[${loopback.v6}]";
}

map $uri $pushgate_hook {
    default "";
${lines(ruled, ({ hook }) => `${webhookPath(hook)} ${hook};`)}
}

map $pushgate_hook $pushgate_in_ranges {
    default "";
${lines(ruled, ({ hook, set }) => `${hook} ${geoOf(set)};`)}
}

# "-" or nothing: the connection to the receiver was never made. The kernel drops what its allowlist refuses.
map $upstream_connect_time $pushgate_reached {
    default 1;
    "" 0;
    "-" 0;
}

map "$pushgate_reached:$pushgate_in_ranges" $pushgate_stranger {
    default 0;
    "0:0" 1;
}

# The receiver signs its own answers; whatever it did not sign is this proxy's.
map $upstream_http_x_served_by $pushgate_served_by {
    default "";
    "" ${servedByProxy};
}

map "$pushgate_served_by:$status" $pushgate_retry_after {
    default "";
    "~^pushgate-proxy:(429|50[234])$" 10;
}

map "$pushgate_served_by:$status:$uri" $pushgate_allow {
    default "";
    "pushgate-proxy:405:${canaryPath}" GET;
    "~^pushgate-proxy:405:" POST;
}

# nginx writes 000 for a request it never answered, which is no JSON number.
map $status $pushgate_status {
    default $status;
    "~^0" 0;
}

# Each git host names a delivery with a header of its own; the body and the signature are never logged.
map $http_x_github_delivery $pushgate_delivery {
    default $http_x_github_delivery;
    "" $http_x_gitlab_event_uuid$http_x_request_uuid;
}

log_format pushgate escape=json
    '{"time":"$time_iso8601","client":"$remote_addr","edge":"$realip_remote_addr","ray":"$http_cf_ray",'
    '"delivery":"$pushgate_delivery","hook":"$pushgate_hook","method":"$request_method","in_ranges":"$pushgate_in_ranges",'
    '"status":$pushgate_status,"up_status":"$upstream_status","up_connect":"$upstream_connect_time","rt":$request_time,'
    '"limit":"$limit_req_status"}';

# 1 MiB holds about 16,000 senders.
limit_req_zone $binary_remote_addr zone=pushgate:1m rate=${limits.proxyRate}r/s;

server {
    listen ${host.originPort} ssl default_server;
    # The IPv6 listener stands in a file that exists only where the kernel has IPv6: without it nginx would not start.
    include ${live.listen6.include};
    # No server_name: whatever arrives on this port and is no site's is meant for this server, and a long name would
    # overflow nginx's hash.

    access_log ${live.proxyLogs.access} pushgate;
    error_log ${live.proxyLogs.error} warn;
    types { }
    default_type application/json;
    server_tokens off;
    auth_basic off;
    allow all;
    gzip off;
    underscores_in_headers off;
    ignore_invalid_headers on;

${trust}
${visitor}
    # Deliveries are few; a kept connection would be closed by a reload at the moment the edge sends the next on it.
    keepalive_timeout 0;
    client_header_timeout 10s;
    client_body_timeout 10s;
    client_max_body_size ${limits.bodyBytes};
    limit_req_status 429;
    limit_req_log_level warn;

    add_header X-Served-By $pushgate_served_by always;
    add_header Retry-After $pushgate_retry_after always;
    add_header Allow $pushgate_allow always;
${lines(ownErrors, ({ codes, status }) => `error_page ${codes.join(" ")} = @pushgate_${status};`)}
    error_page 500 502 = @pushgate_failed;
    error_page 504 = @pushgate_timeout;

    # Bound to the client's own address, so that the socket's allowlist sees who sent it; nginx needs CAP_NET_RAW.
    proxy_bind $remote_addr transparent;
    # No connection is used twice: the second request on it would not be asked who it is.
    proxy_http_version 1.0;
    # Loopback answers in microseconds; a refused sender is a dropped packet, so this is how long its 403 takes.
    proxy_connect_timeout 500ms;
    proxy_send_timeout 5s;
    # Git hosts give up after 10 s.
    proxy_read_timeout 9s;
    proxy_request_buffering on;
    proxy_buffering on;
    proxy_cache off;
    proxy_store off;
    proxy_redirect off;
    proxy_intercept_errors off;
    proxy_next_upstream off;
    proxy_pass_request_headers on;
    proxy_pass_request_body on;
    proxy_set_header Host ${host.hostname};
    proxy_set_header Connection close;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto "";
    proxy_set_header X-Real-IP "";
    proxy_set_header Forwarded "";
    proxy_set_header CF-Connecting-IP "";

    # The firewall drops these before they get here; should it be down, the certificate and this still stand.
    if ($pushgate_peer_is_edge = 0) {
        ${answer(403, "not sent by the edge")}
    }
    # Without it every sender would look like the edge.
    if ($pushgate_has_client = 0) {
        ${answer(403, "the edge named no single client address: see whether a transform removes CF-Connecting-IP")}
    }
${ruled.map(({ hook, set }) => hookLocation(hook, set, limits)).join("\n")}

    location = ${canaryPath} {
        if ($request_method != GET) {
            ${answer(405, "method not allowed")}
        }
        return 204;
    }

    location / {
        ${answer(404, "not found")}
    }
${ownErrors.map(({ status, error }) => `\n    location @pushgate_${status} {\n        ${answer(status, error)}\n    }`).join("\n")}

    location @pushgate_timeout {
        if ($pushgate_stranger) {
            ${answer(403, "source not allowed")}
        }
        if ($pushgate_reached) {
            ${answer(504, "the receiver took too long")}
        }
        ${answer(503, "the source is allowed and the receiver's socket did not take it: see pushgate-guard.service")}
    }

    location @pushgate_failed {
        if ($pushgate_stranger) {
            ${answer(403, "source not allowed")}
        }
        if ($pushgate_reached) {
            ${answer(502, "the receiver broke off")}
        }
        ${answer(503, "the source is allowed and the receiver's socket did not take it: see pushgate-guard.service")}
    }
}
${renderWebsites(settings, host)}`;
}

/** `originPullCa`: PEM of the CA whose leaf the edge presents. It is public. */
export function proxy(settings: Settings, host: Host, originPullCa: string): HostLayer {
  return {
    name: "proxy",
    present: true,
    files: [
      { path: live.originPullCaPath, text: `${originPullCa.trimEnd()}\n`, mode: "0644", owner: "root:root" },
      {
        path: paths.nginx,
        text: renderProxy(settings, host),
        mode: "0644",
        owner: "root:root",
        check: live.checkProxy,
      },
    ],
    owns: [paths.nginx, live.originPullCaPath],
    activate: live.activateProxy(
      host.originPort,
      servedSites(settings).map(({ hook }) => hook),
    ),
    restore: live.restoreProxy,
    facts: live.proxyFacts(host.originPort),
    retire: live.retireProxy,
    timeout: 60,
  };
}
