/**
 * Layer 6, the reverse proxy: an nginx of pushgate's own, which runs Debian's program without root and reads nothing of
 * the operator's nginx. Rules of its text, nginx.conf:
 * - The upstream is a literal address, never `upstream {}`: a kept connection would carry a rejected sender's request
 *   past the allowlist of the socket.
 * - What nginx itself rejects has `X-Served-By: pushgate-proxy` and a small JSON body. 494 to 497 are nginx's codes for
 *   oversized headers, a certificate that does not verify, no certificate, and plain HTTP. 414 keeps nginx's own page:
 *   nginx applies no error_page before it has read the path.
 */
import { basename } from "node:path";
import { gitHosts } from "../../../service/git-hosts/index.ts";
import { variables } from "../../apply/shell.ts";
import { type SourceSet, servedSites, sourceSets } from "../../config/derived.ts";
import type { GitHostName, Host, Settings } from "../../config/settings.ts";
import { canaryPath, forbidden, originKey, servedByProxy, webhookPath } from "../../contract.ts";
import { anywhere, loopback, networks } from "../../networks.ts";
import * as kit from "../kit.ts";
import { originCertificate } from "../origin-certificate/origin-certificate.ts";
import { clientCaPath, movedTable, nginxFolders, nginxLogs, nginxUser, paths, settledCa, units } from "../paths.ts";

const lines = <T>(items: readonly T[], line: (item: T) => string): string =>
  items.map((item) => `        ${line(item)}`).join("\n");

const geo = (key: string, variable: string, cidrs: readonly string[]) => `    geo ${key} ${variable} {
        default 0;
${lines(cidrs, (cidr) => `${cidr} 1;`)}
    }`;

const sourceGeo = ({ name }: SourceSet) => `$pushgate_from_${name.replaceAll(/\W/g, "_")}`;

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

/** An include of a file that may be missing: nginx accepts a pattern that matches nothing. */
const whereExists = (path: string): string => path.replace(/\.conf$/, "*.conf");

/** The program that starts nginx writes the IPv6 line of `listen` there. */
const listen6 = `${nginxFolders.run}/listen6.conf`;
const keyName = basename(originKey);
/** systemd's copy of the origin key. */
export const credential = `/run/credentials/${units.nginx}/${keyName}`;

/**
 * A folder of `site.folders`. nginx opens each step of the path without following a link, so no account that can write
 * there publishes another file that nginx may read. A regular expression comes before it: no dot file is served.
 */
const folder = ([name, path]: readonly [string, string]): string => `\
        location /${name}/ {
            alias ${kit.nginxWord(`${path}/`)};
            disable_symlinks on;
        }
`;

/** A published site is one more nginx server on the origin port, for static files and nothing else (decision 013). */
export function websites(settings: Settings, originPort: number, listen6: string): string {
  const servers = servedSites(settings).map(({ hook, hostname, isPreview, folders }) =>
    kit.template(import.meta.url, "website.conf", {
      ...{ originPort, listen6, hostname, accessLog: nginxLogs.site(hook), servedBy: servedByProxy },
      current: `${paths.sites}/${hook}/current`,
      robots: isPreview ? "        add_header X-Robots-Tag noindex always;" : "",
      folders: folders.map(folder).join("\n"),
    }),
  );
  return servers.length === 0
    ? ""
    : ["", kit.textBeside(import.meta.url, "websites.conf"), ...servers].join("\n").trimEnd();
}

export function renderProxy(settings: Settings, host: Host): string {
  const { limits } = settings;
  const sets = sourceSets(settings);
  const hooks = sets.flatMap((set) => set.hooks.map(({ name }) => ({ name, set })));
  return kit.template(import.meta.url, "nginx.conf", {
    ...{ run: nginxFolders.run, cache: nginxFolders.cache, accessLog: nginxLogs.access, errorLog: nginxLogs.error },
    ...{ originCertificate, originKey: credential, clientCa: clientCaPath, settledCa: whereExists(settledCa.line) },
    cloudflareRanges: networks.cloudflare.cidrs.map((cidr) => `    set_real_ip_from ${cidr};`).join("\n"),
    sourceGeos: sets.map((set) => geo("$remote_addr", sourceGeo(set), set.cidrs)).join("\n\n"),
    cloudflareGeo: geo("$realip_remote_addr", "$pushgate_peer_is_edge", networks.cloudflare.cidrs),
    ...{ loopback4: loopback.v4, loopback6: loopback.v6 },
    hookPaths: lines(hooks, ({ name }) => `${webhookPath(name)} ${name};`),
    hookSources: lines(hooks, ({ name, set }) => `${webhookPath(name)} ${sourceGeo(set)};`),
    hookDeliveries: lines(settings.hooks, ({ name, gitHost }) => `${webhookPath(name)} ${deliveryId(gitHost)};`),
    hookLocations: hooks.map(({ name, set }) => hookLocation(name, set.port, limits)).join("\n\n"),
    ...{ originPort: host.originPort, hostname: host.hostname, listen6: whereExists(listen6) },
    ...{ rate: limits.proxyRate, largestBody: limits.bodyBytes, canaryPath, servedBy: servedByProxy, ...forbidden },
    websites: websites(settings, host.originPort, whereExists(listen6)),
  });
}

export function proxyLayer(settings: Settings, host: Host, clientCaPem: string) {
  const { originPort: port } = host;
  const start = `${paths.lib}/nginx` as const;
  const shown = { ...nginxFolders, key: originKey, client_ca: clientCaPath };
  const check = `${variables({ ...shown, credential })}\n${kit.textBeside(import.meta.url, "check.sh")}`;
  const inHome = servedSites(settings).some(({ folders }) => folders.some(([, path]) => /^\/(home|root)\//.test(path)));
  const errorLog = nginxLogs.error;
  const named = { user: nginxUser, logs: nginxFolders.logs };
  const rotated = { ...named, service: units.nginx };
  const started = kit.readAtStart([start, originKey], units.nginx);
  const loaded = kit.readAtStart([paths.nginx, originCertificate, clientCaPath, settledCa.path, settledCa.line]);
  // They hold visitors' addresses: the group adm reads them, as Debian's own logs of nginx.
  const logs: kit.Folder = [nginxFolders.logs, "2750", `${nginxUser}:adm`];
  const service = {
    ...{ noteStarted: kit.noting(units.nginx, started), noteLoaded: kit.noting(`${units.nginx}.loaded`, loaded) },
    ...{ socket: units.nginxSocket, program: start, key: originKey, keyName, sandbox: kit.sandbox("nginx") },
    home: inHome ? "# For a folder of `site.folders`.\nProtectHome=read-only" : "",
  };
  return kit.layerOf(import.meta.url, "proxy", {
    values: {
      ...{ ...shown, ...paths.nginxOwn, conf: paths.nginx, error_log: errorLog },
      ...{ socket: units.nginxSocket, service: units.nginx, user: nginxUser, port, loopback4: loopback.v4 },
      ...{ run_units: paths.runUnits, sockets: units.socket("*"), receiver: units.receiver, routing: units.routing },
      ...{ started, loaded, table: movedTable, settled_ca: settledCa.path, settled_line: settledCa.line },
    },
    files: [
      kit.file(paths.nginxOwn.sysusers, kit.template(import.meta.url, "sysusers.conf", { user: nginxUser })),
      kit.file(paths.nginxOwn.tmpfiles, kit.tmpfilesOf([logs])),
      kit.file(paths.nginxOwn.logrotate, kit.template(import.meta.url, "logrotate.conf", rotated)),
      kit.file(clientCaPath, `${clientCaPem.trimEnd()}\n`),
      kit.file(paths.nginx, renderProxy(settings, host), { check }),
      kit.program(start, kit.template(import.meta.url, "start.sh", { port, listen6, errorLog, conf: paths.nginx })),
      kit.unitFile(import.meta.url, units.nginxSocket, { port, any4: anywhere.v4.replace(/\/.*/, "") }),
      kit.unitFile(import.meta.url, units.nginx, { ...named, ...service }),
    ],
    facts: [
      kit.enabledAndActive(units.nginxSocket),
      kit.enabledAndActive(units.nginx),
      {
        name: `${units.nginxSocket} listens on the origin port ${port}, on IPv6 too where the kernel has it`,
        read: "listens",
        want: "yes",
      },
      { name: `${units.nginx} runs what is installed`, read: "runs_what_is_installed", want: "yes" },
      kit.accountsFact("nginx's account", [[nginxUser, "/", nginxUser]]),
      kit.modesFact("the folder of nginx's logs", [logs]),
      {
        name: `answer of the origin port ${port} to a client without a certificate`,
        read: "greeting",
        want: `400 ${servedByProxy}`,
        about: "origin port",
      },
    ],
  });
}
