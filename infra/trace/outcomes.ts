/**
 * What can become of a delivery, and what that leaves in each source: for `trace`, the canary and README's table. Sources:
 * Cloudflare's documentation of its status codes, of error 1xxx pages, and of the fields of firewall events.
 */
import { isRejection } from "../../service/journal.ts";
import { forbidden, servedByProxy, servedByReceiver } from "../contract.ts";

/** The layers on a delivery's path, as README's picture counts them; 0 is the git host. */
export const pathLayers = [
  ...(["the git host", "1 DNS", "2 WAF", "3 bot management", "4 Cloudflare to origin"] as const),
  ...(["5 firewall", "6 nginx", "7 systemd", "8 receiver"] as const),
];
export type PathLayer = (typeof pathLayers)[number];

/** An answer on the git host's page. */
export type Shape = {
  /** X-Served-By, which Cloudflare passes on; left out where Cloudflare answers itself. */
  readonly by?: string;
  readonly status: readonly number[]; // 0 for no answer
  readonly challenge?: true; // it has `cf-mitigated`
  /** Cloudflare's page, by number, or `blocked`; left out, whatever the page is. */
  readonly page?: readonly string[];
  readonly text?: string; // in the body of nginx's answer
};

/** A security event of Cloudflare's. What is left out may be anything. */
type EventShape = {
  readonly action?: keyof typeof actions;
  readonly source?: readonly string[];
  readonly not?: { readonly source?: readonly string[]; readonly rule?: string; readonly owner?: "pushgate" | "zone" };
};

type NginxShape = {
  readonly status: readonly number[];
  /** nginx tried no connection, the socket refused it, it was open, or nginx passed the receiver's answer on. */
  readonly came: "alone" | "refused" | "connected" | "passed";
  readonly in_ranges?: "0" | "1";
  readonly limit?: "REJECTED";
};

export type Outcome = {
  readonly name: string;
  /** The layer that rejected the delivery, or "delivered". */
  readonly layer: PathLayer | "delivered";
  /** A sentence without its full stop. `{origin}` in it is the host's address and port. */
  readonly what: string;
  readonly fix?: string; // `{rule}` in it is the rule of the security event
  readonly history?: "none"; // the git host's delivery history has no push
  readonly answer: readonly Shape[]; // any of these
  readonly event?: EventShape; // absent where Cloudflare rejects nothing
  readonly nginx: NginxShape | "none"; // "none": the outcome leaves no line
  /** `overBudget`: whether the source has used up rejectionsPerMinute. */
  readonly receiver: { readonly status: readonly number[]; readonly overBudget?: boolean } | "none";
  readonly unlogged?: true; // the receiver's line may come later, or not at all
};

type Row = Omit<Outcome, "name" | "layer" | "nginx" | "receiver"> & Partial<Outcome>;
/** The rows of a layer, by name. A log that a row does not name has no line. */
const at = (layer: Outcome["layer"], rows: Readonly<Record<string, Row>>): Outcome[] =>
  Object.entries(rows).map(([name, row]) => ({ name, layer, nginx: "none", receiver: "none", ...row }));

/** Actions that keep a request from the host. Others, such as log and skip, let the request pass. */
export const actions = {
  block: ["block", "drop", "connectionclose", "forceconnectionclose"],
  challenge: ["challenge", "jschallenge", "managedchallenge"],
};
/** Products by the source of their events; "waf" and "firewallrules" are sources of older events. */
const custom = ["firewallcustom", "firewallrules"];
const managed = ["firewallmanaged", "waf"];
const access = ["ip", "iprange", "country", "asn"];
const bots = ["botfight", "botmanagement", "sbfm"];
const validation = ["validation", "sanitycheck"];
const known = [
  ...[...custom, ...managed, ...access, ...bots, ...validation],
  ...["securitylevel", "bic", "zonelockdown", "uablock", "ratelimit", "l7ddos"],
];
const blocks = (...source: string[]): EventShape => ({ action: "block", source });

const decided = (event: EventShape, ...answer: Shape[]) => ({ event, answer });

/** "Sorry, you have been blocked": the page of a rule. */
export const blocked = "blocked";
const cloudflare = (...status: number[]): Shape => ({ status });
const page = (status: number, ...pages: string[]): Shape => ({ status: [status], page: pages });
const challenged: Shape = { status: [403, 429, 503], challenge: true };
const from = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, n) => first + n);
/** A response of a rule's own has a status from 400 to 499, a Worker's any. The page is then not Cloudflare's. */
const ownPage: Shape = { status: from(400, 499), page: [] };

const alone = { came: "alone" } as const;
const byNginx = (status: number, nginx: Omit<NginxShape, "status"> = alone, text?: string) => ({
  answer: [{ by: servedByProxy, status: [status], ...(text !== undefined && { text }) }],
  nginx: { ...nginx, status: [status] },
});

/** The receiver answers: both logs have a line. Above 100 rejections a second the journal has only the first 100. */
const byReceiver = (...status: number[]) => ({
  answer: [{ by: servedByReceiver, status }],
  nginx: { status, came: "passed" } as const,
  receiver: { status },
  ...(status.every(isRejection) && { unlogged: true as const }),
});

/** nginx and the receiver have the same limit. */
const largeBody = {
  what: "the body is larger than pushgate:limits.bodyBytes",
  fix: "npx pulumi config set --path pushgate:limits.bodyBytes 26214400, then npx pulumi up.",
};
const compareSource =
  "Compare the source with the ranges that the git host publishes and with infra/networks.ts. A self-hosted git host's belong in hooks[].sources.";

// biome-ignore format: a table reads better with what happened and what shows it beside each other
export const outcomes: readonly Outcome[] = [
  ...at("the git host", {
    "never sent": { what: "the git host has sent no push to this webhook", history: "none", answer: [],
      fix: "npx pushgate hook --set, which creates or corrects the webhook. GitHub sends no push above 25 MB, of more than 5,000 branches or of more than 3 tags, GitLab none of more than 3 branches or tags." },
  }),
  ...at("1 DNS", {
    "no address": { what: "the git host found no address or no valid certificate for the hostname", answer: [cloudflare(0)],
      fix: "npx pulumi preview shows whether the record and Cloudflare's certificate are there." },
    "no record": { what: "the zone has no proxied record of the hostname", answer: [page(409, "1001")], fix: "npx pulumi up" },
  }),
  ...at("2 WAF", {
    "not declared": { what: "pushgate's own rule blocked the request: it has no signature, or its URL or source is not declared",
      ...decided({ ...blocks(...custom), not: { owner: "zone" } }, page(403, blocked)),
      fix: "Enter URL and secret at the git host as npx pushgate hook prints them: without a secret it signs nothing, and Bitbucket Data Center signs no test. npx pulumi preview shows what was changed at Cloudflare." },
    "custom rule": { what: "a custom rule of the zone or account blocked the request",
      ...decided({ ...blocks(...custom), not: { owner: "pushgate" } }, page(403, blocked, "1020"), ownPage),
      fix: "Exclude the hostname from {rule}. npx pulumi up puts pushgate's rules before the zone's own." },
    "managed rule": { what: "a managed rule took the delivery's content for an attack", ...decided(blocks(...managed), page(403, blocked)),
      fix: "npx pulumi up restores pushgate's skip rule, which skips managed rules. In an account's ruleset exclude the hostname from {rule}." },
    "access rule": { what: "an IP Access rule blocked the source's address, range, country or network",
      ...decided(blocks(...access), page(403, blocked, "1005", "1006", "1007", "1008", "1009", "1012", "1106")),
      fix: "Remove {rule}, or let the git host's ranges pass it: it runs before pushgate's rules. Security > WAF > Tools lists the zone's and the account's." },
    "zone lockdown": { what: "a zone lockdown rule lets other addresses alone reach the hostname", ...decided(blocks("zonelockdown"), page(403, blocked, "1106")),
      fix: "npx pulumi up restores pushgate's skip rule, which skips zone lockdown. Or exclude the hostname from {rule}." },
    "user agent rule": { what: "a User Agent Blocking rule of the zone blocked the git host's user agent", ...decided(blocks("uablock"), page(403, blocked, "1020")),
      fix: "npx pulumi up restores pushgate's skip rule, which skips these rules. Or remove {rule}." },
    "rate limit": { what: "a rate limiting rule counted too many requests of the git host's shared addresses", ...decided(blocks("ratelimit"), page(429, "1015")),
      fix: "npx pulumi up restores pushgate's skip rule, which skips these rules. In an account's ruleset exclude the hostname from {rule}." },
    "DDoS protection": { what: "Cloudflare's HTTP DDoS protection took the deliveries for a flood",
      ...decided(blocks("l7ddos"), page(403, blocked), page(429, blocked), cloudflare(0)),
      fix: "Lower the sensitivity of {rule} in the zone's HTTP DDoS override: no skip rule covers it." },
    malformed: { what: "Cloudflare took the request for malformed before any rule ran", ...decided(blocks(...validation), page(400), page(403, blocked)),
      fix: "Look at what sends it, and at a proxy before it: no rule lets such a request pass." },
    "another Cloudflare product": { what: "another product of Cloudflare blocked the request",
      ...decided({ action: "block", not: { source: known } }, page(400), page(403, blocked, "1011"), page(429)),
      fix: "Exclude the hostname from {rule}." },
    "another program at Cloudflare": { what: "a Worker, an Access application or a redirect rule covers the hostname and answered",
      answer: [cloudflare(...from(200, 399)), ownPage, page(500, "1101", "1102")],
      fix: "Exclude the hostname from that Worker, application or rule." },
  }),
  ...at("3 bot management", {
    "Bot Fight Mode": { what: "Bot Fight Mode challenged the git host as a bot", ...decided({ action: "challenge", source: ["botfight"] }, challenged),
      fix: "Run npx pulumi config set --path pushgate:edge.botFightMode off, then npx pulumi up. No rule skips Bot Fight Mode; this switches it off for the whole zone." },
    "Super Bot Fight Mode": { what: "Super Bot Fight Mode or Bot Management took the git host for a bot",
      ...decided({ source: bots, not: { rule: "bot_fight_mode" } }, challenged, page(403, blocked)),
      fix: "npx pulumi up restores pushgate's skip rule, which skips both." },
    "browser check": { what: "Browser Integrity Check rejected the sender's headers", ...decided({ source: ["bic"] }, page(403, "1010"), challenged),
      fix: "npx pulumi up restores pushgate's skip rule, which skips this check." },
    "security level": { what: "the zone's Security Level, or its Under Attack mode, challenged the sender",
      ...decided({ action: "challenge", source: ["securitylevel"] }, challenged),
      fix: "npx pulumi up restores pushgate's skip rule, which skips both." },
    "challenge by a rule": { what: "a rule of the zone or account challenged the sender",
      ...decided({ action: "challenge", not: { source: [...bots, "securitylevel", "bic"] } }, challenged),
      fix: "Exclude the hostname from {rule}. pushgate's skip rule skips the zone's own rules, but not IP Access rules: npx pulumi up restores it." },
  }),
  ...at("4 Cloudflare to origin", {
    "Cloudflare failed": { what: "Cloudflare itself failed", answer: [page(500, "500")],
      fix: "Send the delivery again at the git host. https://www.cloudflarestatus.com shows Cloudflare's incidents." },
    "no route": { what: "Cloudflare found no way to {origin}", answer: [cloudflare(523, 530)], fix: "Check that hosts[].address is the host's public address." },
    "origin certificate": { what: "what answers at {origin} does not have pushgate's origin certificate", answer: [cloudflare(525, 526)],
      fix: "npx pulumi up. Then check that hosts[].address is the host's, and that no proxy lies before it." },
  }),
  ...at("5 firewall", {
    firewall: { what: "Cloudflare could not connect to {origin}: a firewall drops its connections, or the host or nginx is down", answer: [cloudflare(521, 522, 0)],
      fix: "npx pushgate status, then npx pulumi preview. A hosting provider's firewall must let https://www.cloudflare.com/ips in on that port, too." },
  }),
  ...at("6 nginx", {
    "another program on the origin port": { what: "a program at {origin} accepted Cloudflare's connection and did not answer as nginx does", answer: [cloudflare(520, 524)],
      fix: "On the host: ss -ltnp shows which program listens on the origin port." },
    "client certificate": { what: "nginx got no client certificate of this zone, a request that is no HTTP, or a header above 8 KiB", ...byNginx(400),
      fix: "npx pulumi up, which presents the client certificate again." },
    "not from Cloudflare": { what: "the connection came from outside of Cloudflare's ranges, and the firewall let it in",
      ...byNginx(403, alone, forbidden.notFromCloudflare),
      fix: "npx pulumi preview shows what changed in the firewall." },
    "no client address": { what: "Cloudflare sent no single client address", ...byNginx(403, alone, forbidden.noClient),
      fix: "Remove the transform rule that changes CF-Connecting-IP." },
    "no hook": { what: "no hook has this path", fix: "Enter the URL that npx pushgate hook prints.", ...byNginx(404) },
    method: { what: "the method is not POST", ...byNginx(405), fix: "Enter the URL that npx pushgate hook prints: a redirect turns POST into GET." },
    "large body": { ...largeBody, ...byNginx(413) },
    "too many requests": { what: "nginx counted too many requests of this source, which is outside of the git host's ranges", ...byNginx(429, { ...alone, limit: "REJECTED" }),
      fix: compareSource },
    "nginx failed": { what: "nginx failed before it connected to the receiver: on a full disk it cannot store a body above 16 KiB", ...byNginx(500),
      fix: "Free space on the host's disk; /var/log/pushgate-nginx/error.log has the reason. Then send the delivery again." },
  }),
  // systemd rejects the connection, and nginx reports it.
  ...at("7 systemd", {
    "outside of the ranges": { what: "systemd rejected the connection: the source is outside of the git host's ranges",
      ...byNginx(403, { came: "refused", in_ranges: "0" }, forbidden.outOfRange),
      fix: compareSource },
    "unreachable socket": { what: "the source is inside of the ranges, and the receiver's socket did not accept the connection",
      ...byNginx(503, { came: "refused", in_ranges: "1" }),
      fix: "npx pushgate status shows what the guard found; npx pulumi up repairs it." },
  }),
  ...at("8 receiver", {
    // The receiver accepted the connection, and did not answer. Cloudflare may answer with its own page in place of both.
    "closed connection": { what: "the receiver closed the connection without an answer", answer: [...byNginx(502).answer, cloudflare(502)], nginx: { status: [502], came: "connected" },
      fix: "npx pushgate logs receiver" },
    // A receiver that hangs, or does not start, writes nothing.
    "receiver timeout": { what: "the receiver did not answer in time",
      answer: [...byNginx(504).answer, cloudflare(504, 0)], nginx: { status: [499, 504], came: "connected" }, receiver: { status: [499] }, unlogged: true,
      fix: "npx pushgate logs receiver: its disk, or the host, is slow." },
    signature: { what: "the receiver found no signature, or one of another secret", ...byReceiver(401),
      fix: "Enter the secret that npx pushgate hook prints at the git host." },
    "no such hook": { what: "the receiver has no hook of this path, or the method is not POST", ...byReceiver(404, 405),
      fix: "npx pulumi up, then enter the URL that npx pushgate hook prints." },
    "too large": { ...largeBody, ...byReceiver(413) },
    "content type": { what: "the content type is not application/json", ...byReceiver(415), fix: "Set application/json at the git host." },
    "too many open requests": { what: "too many requests of this source were open", ...byReceiver(429), receiver: { status: [429], overBudget: false },
      fix: "Send the delivery again at the git host." },
    "too many rejected requests": { what: "this source has more rejected requests than rejectionsPerMinute allows", ...byReceiver(429), receiver: { status: [429], overBudget: true },
      fix: "npx pushgate logs receiver has the reason for which the receiver rejects them: correct that." },
    "large headers": { what: "the delivery's headers are larger than 8 KiB", ...byReceiver(431),
      fix: "Remove what adds headers on the way, such as a transform rule at Cloudflare." },
    slow: { what: "the delivery did not arrive whole within 8 s", ...byReceiver(408), fix: "Send the delivery again at the git host." },
    "no push": { what: "the body is no delivery of this git host", ...byReceiver(400), fix: "npx pushgate logs receiver has the reason. Check hooks[].gitHost." },
    "not spooled": { what: "the disk does not take the delivery", ...byReceiver(503),
      fix: "Free space on the host's disk; npx pushgate logs receiver has the reason. Then send the delivery again." },
    "a bug": { what: "the receiver failed", fix: "npx pushgate logs receiver", ...byReceiver(500) },
  }),
  ...at("delivered", {
    ignored: { what: "the receiver ignored the delivery, as it is no push to the hook's branch", ...byReceiver(200) },
    // Its answer may come too late for the git host, or Cloudflare may lose it.
    accepted: { ...byReceiver(202), what: "the receiver accepted the delivery", answer: [...byReceiver(202).answer, cloudflare(0, 502, 504, 520, 524)] },
  }),
];
