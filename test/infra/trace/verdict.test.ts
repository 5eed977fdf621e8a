/** Each outcome is recognised by what it leaves in each source, and with less evidence the verdict is never another's. */
import { expect, test } from "vitest";
import type { Answer, Evidence, NginxLine, SecurityEvent } from "../../../infra/trace/evidence.ts";
import { outcomes } from "../../../infra/trace/outcomes.ts";
import { verdict } from "../../../infra/trace/verdict.ts";

const ray = { "cf-ray": "8f0c2d1e3a4b5c6d-FRA", server: "cloudflare" };
const own = (status: number, body?: string, headers: Answer["headers"] = {}): Evidence => ({
  answer: { status, headers: { ...ray, ...headers }, ...(body !== undefined && { body }) },
  nginx: "none",
  receiver: "none",
});
const challenged = { "cf-mitigated": "challenge" };
const waiting = own(403, "Just a moment...", challenged);
const event = (source: string, action = "block", more: Partial<SecurityEvent> = {}): SecurityEvent => ({
  ...{ source, action, rule: "5f2b", description: "a rule", ...more },
});
const botFight = event("botfight", "managedchallenge", { rule: "bot_fight_mode" });
/** An answer of Cloudflare's own, and the event of the product that made it. */
const decided = (seen: Evidence, ...cloudflare: SecurityEvent[]): Evidence => ({ ...seen, cloudflare });
const page = "Sorry, you have been blocked";
const blockedBy = (source: string, more: Partial<SecurityEvent> = {}): Evidence =>
  decided(own(403, page), event(source, "block", more));
const line = (change: Partial<NginxLine>): NginxLine => ({
  ...{ status: 403, up_status: "", up_connect: "", in_ranges: "1", limit: "PASSED", client: "192.0.2.1" },
  ...change,
});
const served = (status: number, by: string): Answer => ({
  status,
  headers: { ...ray, "x-served-by": `pushgate-${by}` },
});
const byNginx = (status: number, change: Partial<NginxLine> = {}, error?: string): Evidence => ({
  answer: { ...served(status, "proxy"), ...(error !== undefined && { body: JSON.stringify({ error }) }) },
  nginx: line({ status, ...change }),
  receiver: "none",
});
const byReceiver = (status: number, overBudget?: true): Evidence => ({
  answer: served(status, "receiver"),
  nginx: line({ status, up_status: String(status), up_connect: "0.000" }),
  receiver: { status, reason: "a reason", source: "192.0.2.1", ...(overBudget && { overBudget }) },
});
/** One of a flood, of which the journal has the first lines only. */
const withoutLine = (status: number): Evidence => ({ ...byReceiver(status), receiver: "none" });
const closed = byNginx(502, { up_connect: "0.000", up_status: "502" });
/** A late answer: the receiver saw that nginx left. */
const late: Evidence = {
  ...byNginx(504, { up_connect: "0.000", up_status: "504" }),
  receiver: { status: 499, reason: "the sender closed the connection before the answer", source: "192.0.2.1" },
};

/** What a delivery with this outcome leaves, all sources looked at. */
const left: Readonly<Record<string, readonly Evidence[]>> = {
  "never sent": [{ history: "none", nginx: "none", receiver: "none" }, { history: "none" }],
  "no record": [own(409, "error code: 1001")],
  "not declared": [blockedBy("firewallcustom", { owner: "pushgate" })],
  "custom rule": [
    blockedBy("firewallcustom", { owner: "zone" }),
    decided(own(418, "the zone's own text"), event("firewallcustom", "block", { owner: "zone" })),
    decided(own(403, "error code: 1020"), event("firewallrules", "block", { owner: "zone" })),
  ],
  "managed rule": [blockedBy("firewallmanaged"), blockedBy("waf")],
  "access rule": [
    ...["1005", "1006", "1007", "1008", "1009", "1012"].map((number) => own(403, `error code: ${number}`)),
    ...["ip", "iprange", "country", "asn"].map((source) => decided(own(403), event(source))),
    decided(own(403, "error code: 1106"), event("ip")),
  ],
  "zone lockdown": [decided(own(403, "error code: 1106"), event("zonelockdown"))],
  "user agent rule": [blockedBy("uablock")],
  "rate limit": [own(429, "error code: 1015"), decided(own(429), event("ratelimit"))],
  "DDoS protection": [
    ...[blockedBy("l7ddos"), decided(own(429), event("l7ddos"))],
    decided(own(0), event("l7ddos", "connectionclose")),
  ],
  malformed: [decided(own(400), event("validation")), blockedBy("sanitycheck")],
  "another Cloudflare product": [blockedBy("apishield"), decided(own(403, "error code: 1011"), event("hot"))],
  "another program at Cloudflare": [
    own(302),
    own(399),
    own(200, "a page"),
    own(500, "error code: 1101"),
    own(500, "error code: 1102"),
  ],
  "Bot Fight Mode": [
    decided(waiting, botFight),
    // pushgate's rule let it pass, and cannot skip this product.
    decided(waiting, event("firewallcustom", "skip", { owner: "pushgate" }), botFight),
  ],
  "Super Bot Fight Mode": [
    decided(waiting, event("botmanagement", "managedchallenge")),
    blockedBy("botmanagement"),
    blockedBy("sbfm"),
  ],
  "browser check": [own(403, "error code: 1010"), decided(own(403), event("bic"))],
  "security level": ["managedchallenge", "jschallenge", "challenge"].map((action) =>
    decided(waiting, event("securitylevel", action)),
  ),
  "challenge by a rule": [
    decided(own(403, "", challenged), event("firewallcustom", "managedchallenge", { owner: "zone" })),
    decided(own(429, "", challenged), event("ratelimit", "managedchallenge")),
    decided(own(403, "", challenged), event("ip", "challenge")),
  ],
  "Cloudflare failed": [own(500, "error code: 500"), own(500, "<span>Error code 500</span>")],
  "no route": [own(523), own(530, "error code: 1016")],
  "origin certificate": [own(525), own(526)],
  firewall: [own(521), own(522, "Error code 522")],
  "another program on the origin port": [own(520), own(524)],
  "client certificate": [byNginx(400)],
  "not from Cloudflare": [byNginx(403, {}, "the request does not come from Cloudflare")],
  "no client address": [
    byNginx(403, {}, "Cloudflare sent no single client address: see whether a transform rule changes CF-Connecting-IP"),
  ],
  "no hook": [byNginx(404, {}, "not found")],
  method: [byNginx(405)],
  "large body": [byNginx(413)],
  "too many requests": [byNginx(429, { limit: "REJECTED" })],
  "outside of the ranges": ["504", "502"].map((up_status) =>
    byNginx(403, { in_ranges: "0", up_status }, "source not allowed"),
  ),
  "unreachable socket": ["504", "502"].map((up_status) => byNginx(503, { up_status })),
  "closed connection": [closed, { ...closed, answer: { status: 502, headers: ray, body: "error code: 502" } }],
  "receiver timeout": [
    late,
    { ...late, receiver: "none" },
    { ...late, nginx: line({ status: 499, up_connect: "0.000" }), answer: { status: 0, headers: {} } },
  ],
  signature: [byReceiver(401), withoutLine(401)],
  "no such hook": [byReceiver(404), byReceiver(405), withoutLine(404), withoutLine(405)],
  "too large": [byReceiver(413), withoutLine(413)],
  "content type": [byReceiver(415), withoutLine(415)],
  "nginx failed": [byNginx(500, {}, "nginx failed before it connected to the receiver")],
  "too many open requests": [byReceiver(429)],
  "too many rejected requests": [byReceiver(429, true)],
  "large headers": [byReceiver(431), withoutLine(431)],
  slow: [byReceiver(408), withoutLine(408)],
  "no push": [byReceiver(400), withoutLine(400)],
  "not spooled": [byReceiver(503)],
  "a bug": [byReceiver(500)],
  ignored: [byReceiver(200)],
  accepted: [
    byReceiver(202),
    ...[0, 502, 504, 520, 524].map((status) => ({ ...byReceiver(202), answer: { status, headers: ray } })),
  ],
};
const bots = ["Bot Fight Mode", "Super Bot Fight Mode"];
const challenges = [...bots, "browser check", "security level", "challenge by a rule"];
const others = ["another Cloudflare product", "another program at Cloudflare"];
const rules = ["not declared", "custom rule", "managed rule", "access rule", "zone lockdown", "user agent rule"];
const blockers = [...rules, "DDoS protection", "malformed", "another Cloudflare product", "Super Bot Fight Mode"];
/** What leaves several outcomes: one of them, the evidence, all of them, and the certainty. */
const alike: Readonly<Record<string, readonly [Evidence, readonly string[], "likely" | "unknown"]>> = {
  "no address": [own(0), ["no address", "DDoS protection", "firewall"], "unknown"],
  "not declared": [own(403, page), blockers, "unknown"],
  // The event names a rule that the zone's rulesets do not have: it may be of the account, or deleted.
  "custom rule": [blockedBy("firewallcustom"), ["not declared", "custom rule"], "likely"],
  "zone lockdown": [own(403, "error code: 1106"), ["access rule", "zone lockdown"], "likely"],
  "rate limit": [own(429), ["custom rule", "rate limit", "DDoS protection", ...others], "likely"],
  malformed: [own(400), ["custom rule", "malformed", ...others], "likely"],
  "another program at Cloudflare": [own(404), ["custom rule", "another program at Cloudflare"], "likely"],
  "Cloudflare failed": [
    own(500, "<h1>Error 500</h1>"),
    ["another program at Cloudflare", "Cloudflare failed"],
    "unknown",
  ],
  "security level": [waiting, challenges, "likely"],
  "Super Bot Fight Mode": [decided(own(403, "", challenged), event("botfight", "managedchallenge")), bots, "likely"],
};
const rows = [
  ...Object.entries(left).flatMap(([name, all]) => all.map((seen) => [name, seen] as const)),
  ...Object.entries(alike).map(([name, [seen]]) => [name, seen] as const),
];
const namesOf = (seen: Evidence): string[] => verdict(seen).outcomes.map(({ name }) => name);
const sources = ["history", "answer", "cloudflare", "nginx", "receiver"] as const;
const without = (seen: Evidence, ...withheld: readonly string[]): Evidence =>
  Object.fromEntries(Object.entries(seen).filter(([source]) => !withheld.includes(source)));

test.each(Object.entries(left))("with all sources %s is certain", (name, all) => {
  for (const seen of all) {
    expect(namesOf(seen)).toEqual([name]);
    expect(verdict(seen).certainty).toBe("certain");
  }
});
test.each(Object.entries(alike))("%s is one of those that look alike", (name, [seen, names, certainty]) => {
  expect(namesOf(seen)).toEqual(names);
  expect(names).toContain(name);
  expect(verdict(seen).certainty).toBe(certainty);
});

test("with any source withheld, the true outcome is among those left, and no fewer are", () => {
  for (const [name, seen] of rows)
    for (const first of sources)
      for (const second of sources) {
        const less = without(seen, first, second);
        expect(namesOf(less)).toContain(name);
        for (const each of namesOf(seen)) expect(namesOf(less)).toContain(each);
      }
});

test("a header that a person did not type rules nothing out; one typed as absent does", () => {
  const typed = (status: number, headers: Answer["headers"]) => namesOf({ answer: { status, headers, partial: true } });
  for (const [name, { answer }] of rows) {
    const { status = 0, headers: { "x-served-by": server = "" } = {} } = answer ?? {};
    for (const headers of answer ? [{}, { "x-served-by": server }] : []) expect(typed(status, headers)).toContain(name);
  }
  expect(typed(404, {})).toContain("no hook");
  expect(typed(404, { "x-served-by": "" })).not.toContain("no hook");
});

test("each outcome that an event can prove is certain by the event alone", () => {
  const proved = Object.entries(left).flatMap(([name, all]) =>
    all.flatMap(({ cloudflare }) => (cloudflare === undefined ? [] : [[name, cloudflare] as const])),
  );
  for (const [name, cloudflare] of proved) expect(namesOf({ cloudflare })).toEqual([name]);
  expect(new Set(proved.map(([name]) => name))).toEqual(
    new Set(outcomes.filter(({ event }) => event !== undefined).map(({ name }) => name)),
  );
});

test("of two events that reject, each may be the one that decided", () => {
  expect(namesOf(decided(own(403), event("ip"), event("bic")))).toEqual(["access rule", "browser check"]);
});

test("no event, and one of an action that lets the request pass or that is not known, rule nothing out", () => {
  for (const [, seen] of rows)
    for (const action of ["skip", "log", "allow", "bypass", "challengesolved", "managedchallengebypassed", "new"]) {
      const { cloudflare: _, ...rest } = seen;
      expect(namesOf({ ...rest, cloudflare: [] })).toEqual(namesOf(rest));
      expect(namesOf(decided(rest, event("firewallcustom", action, { owner: "pushgate" })))).toEqual(namesOf(rest));
    }
});

test.each<[string, SecurityEvent[], RegExp]>([
  [
    "the zone's",
    [event("firewallcustom", "block", { owner: "zone" })],
    /^Exclude .* the zone's own rule "a rule" 5f2b\./,
  ],
  ["one without a text", [event("firewallmanaged", "block", { description: "" })], /from the rule 5f2b\.$/],
  ["one without a name", [event("ip", "block", { rule: "", description: "" })], /^Remove the rule, or let/],
  ["one with a pattern", [event("uablock", "block", { description: "$& $1" })], /remove the rule "\$& \$1" 5f2b/],
  ["none without an event", [], /exclude the hostname from that rule\.$/],
])("the fix names the rule of the event: %s", (_, events, text) => {
  const cloudflare = [event("firewallcustom", "skip", { description: "no" }), ...events];
  const seen = events.length > 0 ? { cloudflare } : own(429, "error code: 1015");
  expect(verdict(seen).outcomes[0]?.fix).toMatch(text);
});

test("nothing that was looked at, and sources that contradict each other, have no verdict", () => {
  expect([verdict({}).certainty, namesOf({})]).toEqual(["unknown", outcomes.map(({ name }) => name)]);
  const contradicting = { ...byReceiver(202), answer: own(522).answer! };
  expect(verdict(contradicting)).toEqual({ certainty: "unknown", outcomes: [], causes: [] });
});

test("each outcome has a row here and a layer of the picture, says what happened, and how it is fixed if it was rejected", () => {
  expect(new Set(rows.map(([name]) => name))).toEqual(new Set(outcomes.map(({ name }) => name)));
  expect(verdict(own(523)).outcomes[0]!.what).toBe("Cloudflare found no way to the host's origin port");
  for (const { name, layer, what, fix = "none" } of outcomes) {
    expect(layer, name).toMatch(/^(the git host|[1-8] \w.+|delivered)$/);
    expect(what, name).toMatch(/^\w.* \w/);
    expect(fix, name).toMatch(layer === "delivered" ? /^none$/ : /^(npx pu|[A-Z]\w+ )/);
  }
});

const connected = { up_connect: "0.000" };
test.each<[string, Partial<NginxLine>, boolean]>([
  ["outside of the ranges", { status: 403, in_ranges: "0", up_status: "-" }, false],
  ["outside of the ranges", { status: 403, in_ranges: "0", up_status: "403", ...connected }, false],
  ["unreachable socket", { status: 503, up_status: "502", in_ranges: "0" }, false],
  ["too many requests", { status: 429, limit: "REJECTED", up_status: "-" }, true],
  ["too many requests", { status: 429, limit: "PASSED" }, false],
  ["too many requests", { status: 429, limit: "REJECTED", up_status: "429" }, false],
  ["closed connection", { status: 502, up_status: "502", up_connect: "-" }, false],
  ["accepted", { status: 202, up_status: "200", ...connected }, false],
  ["accepted", { status: 202, up_status: "202" }, false],
])("nginx's line alone may be of %s: %j is %s", (name, change, is) => {
  expect(namesOf({ nginx: line(change) }).includes(name)).toBe(is);
});

test("Cloudflare's page is known by its number", () => {
  for (const body of ["error code 1010", "Error code:1010", "<h1>Error 1010</h1>"])
    expect(namesOf(own(403, body))).toEqual(["browser check"]);
  for (const body of ["terror code: 1010", "error code: 10101", "error code: 2010"])
    expect(namesOf(own(403, body))).toEqual(namesOf(own(403, "another page")));
});
