/** Each outcome is recognised by what it leaves in each source, and with less evidence the verdict is never another's. */
import { describe, expect, test } from "vitest";
import type { Answer, Evidence, NginxLine, ReceiverLine } from "../../../infra/trace/evidence.ts";
import { outcomes } from "../../../infra/trace/outcomes.ts";
import { verdict } from "../../../infra/trace/verdict.ts";

const ray = { "cf-ray": "8f0c2d1e3a4b5c6d-FRA", server: "cloudflare" };
const own = (status: number, body?: string, headers: Answer["headers"] = {}): Evidence => ({
  answer: { status, headers: { ...ray, ...headers }, ...(body !== undefined && { body }) },
  nginx: "none",
  receiver: "none",
});
const line = (change: Partial<NginxLine>): NginxLine => ({
  ...{ status: 403, up_status: "", up_connect: "", in_ranges: "1", limit: "PASSED", client: "192.0.2.1" },
  ...change,
});
const byNginx = (status: number, change: Partial<NginxLine> = {}, error?: string): Evidence => ({
  answer: {
    status,
    headers: { ...ray, "x-served-by": "pushgate-proxy" },
    ...(error !== undefined && { body: JSON.stringify({ error }) }),
  },
  nginx: line({ status, ...change }),
  receiver: "none",
});
const byReceiver = (status: number): Evidence => ({
  answer: { status, headers: { ...ray, "x-served-by": "pushgate-receiver" } },
  nginx: line({ status, up_status: String(status), up_connect: "0.000" }),
  receiver: { status, reason: "a reason", source: "192.0.2.1" } satisfies ReceiverLine,
});
/** A late answer: the receiver saw that nginx left. */
const late: Evidence = {
  ...byNginx(504, { up_connect: "0.000", up_status: "504" }),
  receiver: { status: 499, reason: "the sender closed the connection before the answer", source: "192.0.2.1" },
};

/** What a delivery with this outcome leaves, all sources looked at. */
const left: Readonly<Record<string, readonly Evidence[]>> = {
  challenge: [
    own(403, "Just a moment...", { "cf-mitigated": "challenge" }),
    own(429, "", { "cf-mitigated": "challenge" }),
  ],
  "browser check": [own(403, "error code: 1010")],
  "address banned": ["1006", "1007", "1008", "1009", "1020", "1106"].map((number) => own(403, `error code: ${number}`)),
  "rate limited": [own(429, "error code: 1015"), own(429)],
  "another program": [own(302), own(200, "a page"), own(404)],
  "no route": [own(523), own(530, "error code: 1016")],
  "origin certificate": [own(525), own(526)],
  firewall: [own(521), own(522)],
  "another server": [own(520), own(524)],
  "client certificate": [byNginx(400)],
  "not from Cloudflare": [byNginx(403, {}, "the request does not come from Cloudflare")],
  "no client address": [byNginx(403, {}, "Cloudflare sent no single client address: see whether …")],
  "no hook": [byNginx(404, {}, "not found")],
  method: [byNginx(405)],
  "large body": [byNginx(413)],
  "too many requests": [byNginx(429, { limit: "REJECTED" })],
  "outside of the ranges": ["504", "502"].map((up_status) =>
    byNginx(403, { in_ranges: "0", up_status }, "source not allowed"),
  ),
  socket: ["504", "502"].map((up_status) => byNginx(503, { up_status })),
  "receiver closed": [
    byNginx(502, { up_connect: "0.000", up_status: "502" }),
    { ...byNginx(502, { up_connect: "0.000", up_status: "502" }), answer: { status: 502, headers: ray } },
  ],
  "receiver late": [
    late,
    { ...late, nginx: line({ status: 499, up_connect: "0.000" }), answer: { status: 0, headers: {} } },
  ],
  signature: [byReceiver(401)],
  "no such hook": [byReceiver(404), byReceiver(405)],
  "too large": [byReceiver(413)],
  "content type": [byReceiver(415)],
  budget: [byReceiver(429)],
  "no push": [byReceiver(400)],
  "not spooled": [byReceiver(503)],
  "a bug": [byReceiver(500)],
  ignored: [byReceiver(200)],
  accepted: [byReceiver(202)],
};
/** Those that no source that is looked at tells from others: what they leave, and the outcomes that leave the same. */
const alike: Readonly<Record<string, readonly [Evidence, readonly string[]]>> = {
  "no address": [own(0), ["no address", "firewall"]],
  blocked: [own(403), ["browser check", "address banned", "blocked"]],
};
const rows = [
  ...Object.entries(left).flatMap(([name, all]) => all.map((seen) => [name, seen] as const)),
  ...Object.entries(alike).map(([name, [seen]]) => [name, seen] as const),
];
const namesOf = (seen: Evidence): string[] => verdict(seen).outcomes.map(({ name }) => name);
const sources = ["answer", "nginx", "receiver"] as const;
const without = (seen: Evidence, ...withheld: readonly string[]): Evidence =>
  Object.fromEntries(Object.entries(seen).filter(([source]) => !withheld.includes(source)));

test("each outcome has a row here", () =>
  expect(new Set(rows.map(([name]) => name))).toEqual(new Set(outcomes.map(({ name }) => name))));

describe("with all sources", () => {
  test.each(Object.entries(left))("%s is certain", (name, all) => {
    for (const seen of all) {
      expect(namesOf(seen)).toEqual([name]);
      expect(verdict(seen).certainty).toBe("certain");
    }
  });
  test.each(Object.entries(alike))("%s is one of those that look alike", (name, [seen, names]) => {
    expect(namesOf(seen)).toEqual(names);
    expect(names).toContain(name);
    expect(verdict(seen).certainty).toBe("unknown");
  });
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

test("an answer alone is enough where pushgate's own layers answered, and Cloudflare's 403 is not", () => {
  const of = (status: number, servedBy?: string) =>
    verdict({ answer: { status, headers: servedBy === undefined ? ray : { "x-served-by": servedBy } } }).certainty;
  expect([of(401, "pushgate-receiver"), of(503, "pushgate-proxy"), of(522)]).toEqual(["certain", "certain", "certain"]);
  expect(of(403)).toBe("unknown");
});

test("without the body of a 403, nginx's log distinguishes systemd's rejection from its own two", () => {
  expect(namesOf(byNginx(403, { in_ranges: "0", up_status: "504" }))).toEqual(["outside of the ranges"]);
  expect(namesOf(byNginx(403))).toEqual(["not from Cloudflare", "no client address"]);
  expect(verdict(byNginx(403)).certainty).toBe("likely");
});

test("nothing that was looked at, and sources that contradict each other, have no verdict", () => {
  expect(verdict({}).certainty).toBe("unknown");
  expect(verdict({}).outcomes).toHaveLength(outcomes.length);
  expect(verdict({ ...byReceiver(202), answer: own(522).answer! })).toEqual({ certainty: "unknown", outcomes: [] });
});
