/**
 * Requests to Cloudflare, and the kind of each: a delivery, the canary, an unwanted request, a site's, or one for another
 * hostname. matrix.test.ts states what Cloudflare answers to each kind, on every plan and with every product on;
 * rules.test.ts has a request that each condition of the delivery rule rejects.
 */
import { published } from "../../../infra/config/derived.ts";
import type { GitHostName, Hook, Settings } from "../../../infra/config/settings.ts";
import { canaryPath } from "../../../infra/contract.ts";
import { gitHostNames } from "../../../service/git-hosts/index.ts";
import type { EdgeRequest } from "../../fakes/cloudflare/request.ts";
import { senders } from "../../fakes/senders.ts";
import { example, serving } from "../../fixtures.ts";

/**
 * delivery: has the shape of one, so Cloudflare lets it through; the receiver decides whether it is one.
 * site: for a published site that pushgate serves; the zone's own rules apply, and it gets the origin port of hooks.
 * elsewhere: on none of pushgate's hostnames, so no rule of pushgate's may apply to it.
 */
export type Kind = "delivery" | "canary" | "nothing" | "site" | "elsewhere";
export type Row = { readonly name: string; readonly is: Kind; readonly request: EdgeRequest };

const digits = "0123456789abcdef".repeat(4);
const sha1 = `sha1=${digits.slice(24)}`;
const agent = { "user-agent": "GitHub-Hookshot/abc1234" };
/** Of the git hosts that publish none, one has ranges, and each other an address. */
const sourcesOf = (gitHost: GitHostName): readonly string[] =>
  gitHost === "gitea"
    ? ["198.51.100.16/28", "2001:db8:7::/64"]
    : (published[gitHost] ?? [`203.0.113.${200 + gitHostNames.indexOf(gitHost)}`]);
const hookOf = (gitHost: GitHostName): Hook => ({
  ...{ ...example.hooks[0]!, gitHost, name: gitHost === "github" ? "site" : gitHost },
  sources: sourcesOf(gitHost),
});
const signed = (gitHost: GitHostName) => senders[gitHost].headers(Buffer.from("{}"), senders[gitHost].secret);

const siteName = `blog.${example.zone}`;

/** One host, a hook of every git host; the first one's site is served. */
export const everyGitHost: Settings = serving({ ...example, hooks: gitHostNames.map(hookOf) }, { hostname: siteName });
const hostname = example.hosts[0]!.hostname;
export const otherHostname = `www.${example.zone}`;

function delivery(gitHost: GitHostName): EdgeRequest {
  const { name, sources } = hookOf(gitHost);
  const [source = ""] = sources[0]!.split("/");
  const headers = { ...agent, "content-type": "application/json", ...signed(gitHost) };
  return { source, method: "POST", host: hostname, target: `/webhook/${name}`, headers };
}

const github = delivery("github");
const signature = "x-hub-signature-256";
const signedBy = (...values: string[]): Partial<EdgeRequest> => ({
  headers: { ...agent, [signature]: values },
});
const getRequest = { method: "GET", source: "192.0.2.33" };
const browser = { headers: { "user-agent": "Mozilla/5.0 (X11; Linux x86_64)" } };
const token = { "x-gitlab-token": "a-token-that-is-the-secret-itself-xx" };
const twoKinds = { "webhook-signature": `v1a,${"B".repeat(86)}== v1,${"A".repeat(43)}=` };
const curl = { headers: { "user-agent": "curl/8.11.0" } };

type Variant = readonly [name: string, is: Kind, change: Partial<EdgeRequest>, of?: GitHostName];
const variants: readonly Variant[] = [
  ...gitHostNames.map((gitHost): Variant => [`${gitHost} delivers`, "delivery", {}, gitHost]),
  ["header names as github writes them", "delivery", { headers: { "X-HUB-SIGNATURE-256": `sha256=${digits}` } }],
  ["gitlab's token", "delivery", { headers: token }, "gitlab"],
  ["signatures of two kinds", "delivery", { headers: twoKinds }, "standard-webhooks"],
  ...gitHostNames.flatMap((gitHost): Variant[] => {
    const empty = Object.fromEntries(Object.keys(signed(gitHost)).map((name) => [name, ""]));
    return [
      [`${gitHost} without a signature`, "nothing", { headers: agent }, gitHost],
      [`${gitHost} with an empty signature`, "nothing", { headers: empty }, gitHost],
    ];
  }),
  ["no user agent", "delivery", { headers: { [signature]: `sha256=${digits}` } }],
  ["the hostname in capitals", "delivery", { host: "HOOKS.EXAMPLE.ORG" }],

  ...["GET", "PUT", "post"].map((method): Variant => [`by ${method}`, "nothing", { method }]),
  ["a slash at the end", "nothing", { target: "/webhook/site/" }],

  ["the prefix alone, as a git host without a secret sends it", "nothing", signedBy("sha256=")],
  ["a signature one digit short", "nothing", signedBy(`sha256=${digits.slice(1)}`)],
  ["sha1 under the name of sha256", "nothing", signedBy(sha1)],
  ["the prefix in capitals", "nothing", signedBy(`SHA256=${digits}`)],
  ["github's sha1 header", "nothing", { headers: { "x-hub-signature": sha1 } }],
  ["a short signature before a good one", "nothing", signedBy("sha256=0", `sha256=${digits}`)],
  // Two good ones arrive at the receiver as one malformed value: 401.
  ["a signature twice", "delivery", signedBy(`sha256=${digits}`, `sha256=${digits}`)],
  ["bitbucket's header with sha1", "nothing", { headers: { "x-hub-signature": sha1 } }, "bitbucket"],
  ["gitlab's other webhook headers", "nothing", { headers: { "webhook-id": "1", "webhook-timestamp": "1" } }, "gitlab"],
  ["gitlab's token for github's hook", "nothing", { headers: token }],
  ["gitea's own header alone", "nothing", { headers: { "x-gitea-signature": digits } }, "gitea"],

  ["from the last address of a range", "delivery", { source: "2001:db8:7:0:ffff:ffff:ffff:ffff" }, "gitea"],
  ["from the next one", "nothing", { source: "2001:db8:7:1::" }, "gitea"],
  ["from a stranger, by IPv6", "nothing", { source: "2001:db8::33" }],
  ["from github to gitlab's hook", "nothing", { source: github.source }, "gitlab"],
  ["from gitlab to github's hook", "nothing", { source: delivery("gitlab").source }],
  ["a mapped IPv4 address", "nothing", { source: `::ffff:${github.source}` }],

  ["the canary, by curl", "canary", { ...getRequest, ...curl, target: canaryPath }],
  ["the canary, by a browser", "canary", { ...getRequest, ...browser, target: canaryPath }],
  ["POST on the canary", "nothing", { target: canaryPath }],
  ["a path below the canary", "nothing", { ...getRequest, ...browser, target: `${canaryPath}/x` }],
  ["the canary by plain http", "nothing", { ...getRequest, ...browser, target: canaryPath, ssl: false }],
  ["the front page", "nothing", { ...getRequest, ...browser, target: "/" }],

  ["a visitor of the site", "site", { ...getRequest, ...browser, host: siteName, target: "/" }],
  ["a visitor without TLS", "site", { ...getRequest, ...browser, host: siteName, target: "/", ssl: false }],
  ["a script that reads the site", "site", { ...getRequest, ...curl, host: siteName, target: "/page/?q=1" }],
  ["a form that a visitor sends to the site", "site", { host: siteName, target: "/", headers: browser.headers }],
  ["a delivery to the site", "site", { host: siteName }],
  ["the site's dot file", "site", { ...getRequest, ...curl, host: siteName, target: canaryPath }],

  ["a delivery to another hostname", "elsewhere", { host: otherHostname }],
  ["another hostname, by a browser", "elsewhere", { ...getRequest, ...browser, host: otherHostname, target: "/" }],
  ["another hostname, by plain http", "elsewhere", { ...getRequest, ...curl, host: otherHostname, ssl: false }],
];

export const requests: readonly Row[] = variants.map(([name, is, change, of = "github"]) => ({
  ...{ name, is },
  request: { ...delivery(of), ...change },
}));
