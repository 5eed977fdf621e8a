/** A published site in a real nginx: requests of visitors through Cloudflare, and of other peers. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { rmSync, symlinkSync, utimesSync } from "node:fs";
import { beforeEach, expect, test } from "vitest";
import { canaryPath } from "../../../infra/contract.ts";
import { proxyLayer, renderProxy, websites } from "../../../infra/host/proxy/proxy.ts";
import { example, exampleHost, served, serving, siteHostname } from "../../fixtures.ts";
import { edge6, fromEdge, noNginx, OriginLab, origin6, stranger } from "./lab/origin.ts";
import type { LabRequest } from "./lab/proxy.ts";

const nginx = new OriginLab();

const digest = createHash("sha256").update("body { }").digest("hex");
const styles = `/css/main.min.${digest}.css`;
const files: Record<string, string> = {
  "index.html": "<p>front page",
  "404.html": "<p>the site's own 404",
  "blog/index.html": "<p>All work and no play makes a long page.</p>\n".repeat(50),
  [styles.slice(1)]: "body { }",
  "app.mjs": "export {}",
  ".git/config": "secret",
  ".well-known/security.txt": "Contact: mailto:security@example.org",
  ".well-known/.hidden": "secret",
  "webhook/site/index.html": "<p>a page of that name",
};

const write = (folder: string, tree: Record<string, string>) => {
  for (const [path, text] of Object.entries(tree)) nginx.write(`${folder}/${path}`, text);
};
const www = nginx.at("www");
/** Shell: the link to the current release, as the builder changes it. */
const publish = (id: string) => `ln -sfn releases/${id} ${www}/new && mv -T ${www}/new ${www}/current`;
write("www/releases/000001", files);
symlinkSync("releases/000001", `${www}/current`);

const visit = (path: string, lines: readonly string[] = [], method = "GET", name = siteHostname, host = name) => {
  const all = [`Host: ${host}`, `CF-Connecting-IP: ${stranger}`, "Connection: close", ...lines];
  return fromEdge(`${method} ${path} HTTP/1.1`, all, "", { name });
};
const declared = renderProxy(served, exampleHost);
const replies = async (requests: readonly LabRequest[], config = declared) =>
  (await nginx.send(requests, config)).replies.flat();

test("nginx enters homes for a folder in one alone, and previews alone are for no search engine", () => {
  const previews = { hostname: "preview.example.org", branches: ["*"], keep: 1 };
  const all = [{ folders: { one: "/srv/home/one" } }, { folders: { one: "/srv/one", two: "/root/two" }, previews }];
  const texts = all.map((site) => proxyLayer(serving(served, site), exampleHost, "PEM").files.map(({ text }) => text));
  const found = texts.map((text) => text.join("").match(/ProtectHome=read-only|noindex|location \/(one|two)\/ /g));
  const [one, two] = ["location /one/ ", "location /two/ "];
  expect(found).toEqual([[one], [one, two, "noindex", "ProtectHome=read-only"]]);
  expect(websites(example, 8443, "")).toBe("");
});

beforeEach(({ skip }) => skip(noNginx !== undefined, noNginx));

const own = "<p>the site's own 404";
const byProxy = { "x-served-by": "pushgate-proxy" };
const answers: [name: string, request: LabRequest, status: number, says: Record<string, string> | string][] = [
  ["the front page", visit("/?utm=1"), 200, "<p>front page"],
  ["the front page over IPv6", { ...visit("/"), from: edge6, to: origin6 }, 200, "<p>front page"],
  ["a page", visit("/blog/"), 200, { "content-type": "text/html; charset=utf-8", "cache-control": "no-cache" }],
  ["a page, small on the wire", visit("/blog/", ["Accept-Encoding: gzip"]), 200, { "content-encoding": "gzip" }],
  ["a page by its folder, without the origin port in the answer", visit("/blog"), 301, { location: "/blog/" }],
  ["a file named by its digest", visit(styles), 200, { "cache-control": "public, max-age=604800, immutable" }],
  ["a digest that is not there", visit(styles.replace(digest, "0".repeat(64))), 404, { "cache-control": "no-cache" }],
  ["a module by its type", visit("/app.mjs"), 200, { "content-type": "application/javascript; charset=utf-8" }],
  ["the site's own 404", visit("/nothing/here"), 404, own],
  ["the 404 page as a page", visit("/404.html"), 404, own],
  ["no repository", visit("/.git/config"), 404, own],
  ["no dot file below .well-known", visit("/.well-known/.hidden"), 404, own],
  ["a file below .well-known", visit("/.well-known/security.txt"), 200, files[".well-known/security.txt"]!],
  ["no folder's contents", visit("/css/"), 404, own],
  ["nothing beside the web root", visit("/..%2f..%2ftls/origin.key"), 400, byProxy],
  ["a page with a hook's path", visit("/webhook/site/"), 200, "<p>a page of that name"],
  ["nothing to change", visit("/index.html", [], "DELETE"), 405, { allow: "GET, HEAD" }],
  ["nothing for a body", visit("/", ["Content-Length: 4096"]), 413, byProxy],
  [
    "a redirect to https",
    { ...visit("/blog/?q=1"), plain: true },
    301,
    { location: `https://${siteHostname}/blog/?q=1` },
  ],
];

test("nginx gives each request its stated answer", async () => {
  const requests = [...answers.map(([, request]) => request), visit("/blog/", ["User-Agent: a browser"])];
  const { replies, log } = await nginx.send([requests], declared);
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
  for (const { headers } of got) expect(headers).toMatchObject({ ...byProxy, "x-content-type-options": "nosniff" });
  expect(JSON.stringify(got)).not.toMatch(new RegExp(`secret|${exampleHost.originPort}|nginx/`));
  // The site's log is its own, not the one of JSON, and has the visitor's address.
  expect(log.join("\n")).not.toMatch(/^\{/m);
  expect(log.join("\n")).toMatch(new RegExp(`^${stranger} .*"GET /blog/ HTTP/1.1" 200 .*"a browser"$`, "m"));
});

test("nginx serves a publish at once, and answers 304 while a page is the same, newer or older", async () => {
  const { etag, "last-modified": modified } = (await replies([visit("/")]))[0]!.headers;
  const older = nginx.write("www/releases/000002/index.html", "<p>older front");
  utimesSync(older, 1_000_000_000, 1_000_000_000);
  const conditional = visit("/", [`If-None-Match: ${etag}`]);
  const got = await replies([
    ...[conditional, { ...conditional, before: publish("000002") }],
    ...[visit("/", [`If-Modified-Since: ${modified}`]), visit("/nothing")],
    { ...visit("/"), before: publish("000001") },
  ]);
  expect(got.map(({ status, body }) => [status, body])).toEqual([
    [304, ""],
    [200, "<p>older front"],
    [200, "<p>older front"],
    // The page of nginx's own: that release has none.
    [404, expect.stringContaining("<h1>404 Not Found</h1>")],
    [200, "<p>front page"],
  ]);
  expect(got[0]!.headers["cache-control"]).toBe("no-cache");
});

const srv = nginx.at("srv");
const config = renderProxy(serving(served, { folders: { downloads: `${srv}/downloads` } }), exampleHost);
const secret = "of another account";
beforeEach(() => {
  rmSync(srv, { recursive: true, force: true });
  write("srv", { "downloads/a b.zip": "zip", "downloads/.hidden": secret, "private/secret.txt": secret });
});

test("a folder that no build makes is served below its name, for reading, without a list and without dot files", async () => {
  const paths = ["/a%20b.zip", "/", "/.hidden", "/../../private/secret.txt", "../private/secret.txt"];
  const requests = paths.map((path) => visit(`/downloads${path}`));
  const got = await replies([...requests, visit("/downloads/a%20b.zip", [], "DELETE")], config);
  expect(got.map(({ status }) => status)).toEqual([200, 404, 404, 400, 404, 405]);
  expect([got[0]!.body, got[0]!.headers["x-content-type-options"]]).toEqual(["zip", "nosniff"]);
  expect(got[1]!.body).toBe("<p>the site's own 404");
});

// Root is the owner of a release's target; so another account must be that of the link.
const inRelease = (target: string, link: string) =>
  `ln -s ${target} link; [ "$(id -u)" != 0 ] || chown -h 12345 link; mv -T link www/${link}`;
test.each<[where: string, path: string, link: string, status: number]>([
  ["to a file", "/downloads/link.txt", "ln -s ../private/secret.txt srv/downloads/link.txt", 404],
  ["to a folder", "/downloads/up/private/secret.txt", "ln -s .. srv/downloads/up", 404],
  ["in the folder's place", "/downloads/secret.txt", "cd srv; mv downloads aside; ln -s private downloads", 404],
  ["in a release", "/link/passwd", inRelease("/etc", "current/link"), 404],
  ["in place of a release", "/etc/passwd", inRelease("/", "current"), 403],
])("no account publishes files of others by a link %s, and would without disable_symlinks", async (...row) => {
  const [, path, link, status] = row;
  execFileSync("sh", ["-ec", link], { cwd: nginx.folder });
  expect(await replies([visit(path)], config)).toMatchObject([{ status }]);
  const mutant = config.replace(/disable_symlinks .*;/g, "");
  expect(await replies([visit(path)], mutant)).toMatchObject([{ status: 200 }]);
  execFileSync("sh", ["-ec", `rm -f current/link; ${publish("000001")}`], { cwd: www });
});

const by = (name: string, host = name, path = "/") => visit(path, [], "GET", name, host);
const hooks = exampleHost.hostname;

test("only the site's name leads to the site; every other name leads to the hooks' server", async () => {
  const got = await replies([
    ...[hooks, `x${siteHostname}`, "wwwxexample.org"].map((name) => by(name)),
    fromEdge("GET / HTTP/1.0", [`CF-Connecting-IP: ${stranger}`]),
    ...[by(hooks, hooks, canaryPath), by(siteHostname, siteHostname.toUpperCase())],
    // The request names another server than the handshake did: nginx checked the certificate for the first one only.
    by(siteHostname, hooks),
  ]);
  expect(got.map(({ status }) => status)).toEqual([404, 404, 404, 404, 204, 200, 421]);
  for (const { body } of got.slice(0, 4)) expect(JSON.parse(body)).toEqual({ error: "not found" });
});

test("nginx serves several sites, and a name as long as DNS allows", async () => {
  const longest = `${`${"a".repeat(60)}.`.repeat(3)}${"b".repeat(50)}.example.org`;
  const many = serving(example, { hostname: longest });
  const two = { ...many, hooks: [...many.hooks, { ...served.hooks[0]!, name: "second" }] };
  const got = await replies([by(longest), visit("/")], renderProxy(two, exampleHost));
  expect(got.map(({ status, body }) => [status, body])).toEqual(Array(2).fill([200, "<p>front page"]));
});

test.each<[words: string, instead: string, request: LabRequest, statuses: number[], location?: string]>([
  // A peer that is not Cloudflare. proxy.test.ts removes the certificate's check, which is one for both.
  ["($pushgate_peer_is_edge = 0)", "($pushgate_peer_is_edge = 2)", { ...visit("/"), from: stranger }, [403, 200]],
  // A visitor who reads dot files.
  ['location ~ "/\\.(?!well-known/)"', 'location ~ "/nothing"', visit("/.git/config"), [404, 200]],
  // nginx redirects a visitor to the port that only Cloudflare reaches.
  ["absolute_redirect off;", "", visit("/blog"), [301, 301], `:${exampleHost.originPort}/`],
])("without %s an attack passes", async (words, instead, request, statuses, location = "") => {
  expect(declared).toContain(words);
  const [kept] = await replies([request]);
  const [broken] = await replies([request], declared.replaceAll(words, instead));
  expect([kept!.status, broken!.status]).toEqual(statuses);
  expect(broken!.headers.location ?? "").toContain(location);
});
