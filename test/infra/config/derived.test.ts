/** Values derived from the configuration; source sets: hooks grouped by ranges, each set on a port that does not change. */
import { expect, test } from "vitest";
import {
  allHostnames,
  isReported,
  mailOf,
  namesOf,
  reportPorts,
  servedSites,
  sitesOf,
  sourceSets,
  webhookUrls,
} from "../../../infra/config/derived.ts";
import type { Hook } from "../../../infra/config/settings.ts";
import { example, served } from "../../fixtures.ts";

const [web1] = example.hosts as [(typeof example.hosts)[0]];
const [site, docs] = served.hooks as [Hook, Hook];
const blog: Hook = {
  ...docs,
  name: "blog",
  site: { ...site.site!, webRoot: "/var/www/blog", hostname: "blog.example.org" },
};
const { hostname: _, ...unserved } = site.site!;
const plain: Hook = { ...site, name: "plain", site: unserved };
const gone = { ...web1, name: "web0", hostname: "gone.example.org", state: "absent" as const };
const early = { ...web1, name: "web2", hostname: "a.example.org", state: "lost" as const };
const settings = { ...example, hosts: [web1, gone, early], hooks: [site, docs, plain, blog] };

test("a hook without a site has none, and a site without a hostname is not served", () => {
  expect(sitesOf(settings).map(({ name }) => name)).toEqual(["site", "plain", "blog"]);
  expect(servedSites(settings)).toEqual([
    { hook: "site", hostname: "www.example.org", webRoot: "/var/www/site", isPreview: false, folders: [] },
    { hook: "blog", hostname: "blog.example.org", webRoot: "/var/www/blog", isPreview: false, folders: [] },
  ]);
});

test("previews are a site more, which has nothing that is of visitors, writers or reports", () => {
  const previews = { hostname: "preview.example.org", branches: ["*"], keep: 10 };
  const of = { content: "/srv/c", writers: "w", schedule: "daily", purge: true, folders: { a: "/srv/a" } };
  const notify = [{ name: "team", url: "https://x.example.org/", format: "ntfy" as const, published: false }];
  const hooks = [{ ...site, site: { ...site.site!, ...of, notify, previews } }];
  const [first, second] = sitesOf({ hooks });
  expect(servedSites({ hooks }).map(({ isPreview }) => isPreview)).toEqual([false, true]);
  expect([first!.name, first!.previews, first!.site.content]).toEqual(["site", undefined, "/srv/c"]);
  const { content: _, writers: __, schedule: ___, previews: ____, ...own } = first!.site;
  expect(second).toEqual({
    ...first,
    ...{ name: "site-previews", previews },
    site: {
      ...{ ...own, webRoot: "/var/www/site-previews", hostname: "preview.example.org" },
      ...{ folders: {}, assets: [], notify: [], purge: false },
    },
  });
});

test("hostnames are sorted, without those of absent hosts, and sites have one while a host is left or lost", () => {
  const names = ["a.example.org", "hooks.example.org", "blog.example.org", "www.example.org"];
  expect(allHostnames(settings)).toEqual(names);
  expect(allHostnames({ ...settings, hosts: [gone] })).toEqual([]);
});

test("a host answers to its own hostname first, then to each site's", () => {
  expect(namesOf(settings, web1)).toEqual(["hooks.example.org", "www.example.org", "blog.example.org"]);
});

test("each hook has a URL on each host that is not absent", () => {
  expect(webhookUrls({ hosts: [web1, gone, early], hooks: [site, docs] })).toEqual([
    { hook: "site", host: "web1", url: "https://hooks.example.org/webhook/site" },
    { hook: "site", host: "web2", url: "https://a.example.org/webhook/site" },
    { hook: "docs", host: "web1", url: "https://hooks.example.org/webhook/docs" },
    { hook: "docs", host: "web2", url: "https://a.example.org/webhook/docs" },
  ]);
});

const notifying = (...urls: string[]) => ({
  notify: urls.map((url) => ({ name: "team", url, format: "standard" as const, published: false })),
});
const own = (name: string): Hook => ({ ...example.hooks[1]!, name, sources: [name] });

test("hooks with the same ranges share a source set, and no others, also where the texts are alike", () => {
  const [site, docs] = example.hooks as [Hook, Hook];
  const alike = [
    { ...own("a"), sources: ["1.1.1.1", "12.1.1.1"] },
    { ...own("b"), sources: ["1.1.1.11", "2.1.1.1"] },
  ];
  const sets = sourceSets({ hooks: [site, docs, { ...site, name: "blog" }, ...alike] });
  expect(sets.map(({ name, cidrs, hooks }) => [name, cidrs, hooks.map((hook) => hook.name)])).toEqual([
    ["github", site.sources, ["site", "blog"]],
    ["198.51.100.0-28", docs.sources, ["docs"]],
    ["1.1.1.1_e8171de3", alike[0]!.sources, ["a"]],
    ["1.1.1.11_432dd505", alike[1]!.sources, ["b"]],
  ]);
  const renamed = (gitHost: Hook["gitHost"], sources: string[]) =>
    sourceSets({ hooks: [{ ...own("any"), gitHost, sources }] })[0]!.name;
  // Whatever hook comes first, and for a git host that publishes its ranges also with other ranges.
  expect(renamed("gitea", [...docs.sources])).toBe("198.51.100.0-28");
  expect(renamed("github", ["1.1.1.1"])).toBe("github");
  expect(renamed("gitea", [...site.sources])).toMatch(/^9\.234\.98\.160-28_/);
  expect(renamed("gitea", ["2001:DB8::/32"])).toBe("2001_db8__-32");
});

test("a set's port is one of 400 that its name determines, whichever sets are beside it, in whatever order", () => {
  const ports = (names: readonly string[]) =>
    sourceSets({ hooks: names.map((name) => own(name)) }).map(({ port }) => port);
  expect(ports(["docs", "blog", "wiki"])).toEqual([9792, 9791, 9695]);
  expect([ports(["wiki", "docs"]), ports(["blog"])]).toEqual([[9695, 9792], [9791]]);
  const many = ports(Array.from({ length: 400 }, (_, i) => `hook-${i}`));
  expect(new Set(many)).toEqual(new Set(Array.from({ length: 400 }, (_, i) => 9470 + i)));
  // With one hash, the later name in the alphabet takes the next port, and the last port is followed by the first.
  expect(ports(["h39", "h1010"])).toEqual([9470, 9869]);
});

test("mail goes to the addresses of recipients by mail alone", () => {
  const mail = { name: "mail", url: "mailto:a@example.org,b@example.org", format: "email" as const, published: false };
  const { notify } = notifying("https://example.net/hook");
  expect(mailOf({ site: { ...site.site!, notify: [...notify, mail] } })).toEqual(["a@example.org", "b@example.org"]);
});

test.each<[where: string, ports: number[], hook: Partial<Hook>, site?: object]>([
  ["nowhere, without a token and a URL", [], {}],
  ["to the git host over https", [443], { setsStatus: true, repository: "https://github.com/a/b.git" }],
  ["to the git host on a port", [8443], { setsStatus: true, repository: "https://git.example.net:8443/a/b.git" }],
  ["to a git host read over SSH", [443], { setsStatus: true, repository: "ssh://git@git.example.net:2222/a/b" }],
  ["to recipients", [443, 8444], {}, notifying("https://example.net/hook", "https://example.net:8444/hook")],
  ["to Cloudflare", [443], {}, { purge: true }],
  ["to two of them", [443, 8444], { setsStatus: true }, notifying("https://example.net:8444/")],
])("results of builds leave the host %s, on these ports: %s", (_, ports, hook, site) => {
  const [first] = sitesOf(served);
  const reported = { ...first!, ...hook, site: { ...first!.site, ...site } };
  expect([isReported(reported), reportPorts(reported)]).toEqual([ports.length > 0, ports]);
});
