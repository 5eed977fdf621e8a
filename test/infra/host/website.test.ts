/** A published site in a real nginx: requests of visitors through Cloudflare, and of other peers. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { canaryPath } from "../../../infra/contract.ts";
import { renderProxy } from "../../../infra/host/proxy/proxy.ts";
import { example, exampleHost, served, serving, siteHostname } from "../../fixtures.ts";
import { edge6, fromEdge, type LabOptions, noNginx, OriginLab, origin6, stranger } from "./lab/origin.ts";
import type { LabReply, LabRequest } from "./lab/proxy.ts";

const nginx = new OriginLab();
afterAll(() => nginx.remove());

const digest = createHash("sha256").update("body { }").digest("hex");
const styles = `/css/main.min.${digest}.css`;
const long = "<p>All work and no play makes a long page.</p>\n".repeat(50);
const files: Record<string, string> = {
  "index.html": "<p>front page",
  "404.html": "<p>the site's own 404",
  "blog/index.html": long,
  "css/plain.css": "p { }",
  [styles.slice(1)]: "body { }",
  "app.mjs": "export {}",
  "feed.xml": "<rss/>",
  ".git/config": "secret",
  ".htpasswd": "secret",
  ".well-known/security.txt": "Contact: mailto:security@example.org",
  ".well-known/.hidden": "secret",
  "webhook/site/index.html": "<p>a page of that name",
};

/** Releases and the link to the current one, as the builder leaves them. */
function publish(id: string, tree: Record<string, string>): void {
  const folder = `${nginx.folder}/www`;
  for (const [path, text] of Object.entries(tree)) {
    const file = `${folder}/releases/${id}/${path}`;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  rmSync(`${folder}/new`, { force: true });
  symlinkSync(`releases/${id}`, `${folder}/new`);
  renameSync(`${folder}/new`, `${folder}/current`);
}
beforeAll(() => {
  publish("000001", files);
});

const raw = (path: string, headers: Record<string, string> = {}, method = "GET", host: string = siteHostname) =>
  [
    `${method} ${path} HTTP/1.1`,
    ...Object.entries({ Host: host, "CF-Connecting-IP": stranger, Connection: "close", ...headers }).map(
      ([name, value]) => `${name}: ${value}`,
    ),
    "",
    "",
  ].join("\r\n");
const visit = (path: string, headers: Record<string, string> = {}, method = "GET"): LabRequest =>
  fromEdge({ name: siteHostname, raw: raw(path, headers, method) });

const replies = (requests: LabRequest[], more: LabOptions = {}): LabReply[] =>
  nginx.send([requests], { settings: served, ...more }).replies[0]!;
const reply = (request: LabRequest, more: LabOptions = {}): LabReply => replies([request], more)[0]!;
beforeEach(({ skip }) => skip(noNginx !== undefined, noNginx));

describe("a visitor gets", () => {
  const answers: [name: string, request: LabRequest, status: number, says: Record<string, string> | string][] = [
    ["the front page", visit("/"), 200, "<p>front page"],
    ["the front page over IPv6", { ...visit("/"), from: edge6, to: origin6 }, 200, "<p>front page"],
    ["a page", visit("/blog/"), 200, { "content-type": "text/html; charset=utf-8", "cache-control": "no-cache" }],
    ["a page's head", visit("/blog/", {}, "HEAD"), 200, { "content-length": String(long.length) }],
    ["a page, small on the wire", visit("/blog/", { "Accept-Encoding": "gzip" }), 200, { "content-encoding": "gzip" }],
    ["a page by its folder, without the origin port in the answer", visit("/blog"), 301, { location: "/blog/" }],
    ["a file named by its digest", visit(styles), 200, { "cache-control": "public, max-age=604800, immutable" }],
    ["a file named by what it is", visit("/css/plain.css"), 200, { "cache-control": "no-cache" }],
    ["a digest that is not there", visit(styles.replace(digest, "0".repeat(64))), 404, { "cache-control": "no-cache" }],
    ["a module by its type", visit("/app.mjs"), 200, { "content-type": "application/javascript; charset=utf-8" }],
    ["a query, ignored", visit("/?utm=1"), 200, "<p>front page"],
    ["the site's own 404", visit("/nothing/here"), 404, "<p>the site's own 404"],
    ["the 404 page as a page", visit("/404.html"), 404, "<p>the site's own 404"],
    ["no repository", visit("/.git/config"), 404, "<p>the site's own 404"],
    ["no dot file", visit("/.htpasswd"), 404, "<p>the site's own 404"],
    ["no dot file by another spelling", visit("/%2ehtpasswd"), 404, "<p>the site's own 404"],
    ["no dot file below .well-known", visit("/.well-known/.hidden"), 404, "<p>the site's own 404"],
    ["a file below .well-known", visit("/.well-known/security.txt"), 200, files[".well-known/security.txt"]!],
    ["no folder's contents", visit("/css/"), 404, "<p>the site's own 404"],
    ["nothing beside the web root", visit("/..%2f..%2ftls/origin.key"), 400, { "x-served-by": "pushgate-proxy" }],
    ["a page with a hook's path", visit("/webhook/site/"), 200, "<p>a page of that name"],
    ["nothing for a form", visit("/", { "Content-Length": "0" }, "POST"), 405, { allow: "GET, HEAD" }],
    ["nothing to change", visit("/index.html", {}, "DELETE"), 405, { allow: "GET, HEAD" }],
    ["nothing for a body", visit("/", { "Content-Length": "4096" }), 413, { "x-served-by": "pushgate-proxy" }],
    [
      "a redirect from plain http to https",
      fromEdge({ plain: true, raw: raw("/blog/?q=1") }),
      301,
      { location: `https://${siteHostname}/blog/?q=1` },
    ],
  ];

  test("nginx gives each request its stated answer", () => {
    const requests = [...answers.map(([, request]) => request), visit("/blog/", { "User-Agent": "a browser" })];
    const { replies, sites, log } = nginx.send([requests], { settings: served });
    const got = replies[0]!;
    const answered = answers.map(([name, , , says], i) => {
      const { status, headers, body } = got[i]!;
      const shown =
        typeof says === "string"
          ? body.slice(0, says.length)
          : Object.fromEntries(Object.keys(says).map((key) => [key, headers[key]]));
      return [name, status, shown];
    });
    expect(answered).toEqual(answers.map(([name, , status, says]) => [name, status, says]));
    for (const { headers } of got)
      expect(headers).toMatchObject({ "x-served-by": "pushgate-proxy", "x-content-type-options": "nosniff" });
    expect(JSON.stringify(got)).not.toMatch(new RegExp(`secret|${exampleHost.originPort}|nginx/`));
    // The site's log is its own, and has the visitor's address.
    expect(log).toEqual([]);
    expect(sites.join("\n")).toMatch(new RegExp(`^${stranger} .*"GET /blog/ HTTP/1.1" 200 .*"a browser"$`, "m"));
  });

  test("nginx serves a publish at once, and answers 304 while a page is the same, newer or older", () => {
    const publishing = (id: string, text: string) => {
      publish(id, { "index.html": text });
      return `ln -sfn releases/${id} ${nginx.folder}/www/new && mv -T ${nginx.folder}/www/new ${nginx.folder}/www/current`;
    };
    const { etag, "last-modified": modified } = reply(visit("/")).headers;
    const older = publishing("000002", "<p>older front");
    utimesSync(`${nginx.folder}/www/releases/000002/index.html`, 1_000_000_000, 1_000_000_000);
    publish("000001", {});
    const conditional = visit("/", { "If-None-Match": etag! });
    const { replies } = nginx.send(
      [
        ...[visit("/"), conditional, { ...conditional, before: older }],
        ...[visit("/", { "If-Modified-Since": modified! }), visit("/nothing")],
      ],
      { settings: served },
    );
    publish("000001", {});
    expect(replies.map(([page]) => [page!.status, page!.body])).toEqual([
      [200, "<p>front page"],
      [304, ""],
      [200, "<p>older front"],
      [200, "<p>older front"],
      // The page of nginx's own: that release has none.
      [404, expect.stringContaining("<h1>404 Not Found</h1>")],
    ]);
    expect(replies[1]![0]!.headers["cache-control"]).toBe("no-cache");
  });
});

describe("a folder that no build makes", () => {
  const folder = () => `${nginx.folder}/srv/downloads`;
  const settings = () => serving(served, { folders: { downloads: folder() } });
  const secret = "of another account";
  beforeEach(() => {
    for (const [path, text] of Object.entries({
      "downloads/a b.zip": "zip",
      "downloads/.hidden": secret,
      "private/secret.txt": secret,
    })) {
      mkdirSync(dirname(`${nginx.folder}/srv/${path}`), { recursive: true });
      writeFileSync(`${nginx.folder}/srv/${path}`, text);
    }
  });
  afterEach(() => rmSync(`${nginx.folder}/srv`, { recursive: true, force: true }));

  test("is served below its name, for reading, without a list and without dot files", () => {
    const paths = ["a%20b.zip", "", ".hidden", "../../private/secret.txt"].map((path) => `/downloads/${path}`);
    const got = replies(
      [
        ...[...paths, "/downloads../private/secret.txt"].map((path) => visit(path)),
        visit("/downloads/a%20b.zip", {}, "DELETE"),
      ],
      { settings: settings() },
    );
    expect(got.map(({ status }) => status)).toEqual([200, 404, 404, 400, 404, 405]);
    expect([got[0]!.body, got[0]!.headers["x-content-type-options"], got[1]!.body]).toEqual([
      "zip",
      "nosniff",
      "<p>the site's own 404",
    ]);
  });

  // The account that owns the folder makes links to files that nginx may read.
  test.each([
    ["to a file", "/downloads/link.txt", "ln -s ../private/secret.txt downloads/link.txt"],
    ["to a folder", "/downloads/up/private/secret.txt", "ln -s .. downloads/up"],
    ["in the folder's place", "/downloads/secret.txt", "mv downloads aside; ln -s private downloads"],
  ])("publishes no other file by a link %s, and would without disable_symlinks", (_, path, link) => {
    execFileSync("sh", ["-ec", link], { cwd: `${nginx.folder}/srv` });
    const config = renderProxy(settings(), exampleHost);
    const mutant = config.replace("disable_symlinks on;", "");
    const [declared, broken] = nginx.sendEach(
      [config, mutant].map((config) => [[visit(path)], { settings: served, config }] as const),
    );
    expect(declared!.replies[0]![0]!.status).toBe(404);
    expect(broken!.replies[0]![0]).toMatchObject({ status: 200, body: secret });
  });
});

describe("by name", () => {
  const by = (name: string, host: string, path = "/"): LabRequest =>
    fromEdge({ name, raw: raw(path, {}, "GET", host) });
  const hooks = exampleHost.hostname;

  test("only the site's name leads to the site; every other name leads to the hooks' server", () => {
    const got = replies([
      by(hooks, hooks, canaryPath),
      by(hooks, hooks),
      by("other.example.org", "other.example.org"),
      by(`x${siteHostname}`, `x${siteHostname}`),
      by("wwwxexample.org", "wwwxexample.org"),
      by(siteHostname, siteHostname.toUpperCase()),
      fromEdge({ raw: `GET / HTTP/1.0\r\nCF-Connecting-IP: ${stranger}\r\n\r\n` }),
      // The request names another server than the handshake did: nginx checked the certificate for the first one only.
      by(siteHostname, hooks),
    ]);
    expect(got.map(({ status }) => status)).toEqual([204, 404, 404, 404, 404, 200, 404, 421]);
    for (const i of [1, 2, 3, 4, 6]) expect(JSON.parse(got[i]!.body)).toEqual({ error: "not found" });
  });

  test("nginx serves several sites, a name as long as DNS allows, and IPv4 alone where the kernel has no IPv6", () => {
    const longest = `${`${"a".repeat(60)}.`.repeat(3)}${"b".repeat(50)}.example.org`;
    const many = serving(example, { hostname: longest });
    const two = { ...many, hooks: [...many.hooks, { ...served.hooks[0]!, name: "second" }] };
    const got = replies([by(longest, longest), visit("/")], { settings: two, ipv6: false });
    expect(got.map(({ status, body }) => [status, body])).toEqual(Array(2).fill([200, "<p>front page"]));
  });
});

test("without one of these directives an attack passes", () => {
  const rendered = renderProxy(served, exampleHost);
  const attacks: [request: LabRequest, status: number, words: string, instead?: string][] = [
    // Any peer that reaches the port; any customer of Cloudflare; a peer that is not Cloudflare.
    [{ ...visit("/"), as: "none" }, 400, "ssl_verify_client on;"],
    [{ ...visit("/"), as: "shared" }, 400, "ssl_verify_client on;", "ssl_verify_client optional_no_ca;"],
    [{ ...visit("/"), from: stranger }, 403, "if ($pushgate_peer_is_edge = 0)", "if ($pushgate_peer_is_edge = 2)"],
    // A visitor who reads dot files.
    [visit("/.git/config"), 404, 'location ~ "/\\.(?!well-known/)"', 'location ~ "/nothing"'],
    // nginx redirects a visitor to the port that only Cloudflare reaches.
    [visit("/blog"), 301, "absolute_redirect off;"],
  ];
  const requests = attacks.map(([request]) => request);
  const mutants = attacks.map(([request, , words, instead = ""]) => {
    expect(rendered).toContain(words);
    return [[request], { config: rendered.replaceAll(words, instead) }] as const;
  });
  const [declared, ...broken] = nginx.sendEach([[[requests], { settings: served, config: rendered }], ...mutants]);
  expect(declared!.replies[0]!.map(({ status }) => status)).toEqual(attacks.map(([, status]) => status));
  expect(broken.map(({ replies }) => replies[0]![0]!.status)).toEqual([200, 200, 200, 200, 301]);
  expect(broken.at(-1)!.replies[0]![0]!.headers.location).toContain(`:${exampleHost.originPort}/`);
});

test("a published site changes nothing in the hooks' server", () => {
  const hooks = renderProxy(example, exampleHost).replace(/\n\}\n$/, "");
  expect(renderProxy(served, exampleHost).startsWith(hooks)).toBe(true);
});
