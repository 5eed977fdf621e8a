/**
 * A published site, served: one more nginx server on the origin port, beside the hooks'. So whatever guards that port
 * guards this: the firewall, strict TLS, the edge's client certificate; and port 443 and what is served there stay as
 * they are. Static files and nothing else. docs/decisions/013.
 *
 * Rules as in proxy.ts: nothing at http level but prefixed maps, and what an http level of the operator's could hand
 * down and would change an answer, we set ourselves.
 */

import { type ServedSite, servedSites } from "../../config/derived.ts";
import type { Host, Settings } from "../../config/settings.ts";
import { trust, visitor } from "./origin-server.ts";
import { proxyLogs, websites } from "./scripts.ts";

/** What of a site compresses; html does in any case. */
const compressed = [
  "application/atom+xml",
  "application/javascript",
  "application/json",
  "application/manifest+json",
  "application/rss+xml",
  "application/wasm",
  "application/xml",
  "image/svg+xml",
  "text/css",
  "text/javascript",
  "text/plain",
  "text/xml",
];

const maps = `
# A page is asked for again each time, which costs a 304 while it is the same: a publish is seen at once, by the edge's
# cache, too. hugo writes the digest of a fingerprinted file into its name, so that one can't change; a week and not a
# year, as a name that only looks so would be wrong for as long.
map "$status:$uri" $pushgate_site_cache {
    default no-cache;
    "~^(200|206|304):.*\\.[0-9a-f]{32,128}\\.[a-z0-9]+$" "public, max-age=604800, immutable";
}

map $status $pushgate_site_allow {
    default "";
    405 "GET, HEAD";
}
`;

const server = ({ originPort }: Host, { hook, hostname, webRoot }: ServedSite) => `
server {
    listen ${originPort} ssl;
    include ${websites.listen6.include};
    # A pattern, as nginx keeps names in a hash whose buckets hold 46 characters, and their size is every site's setting.
    server_name "~^${hostname.replaceAll(".", "\\.")}$";
    root ${webRoot};
    index index.html;

    access_log ${websites.log(hook)} combined;
    error_log ${proxyLogs.error} warn;
    log_not_found off;
    types_hash_max_size 2048;
    include /etc/nginx/mime.types;
    # Not in Debian's, and a browser runs no module that comes as something else.
    types {
        application/javascript mjs;
        application/manifest+json webmanifest;
    }
    default_type application/octet-stream;
    charset utf-8;
    server_tokens off;
    auth_basic off;
    allow all;
    autoindex off;

${trust}
${visitor}
    keepalive_timeout 60s;
    client_header_timeout 10s;
    client_body_timeout 10s;
    client_max_body_size 1k;

    # The web root is a link that is exchanged at a publish: followed, and nothing remembered of where it led.
    disable_symlinks off;
    open_file_cache off;
    # A rollback brings older files back: whatever differs is sent.
    etag on;
    if_modified_since exact;
    expires off;
    # With the scheme and port nginx sees, a visitor would be sent to ${originPort}, which only the edge reaches.
    absolute_redirect off;
    gzip on;
    gzip_vary on;
    gzip_proxied any;
    # A smaller file fits one packet as it is.
    gzip_min_length 1024;
    gzip_types ${compressed.join(" ")};

    add_header X-Served-By pushgate-proxy always;
    add_header X-Content-Type-Options nosniff always;
    add_header Cache-Control $pushgate_site_cache always;
    add_header Allow $pushgate_site_allow always;
    recursive_error_pages off;
    # 403 is nginx's word for a folder without a page.
    error_page 403 404 =404 /404.html;
    # A visitor who came without TLS; the edge passes that on as it is.
    error_page 497 =301 https://${hostname}$request_uri;

    if ($pushgate_peer_is_edge = 0) {
        return 403 "not sent by the edge";
    }
    if ($request_method !~ "^(GET|HEAD)$") {
        return 405;
    }

    # Nothing a tool left behind; /.well-known/ is meant to be read.
    location ~ "/\\.(?!well-known/)" {
        return 404;
    }

    # The site's own page, where it has one; otherwise nginx's.
    location = /404.html {
        internal;
    }
}
`;

/** What follows the hooks' server in its file; nothing where no site is to be served. */
export function renderWebsites(settings: Settings, host: Host): string {
  const sites = servedSites(settings);
  return sites.length === 0 ? "" : [maps, ...sites.map((site) => server(host, site))].join("");
}
