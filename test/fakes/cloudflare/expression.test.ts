/** The rule language: what was measured of Cloudflare's engine, what pushgate writes, and what the API rejects. */
import { describe, expect, test } from "vitest";
import { compile, ExpressionError } from "./expression.ts";
import type { EdgeRequest } from "./request.ts";

const signature = `sha256=${"a".repeat(64)}`;
const delivery: EdgeRequest = {
  source: "140.82.112.7",
  method: "POST",
  host: "hooks.example.org",
  target: "/webhook/site",
  headers: { "X-Hub-Signature-256": signature, "User-Agent": "GitHub-Hookshot/abc" },
};
const holds = (expression: string, change: Partial<EdgeRequest> = {}) =>
  compile(expression).matches({ ...delivery, ...change });

const H = 'http.request.headers["x-hub-signature-256"]';
const capitals = 'http.request.headers["X-Hub-Signature-256"]';
const absent = { headers: {} };

test.each([
  [`any(starts_with(${H}[*], "sha256="))`, true, false],
  [`any(starts_with(${capitals}[*], "sha256="))`, false, false],
  [`any(${H}[*] ne "")`, true, false],
  [`${H}[0] eq "${signature}"`, true, false],
  [`${H}[1] eq "${signature}"`, false, false],
  [`len(${H}[0]) eq 71`, true, false],
  // Traps: each holds for an absent header.
  [`${H}[0] ne ""`, true, true],
  [`${capitals}[0] ne ""`, true, true],
  [`len(${H}[0]) ne 71`, false, true],
  [`all(starts_with(${H}[*], "sha256="))`, true, true],
])("as measured on the real engine, %s is %s for a signed delivery, and %s without the header", (text, ...expected) => {
  expect([holds(text), holds(text, absent)]).toEqual(expected);
});

describe("the signed POST, and what comes near it", () => {
  const skip = `(ssl and http.host eq "hooks.example.org" and http.request.method eq "POST"
    and http.request.uri.path in {"/webhook/site" "/webhook/blog"} and http.request.uri.query eq ""
    and any(starts_with(${H}[*], "sha256=")) and ip.src in {140.82.112.0/20 9.9.9.9 2606:50c0::/32})`;
  test.each<[string, Partial<EdgeRequest>, boolean]>([
    ["the delivery", {}, true],
    ["the last address of a range", { source: "140.82.127.255" }, true],
    ["one after it", { source: "140.82.128.0" }, false],
    ["a single address", { source: "9.9.9.9" }, true],
    ["an IPv4 address dressed as IPv6", { source: "::ffff:140.82.112.7" }, false],
    ["the method in lower case", { method: "post" }, false],
    ["a trailing slash", { target: "/webhook/site/" }, false],
    ["a query", { target: "/webhook/site?x" }, false],
    ["an empty query is none", { target: "/webhook/site?" }, true],
    ["the host in capitals is the same name", { host: "Hooks.Example.ORG" }, true],
    ["an encoded slash stays encoded", { target: "/webhook%2fsite" }, false],
    ["Cloudflare normalises: a doubled slash", { target: "/webhook//site" }, true],
    ["Cloudflare normalises: a needless escape", { target: "/%77ebhook/site" }, true],
    ["Cloudflare normalises: dot segments", { target: "/x/../webhook/./site" }, true],
  ])("%s", (_, change, expected) => {
    expect(holds(skip, change)).toBe(expected);
  });
});

test.each([
  ["not ssl and not true or true", true],
  ["not (ssl and true or true)", false],
  ['http.host ne "a \\"b\\" \\\\"', true],
  ["cf.bot_management.score lt 30", true],
  ["ip.src eq 140.82.112.7 and ip.src ne 140.82.112.8", true],
])("%s is %s", (expression, expected) => {
  expect(holds(expression)).toBe(expected);
});

test.each([
  ["nothing", " ", /^20125 the expression cannot be blank$/],
  [
    "an unknown field",
    'http.hosts eq "x"',
    /^20127 could not parse filter expression: Filter parsing error \(1:1\):\nhttp.hosts eq "x"\n\^{10} unknown identifier\n$/,
  ],
  ["an unknown function", 'url_decode_all(http.host) eq "x"', /unknown identifier/],
  ["a name every object has", 'constructor eq "x"', /unknown identifier/],
  ["a comma in a set", 'http.host in {"a", "b"}', /\(1:18\):\n.*\n {17}\^ expected literal/],
  ["not before in", 'http.host not in {"a"}', /\(1:11\)/],
  ["an unfinished text", 'http.host eq "x', /missing ending quote/],
  ["a parenthesis left open", '(http.host eq "x"', /expected \)/],
  ["a second line", 'http.host eq "x"\nand nothing', /\(2:5\):\nand nothing\n {4}\^{7} unknown identifier/],
  ["what comes after", 'http.host eq "x" http.host', /\(1:18\).*unrecognised input/s],
  ["host bits", "ip.src in {140.82.112.1/20}", /host part of address was not zero/],
  ["too many bits", "ip.src in {140.82.112.0/33}", /network length out of bounds/],
  ["a range where one address belongs", "ip.src eq 140.82.112.0/20", /invalid IP address syntax/],
  ["an address in quotes", 'ip.src eq "1.2.3.4"', /invalid IP address syntax/],
  ["a list that does not exist", "ip.src in $github", /unknown list/],
  ["a text compared with a number", "http.host eq 1", /expected literal/],
  ["a number compared with a text", 'cf.bot_management.score eq "1"', /expected literal of type Int/],
  ["a header list compared whole", `${H} eq "x"`, /unsupported operation for type Array<Bytes>/],
  ["a truth compared", "ssl eq true", /unrecognised input/],
  ["a text as a condition", "http.host", /expected an operator/],
  ["a list of truths as a condition", `starts_with(${H}[*], "x")`, /expected value of type Bool, but got Array<Bool>/],
  ["any of one truth", `any(starts_with(${H}[0], "x"))`, /expected value of type Array<Bool>/],
  ["4,097 characters", `http.host eq "${"x".repeat(4097 - 15)}"`, /4097 characters/],
  ["a nest too deep", `${"(".repeat(2000)}ssl${")".repeat(2000)}`, /too many nested/],
])("%s is rejected, with the place and the reason", (_, expression, message) => {
  let fault = "";
  try {
    compile(expression);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    fault = `${error.code} ${error.message}`;
  }
  expect(fault).toMatch(message);
});
