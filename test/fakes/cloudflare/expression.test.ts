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
  compile(expression).matches({ ...delivery, ...change }, "example.org");
const fault = (expression: string): string => {
  try {
    compile(expression);
    return "";
  } catch (error) {
    if (error instanceof ExpressionError) return `${error.code} ${error.message}`;
    throw error;
  }
};

const H = 'http.request.headers["x-hub-signature-256"]';
const unsigned = { headers: {} };

describe("a signature header, as measured on the real engine", () => {
  test.each([
    ["absent: any(starts_with)", `any(starts_with(${H}[*], "sha256="))`, unsigned, false],
    ["absent: [0] eq", `${H}[0] eq "${signature}"`, unsigned, false],
    ["absent: [0] ne is a trap", `${H}[0] ne ""`, unsigned, true],
    ["absent: all(starts_with) is a trap", `all(starts_with(${H}[*], "sha256="))`, unsigned, true],
    [
      "present, the key in capitals is never looked up",
      'http.request.headers["X-Hub-Signature-256"][0] ne ""',
      {},
      true,
    ],
    [
      "present, the key in capitals never equals",
      'any(len(http.request.headers["X-Hub-Signature-256"][*])[*] gt 0)',
      {},
      false,
    ],
    ["present: any(starts_with)", `any(starts_with(${H}[*], "sha256="))`, {}, true],
    ["present: len", `len(${H}[0]) eq 71`, {}, true],
    ["absent: len", `len(${H}[0]) eq 71`, unsigned, false],
    ["absent: len ne is a trap too", `len(${H}[0]) ne 71`, unsigned, true],
    ["absent: the second of one", `${H}[1] eq "${signature}"`, {}, false],
  ])("%s", (_, expression, change, expected) => {
    expect(holds(expression, change)).toBe(expected);
  });
});

describe("the signed POST, and what comes near it", () => {
  const skip = `(ssl and http.host eq "hooks.example.org" and http.request.method eq "POST"
    and http.request.uri.path in {"/webhook/site" "/webhook/blog"} and http.request.uri.query eq ""
    and any(starts_with(${H}[*], "sha256=")) and len(${H}[0]) eq 71 and not len(${H}[1]) ge 0
    and ip.src in {140.82.112.0/20 192.30.252.0/22 2606:50c0::/32 9.234.98.160..9.234.98.175})`;
  test.each<[string, Partial<EdgeRequest>, boolean]>([
    ["the delivery", {}, true],
    ["the last address of a range", { source: "140.82.127.255" }, true],
    ["one after it", { source: "140.82.128.0" }, false],
    ["an IPv4 address dressed as IPv6", { source: "::ffff:140.82.112.7" }, false],
    ["one after the last of it", { source: "9.234.98.176" }, false],
    ["the method in lower case", { method: "post" }, false],
    ["a trailing slash", { target: "/webhook/site/" }, false],
    ["a query", { target: "/webhook/site?x" }, false],
    ["an empty query is none", { target: "/webhook/site?" }, true],
    ["the host in capitals is the same name", { host: "Hooks.Example.ORG" }, true],
    ["doubled", { headers: { "x-hub-signature-256": [signature, signature] } }, false],
    ["an encoded slash stays encoded", { target: "/webhook%2fsite" }, false],
    ["Cloudflare normalises: a doubled slash", { target: "/webhook//site" }, true],
    ["Cloudflare normalises: a needless escape", { target: "/%77ebhook/site" }, true],
    ["Cloudflare normalises: dot segments", { target: "/x/../webhook/./site" }, true],
  ])("%s", (_, change, expected) => {
    expect(holds(skip, change)).toBe(expected);
  });
});

test.each([
  ["false and false or true", true],
  ["not false and false", false],
  ["true or true xor true", true],
  ["!false && !(true || false) or false ^^ true", true],
  ['not http.request.method eq "GET"', true],
  ['http.request.method in {"GET" "POST"}', true],
  ['http.request.method == "POST" and http.request.method != "GET"', true],
  ['http.user_agent contains "Hookshot"', true],
  ['ends_with(http.host, ".example.org")', true],
  ['starts_with(lower(http.user_agent), "github-")', true],
  ['any(lower(http.request.headers["user-agent"][*])[*] contains "hookshot")', true],
  ['any(http.request.headers.names[*] eq "user-agent")', true],
  ['http.request.uri.path matches "^/webhook/[a-z]+$"', true],
  ['http.request.uri.path eq r"/webhook/site"', true],
  ['http.request.uri.path eq "/web\\x68ook/site"', true],
  ['http.request.full_uri eq "https://hooks.example.org/webhook/site"', true],
  ["cf.bot_management.score in {1..29}", true],
  ["cf.bot_management.score lt 2 and not cf.bot_management.verified_bot and not cf.client.bot", true],
  ['ip.src eq 140.82.112.7 and ip.src ne 140.82.112.8 and cf.zone.name eq "example.org"', true],
])("%s is %s", (expression, expected) => {
  expect(holds(expression)).toBe(expected);
});

describe("rejected, with the place and the reason", () => {
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
    ["a range where one address belongs", "ip.src eq 140.82.112.0/20", /invalid IP address syntax/],
    ["an address in quotes", 'ip.src eq "1.2.3.4"', /invalid IP address syntax/],
    ["a number with leading dots", "ip.src in {1.2.3}", /invalid IP address syntax/],
    ["a list that does not exist", "ip.src in $github", /unknown list/],
    ["a text compared with a number", "http.host eq 1", /expected literal/],
    ["a number compared with a text", 'cf.bot_management.score eq "1"', /expected literal of type Int/],
    ["a header list compared whole", `${H} eq "x"`, /unsupported operation for type Array<Bytes>/],
    ["a truth compared", "ssl eq true", /unrecognised input/],
    ["a text as a condition", "http.host", /expected an operator|unrecognised/],
    [
      "a list of truths as a condition",
      `starts_with(${H}[*], "x")`,
      /expected value of type Bool, but got Array<Bool>/,
    ],
    ["any of one truth", `any(starts_with(${H}[0], "x"))`, /expected value of type Array<Bool>/],
    ["4,097 characters", `http.host eq "${"x".repeat(4097 - 15)}"`, /4097 characters/],
    ["a nest too deep", `${"(".repeat(2000)}ssl${")".repeat(2000)}`, /too many nested/],
    ["a broken pattern", 'http.host matches "("', /invalid regular expression/],
  ])("%s", (_, expression, message) => {
    expect(fault(expression)).toMatch(message);
  });
});
