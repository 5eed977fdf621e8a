/**
 * The operator's http level hands most directives down to every server. Each that could change an answer is set in
 * pushgate's servers, and lab/http-level.ts has the reason for each other one. The real nginx shows it for those that would
 * let a foreign client in, or fail a delivery or a page.
 */
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { renderProxy } from "../../../infra/host/proxy/proxy.ts";
import { exampleHost, served, site, siteHostname } from "../../fixtures.ts";
import { inheritable } from "./lab/directives.ts";
import { explainedAlthoughSet, unexplained } from "./lab/http-level.ts";
import { fromEdge, type LabOptions, noNginx, OriginLab } from "./lab/origin.ts";
import type { LabReply, LabRequest, LabResult, LabTask } from "./lab/proxy.ts";

const program = "/usr/sbin/nginx";

const text = renderProxy(served, exampleHost);
const known = existsSync(program) ? inheritable(program) : [];

describe.each(["hooks", "site"] as const)("the server of a host's %s", (server) => {
  test("sets each directive that nginx could inherit, or there is a reason why it changes no answer", ({ skip }) => {
    skip(known.length === 0, "nginx not installed: apt-get install nginx");
    expect(known.length).toBeGreaterThan(300);
    expect(unexplained(server, known)).toEqual([]);
  });
  test("is explained for no directive that it sets", () => {
    expect(explainedAlthoughSet(server)).toEqual([]);
  });
  test("is explained for no directive that is new", () => {
    for (const name of ["ssl_crl", "auth_request", "sub_filter"])
      expect(unexplained(server, [`${name}_other`, name])).toEqual([`${name}_other`]);
  });
});

const nginx = new OriginLab();
afterAll(() => nginx.remove());

const github = "192.30.252.7";
const raw = (method: string, path: string, host: string, body = "") =>
  [
    `${method} ${path} HTTP/1.1`,
    ...[`Host: ${host}`, `CF-Connecting-IP: ${github}`, "X-Hub-Signature-256: sha256=abc", "Connection: close"],
    ...(body === "" ? [] : [`Content-Length: ${body.length}`]),
    "",
    body,
  ].join("\r\n");
const push = (query = "") => fromEdge({ raw: raw("POST", `/webhook/site${query}`, exampleHost.hostname, "{}") });
const visit = (path = "/") => fromEdge({ name: siteHostname, raw: raw("GET", path, siteHostname) });
const stranger = (request: LabRequest): LabRequest => ({ ...request, as: "shared" });
const get = (path: string, method = "GET") => fromEdge({ raw: raw(method, path, exampleHost.hostname) });
const tls = "/etc/pushgate/tls";

type Attack = {
  /** A line of the operator's http level. */
  readonly http: string;
  /** The line of pushgate's servers that stops it. */
  readonly stopped: string | RegExp;
  readonly request: LabRequest | LabRequest[];
  /** What is compared: the statuses, unless it is something else. */
  readonly seen?: (reply: LabReply, result: LabResult) => unknown;
  readonly without: unknown;
};
const header = (name: string) => (reply: LabReply) => reply.headers[name];
const body = (reply: LabReply) => reply.body.replace(/^[0-9a-f]+\r\n|\r\n0\r\n\r\n$/g, "");
/** The methods of the requests with this query that reach the receiver. */
const methods = (query: string) => (_: LabReply, result: LabResult) =>
  result.seen.filter((line) => line.includes(query)).map((line) => line.split(" ")[1]);

const attacks: Attack[] = [
  // Another customer's certificate.
  {
    http: `ssl_trusted_certificate ${tls}/shared-ca.pem;`,
    stopped: /include \S+trusted-ca\S+;/g,
    request: stranger(push()),
    without: 202,
  },
  {
    http: `ssl_trusted_certificate ${tls}/shared-ca.pem;`,
    stopped: /include \S+trusted-ca\S+;/g,
    request: stranger(visit()),
    without: 200,
  },
  {
    http: `ssl_conf_command VerifyCAFile ${tls}/shared-ca.pem;`,
    stopped: "ssl_conf_command MinProtocol TLSv1.2;",
    request: stranger(push()),
    without: 202,
  },
  // A certificate of this zone is rejected.
  { http: `ssl_crl ${tls}/shared-crl.pem;`, stopped: 'ssl_crl "";', request: push(), without: 400 },
  { http: "ssl_ocsp on; resolver 127.0.0.1;", stopped: "ssl_ocsp off;", request: push(), without: 400 },
  { http: "ssl_reject_handshake on;", stopped: "ssl_reject_handshake off;", request: push(), without: 0 },
  // A delivery arrives otherwise, twice or not at all.
  { http: "auth_request /denied;", stopped: "auth_request off;", request: push(), without: 500 },
  {
    http: "proxy_method GET;",
    stopped: "proxy_method POST;",
    request: push("?method"),
    seen: methods("?method"),
    without: ["GET"],
  },
  {
    http: "mirror /webhook/site;",
    stopped: "mirror off;",
    request: push("?mirror"),
    seen: methods("?mirror"),
    without: ["POST", "POST"],
  },
  {
    http: "limit_conn_zone $server_port zone=open:1m; limit_conn open 1;",
    stopped: "limit_conn_dry_run on;",
    request: [push("?slow=300"), push("?slow=300")],
    without: [202, 503],
  },
  {
    http: "connection_pool_size 128; client_header_buffer_size 64; large_client_header_buffers 1 128;",
    stopped: /(connection_pool_size|large_client_header_buffers|client_header_buffer_size) .*;/g,
    request: push(`?${"a".repeat(200)}`),
    without: 414,
  },
  { http: "merge_slashes off;", stopped: "merge_slashes on;", request: get("//.pushgate"), without: 404 },
  {
    http: "proxy_buffers 4 64; proxy_buffer_size 64; proxy_busy_buffers_size 128; proxy_temp_file_write_size 128;",
    stopped: /proxy_(buffers|buffer_size|busy_buffers_size|temp_file_write_size) .*;/g,
    request: push(),
    without: 502,
  },
  {
    http: `auth_basic "other"; auth_basic_user_file ${tls}/none;`,
    stopped: "auth_basic off;",
    request: push(),
    without: 401,
  },
  { http: "deny all;", stopped: "allow all;", request: push(), without: 403 },
  {
    http: "real_ip_header X-Forwarded-For;",
    stopped: "real_ip_header CF-Connecting-IP;",
    request: push(),
    without: 403,
  },
  // The answer is another one.
  {
    http: "proxy_intercept_errors on;",
    stopped: "proxy_intercept_errors off;",
    // A status with a page of the servers' own.
    request: push("?status=429"),
    seen: body,
    without: '{"error":"too many requests"}',
  },
  {
    http: "error_page 413 https://other.example.org/;",
    stopped: /error_page .*;/g,
    request: { ...push(), raw: push().raw.replace("Content-Length: 2", "Content-Length: 99999999") },
    without: 302,
  },
  {
    http: "add_header X-Other yes always;",
    stopped: /add_header .*;/g,
    request: get("/"),
    seen: header("x-other"),
    without: "yes",
  },
  {
    http: "keepalive_timeout 65;",
    stopped: "keepalive_timeout 0;",
    request: { ...get("/"), raw: get("/").raw.replace("Connection: close\r\n", "") },
    seen: header("connection"),
    without: "keep-alive",
  },
  {
    http: "proxy_hide_header Retry-After;",
    stopped: "proxy_hide_header X-Powered-By;",
    request: push("?status=503"),
    seen: header("retry-after"),
    without: undefined,
  },
  {
    http: "expires 1y;",
    stopped: "expires off;",
    request: push("?status=200"),
    seen: header("cache-control"),
    without: "max-age=31536000",
  },
  {
    http: "charset koi8-r; charset_types *;",
    stopped: "charset off;",
    request: get("/"),
    seen: header("content-type"),
    without: "application/json; charset=koi8-r",
  },
  {
    http: "userid on;",
    stopped: "userid off;",
    request: push(),
    seen: (reply) => "set-cookie" in reply.headers,
    without: true,
  },
  {
    http: "sub_filter accepted rejected; sub_filter_types *;",
    stopped: 'sub_filter $pushgate_nothing "";',
    request: push(),
    seen: body,
    without: '{"status":"rejected"}',
  },
  {
    http: "add_after_body /.pushgate-none; addition_types *;",
    stopped: 'add_after_body "";',
    request: push("?status=200"),
    seen: body,
    without: expect.stringContaining("not found"),
  },
  // The same of a page.
  {
    http: "sub_filter front forged;",
    stopped: 'sub_filter $pushgate_nothing "";',
    request: visit(),
    seen: body,
    without: "<p>forged page",
  },
  {
    http: "add_before_body /plain.txt;",
    stopped: 'add_before_body "";',
    request: visit(),
    seen: body,
    without: expect.stringContaining("plain text"),
  },
  {
    http: "limit_req_zone $server_port zone=all:1m rate=1r/m; limit_req zone=all;",
    stopped: "limit_req_dry_run on;",
    request: [visit(), visit()],
    without: [200, 503],
  },
  { http: "auth_request /denied;", stopped: "auth_request off;", request: visit(), without: 500 },
  {
    http: `auth_basic "other"; auth_basic_user_file ${tls}/none;`,
    stopped: "auth_basic off;",
    request: visit(),
    without: 401,
  },
  { http: "deny all;", stopped: "allow all;", request: visit(), without: 403 },
  { http: "autoindex on;", stopped: "autoindex off;", request: visit("/files/"), without: 200 },
  { http: "disable_symlinks on;", stopped: "disable_symlinks off;", request: visit("/link.html"), without: 404 },
  {
    http: "expires 1y;",
    stopped: "expires off;",
    request: visit(),
    seen: header("cache-control"),
    without: expect.stringContaining("max-age=31536000"),
  },
  { http: "etag off;", stopped: "etag on;", request: visit(), seen: header("etag"), without: undefined },
  {
    http: "gzip off;",
    stopped: "gzip on;",
    request: {
      ...visit("/long.html"),
      raw: visit("/long.html").raw.replace("Connection", "Accept-Encoding: gzip\r\nConnection"),
    },
    seen: header("content-encoding"),
    without: undefined,
  },
  {
    http: "ssi on;",
    stopped: "ssi off;",
    request: visit("/ssi.html"),
    seen: body,
    without: expect.stringContaining(siteHostname),
  },
  {
    http: "gzip_static always;",
    stopped: "gzip_static off;",
    request: visit("/plain.txt"),
    seen: body,
    without: "another text",
  },
  {
    http: "charset_map koi8-r utf-8 { C1 D0B0; } source_charset koi8-r;",
    stopped: "source_charset utf-8;",
    request: visit("/plain.txt"),
    seen: header("content-length"),
    without: undefined,
  },
];

describe("a line of the http level changes nothing, and without pushgate's own line it does:", () => {
  beforeEach(({ skip }) => skip(noNginx !== undefined, noNginx));

  const answers = (requests: LabTask["requests"], more: LabOptions = {}) =>
    nginx.send(requests, { settings: served, config: text, ...more });
  const seenBy = ({ request, seen = ({ status }) => status }: Attack, result: LabResult, step = 0): unknown => {
    const found = result.replies[step]!.map((reply) => seen(reply, result));
    return Array.isArray(request) ? found.sort() : found[0];
  };
  let declared: LabResult;
  let attacked: LabResult;

  beforeAll(() => {
    if (noNginx !== undefined) return;
    const root = nginx.at(site.webRoot);
    mkdirSync(root, { recursive: true });
    writeFileSync(`${root}/index.html`, "<p>front page");
    writeFileSync(`${root}/ssi.html`, '<p><!--# echo var="host" -->');
    writeFileSync(`${root}/plain.txt`, "plain text");
    writeFileSync(`${root}/long.html`, "<p>a long page</p>\n".repeat(100));
    symlinkSync("index.html", `${root}/link.html`);
    mkdirSync(`${root}/files`);
    writeFileSync(`${root}/plain.txt.gz`, "another text");
    const requests = attacks.map(({ request }) => request);
    declared = answers(requests);
    // All lines at once. A list of types may be there only once.
    attacked = answers(requests, { http: [...new Set(attacks.map(({ http }) => http))].join("\n") });
  });

  /** Attacks that share both lines share an nginx. */
  const removed = new Map<string, LabResult>();
  const keyOf = ({ http, stopped }: Attack) => `${http} ${stopped}`;
  const seenWithout = (attack: Attack): unknown => {
    const { http, stopped } = attack;
    const config = text.replaceAll(stopped as string, "");
    expect(config).not.toBe(text);
    const alike = attacks.filter((one) => keyOf(one) === keyOf(attack));
    const result =
      removed.get(keyOf(attack)) ??
      answers(
        alike.map(({ request }) => request),
        { http, config },
      );
    removed.set(keyOf(attack), result);
    return seenBy(attack, result, alike.indexOf(attack));
  };

  for (const [step, attack] of attacks.entries())
    test(attack.http, () => {
      expect(seenBy(attack, attacked, step)).toEqual(seenBy(attack, declared, step));
      expect(seenWithout(attack)).toEqual(attack.without);
      expect(seenBy(attack, declared, step)).not.toEqual(attack.without);
    });
});
