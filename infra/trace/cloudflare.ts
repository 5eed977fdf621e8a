/**
 * The outcomes whose answer is Cloudflare's own: no log of the host has a line. Sources of the facts: Cloudflare's
 * documentation of its status codes, of error 1xxx pages, and of the fields of firewall events.
 */
import { blocked, type Shape } from "./answers.ts";
import type { SecurityEvent } from "./evidence.ts";
import type { Outcome } from "./outcomes.ts";

/** Actions that keep a request from the host. Others, such as log and skip, let the request pass. */
const actions = {
  block: ["block", "drop", "connectionclose", "forceconnectionclose"],
  challenge: ["challenge", "jschallenge", "managedchallenge"],
};
export const rejects = ({ action }: SecurityEvent): boolean => Object.values(actions).flat().includes(action);

const by =
  (action: keyof typeof actions, ...sources: readonly string[]) =>
  (event: SecurityEvent): boolean =>
    actions[action].includes(event.action) && sources.includes(event.source);

/** Products by the source of their events; "waf" and "firewallrules" are sources of older events. */
const custom = ["firewallcustom", "firewallrules"];
const managed = ["firewallmanaged", "waf"];
const access = ["ip", "iprange", "country", "asn"];
const bots = ["botfight", "botmanagement", "sbfm"];
const level = ["securitylevel"];
const validation = ["validation", "sanitycheck"];
const known = [
  ...[...custom, ...managed, ...access, ...bots, ...level, ...validation],
  ...["bic", "zonelockdown", "uablock", "ratelimit", "l7ddos"],
];

/** An answer of Cloudflare's own with one of these statuses. */
export const cloudflare = (...status: readonly number[]): Shape[] => [{ status }];
const page = (status: number, ...pages: readonly string[]): Shape => ({ status: [status], page: pages });
const challenged: Shape = { status: [403, 429, 503], challenge: true };
const from = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, n) => first + n);
/** A response of a rule's own has a status from 400 to 499, a Worker's any. The page is then not Cloudflare's. */
const ownPage: Shape = { status: from(400, 499), page: [] };

type Row = Omit<Outcome, "nginx" | "receiver">;

const rows: readonly Row[] = [
  {
    name: "no address",
    layer: "1 DNS",
    what: "the git host found no address or no valid certificate for the hostname",
    fix: "npx pulumi preview shows whether the record and Cloudflare's certificate are there.",
    answer: cloudflare(0),
  },
  {
    name: "no record",
    layer: "1 DNS",
    what: "the zone has no proxied record of the hostname",
    fix: "npx pulumi up",
    answer: [page(409, "1001")],
  },
  // Cloudflare blocks.
  {
    name: "not declared",
    layer: "2 WAF",
    what: "pushgate's own rule blocked the request: it is not a declared delivery",
    fix: "Compare the URL, the signature and the source with what is declared: npx pushgate hook prints the first two, npx pulumi preview what was changed at Cloudflare.",
    answer: [page(403, blocked)],
    event: (event) => by("block", ...custom)(event) && event.owner !== "zone",
  },
  {
    name: "custom rule",
    layer: "2 WAF",
    what: "a custom rule of the zone or account blocked the request",
    fix: "Exclude the hostname from {rule}. npx pulumi up puts pushgate's rules before the zone's own.",
    answer: [page(403, blocked, "1020"), ownPage],
    event: (event) => by("block", ...custom)(event) && event.owner !== "pushgate",
  },
  {
    name: "managed rule",
    layer: "2 WAF",
    what: "a managed rule took the delivery's content for an attack",
    fix: "npx pulumi up restores pushgate's skip rule, which skips managed rules. In an account's ruleset exclude the hostname from {rule}.",
    answer: [page(403, blocked)],
    event: by("block", ...managed),
  },
  {
    name: "access rule",
    layer: "2 WAF",
    what: "an IP Access rule blocked the source's address, range, country or network",
    fix: "Remove {rule}, or let the git host's ranges pass it: it runs before pushgate's rules. Security > WAF > Tools lists the zone's and the account's.",
    answer: [page(403, blocked, "1005", "1006", "1007", "1008", "1009", "1012", "1106")],
    event: by("block", ...access),
  },
  {
    name: "zone lockdown",
    layer: "2 WAF",
    what: "a zone lockdown rule lets other addresses alone reach the hostname",
    fix: "npx pulumi up restores pushgate's skip rule, which skips zone lockdown. Or exclude the hostname from {rule}.",
    answer: [page(403, blocked, "1106")],
    event: by("block", "zonelockdown"),
  },
  {
    name: "user agent rule",
    layer: "2 WAF",
    what: "a User Agent Blocking rule of the zone blocked the git host's user agent",
    fix: "npx pulumi up restores pushgate's skip rule, which skips these rules. Or remove {rule}.",
    answer: [page(403, blocked, "1020")],
    event: by("block", "uablock"),
  },
  {
    name: "rate limit",
    layer: "2 WAF",
    what: "a rate limiting rule counted too many requests of the git host's shared addresses",
    fix: "npx pulumi up restores pushgate's skip rule, which skips these rules. In an account's ruleset exclude the hostname from {rule}.",
    answer: [page(429, "1015")],
    event: by("block", "ratelimit"),
  },
  {
    name: "DDoS protection",
    layer: "2 WAF",
    what: "Cloudflare's HTTP DDoS protection took the deliveries for a flood",
    fix: "Lower the sensitivity of {rule} in the zone's HTTP DDoS override: no skip rule covers it.",
    answer: [page(403, blocked), page(429, blocked), { status: [0] }],
    event: by("block", "l7ddos"),
  },
  {
    name: "malformed",
    layer: "2 WAF",
    what: "Cloudflare took the request for malformed before any rule ran",
    fix: "Look at what sends it, and at a proxy before it: no rule lets such a request pass.",
    answer: [page(400), page(403, blocked)],
    event: by("block", ...validation),
  },
  {
    name: "another Cloudflare product",
    layer: "2 WAF",
    what: "another product of Cloudflare blocked the request",
    fix: "Exclude the hostname from {rule}.",
    answer: [page(400), page(403, blocked, "1011"), page(429)],
    event: (event) => actions.block.includes(event.action) && !known.includes(event.source),
  },
  {
    name: "another program at Cloudflare",
    layer: "2 WAF",
    what: "a Worker, an Access application or a redirect rule covers the hostname and answered",
    fix: "Exclude the hostname from that Worker, application or rule.",
    answer: [...cloudflare(...from(200, 399)), ownPage, page(500, "1101", "1102")],
  },
  // Cloudflare challenges, or takes the sender for a bot.
  {
    name: "Bot Fight Mode",
    layer: "3 bot management",
    what: "Bot Fight Mode challenged the git host as a bot",
    fix: "Run npx pulumi config set --path pushgate:edge.botFightMode off, then npx pulumi up. No rule skips Bot Fight Mode; this switches it off for the whole zone.",
    answer: [challenged],
    event: by("challenge", "botfight"),
  },
  {
    name: "Super Bot Fight Mode",
    layer: "3 bot management",
    what: "Super Bot Fight Mode or Bot Management took the git host for a bot",
    fix: "npx pulumi up restores pushgate's skip rule, which skips both.",
    answer: [challenged, page(403, blocked)],
    event: ({ source, rule }) => bots.includes(source) && rule !== "bot_fight_mode",
  },
  {
    name: "browser check",
    layer: "3 bot management",
    what: "Browser Integrity Check rejected the sender's headers",
    fix: "npx pulumi up restores pushgate's skip rule, which skips this check.",
    answer: [page(403, "1010"), challenged],
    event: (event) => event.source === "bic",
  },
  {
    name: "security level",
    layer: "3 bot management",
    what: "the zone's Security Level, or its Under Attack mode, challenged the sender",
    fix: "npx pulumi up restores pushgate's skip rule, which skips both.",
    answer: [challenged],
    event: by("challenge", ...level),
  },
  {
    name: "challenge by a rule",
    layer: "3 bot management",
    what: "a rule of the zone or account challenged the sender",
    fix: "Exclude the hostname from {rule}. pushgate's skip rule skips the zone's own rules, but not IP Access rules: npx pulumi up restores it.",
    answer: [challenged],
    event: (event) => actions.challenge.includes(event.action) && ![...bots, ...level, "bic"].includes(event.source),
  },
  // Cloudflare cannot reach the host.
  {
    name: "no route",
    layer: "4 Cloudflare to origin",
    what: "Cloudflare found no way to {origin}",
    fix: "Check that hosts[].address is the host's public address.",
    answer: cloudflare(523, 530),
  },
  {
    name: "origin certificate",
    layer: "4 Cloudflare to origin",
    what: "what answers at {origin} does not have pushgate's origin certificate",
    fix: "npx pulumi up. Then check that hosts[].address is the host's, and that no proxy lies before it.",
    answer: cloudflare(525, 526),
  },
  {
    name: "firewall",
    layer: "5 firewall",
    what: "Cloudflare could not connect to {origin}: a firewall drops its connections, or the host or nginx is down",
    fix: "npx pushgate status, then npx pulumi preview. A hosting provider's firewall must let https://www.cloudflare.com/ips in on that port, too.",
    answer: cloudflare(521, 522, 0),
  },
  {
    name: "another program on the origin port",
    layer: "6 nginx",
    what: "a program at {origin} accepted Cloudflare's connection and did not answer as nginx does",
    fix: "On the host: ss -ltnp shows which program listens on the origin port.",
    answer: cloudflare(520, 524),
  },
];

export const cloudflareOutcomes: readonly Outcome[] = rows.map((row) => ({ ...row, nginx: "none", receiver: "none" }));
