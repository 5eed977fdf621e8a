/** The rule language: what was measured of Cloudflare's engine, what pushgate writes, and what the API rejects. */
import { expect, test } from "vitest";
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

test.each([
  ["not ssl and not true or true", true],
  ["not (ssl and true or true)", false],
  ['http.host ne "a \\"b\\" \\\\"', true],
  ["ip.src eq 140.82.112.7 and ip.src ne 140.82.112.8", true],
])("%s is %s", (expression, expected) => {
  expect(holds(expression)).toBe(expected);
});

test.each([
  ["nothing", " ", /^the expression cannot be blank$/],
  ["an unknown field", 'http.hosts eq "x"', /^could not parse .*: unknown identifier http\.hosts before "eq/],
  ["a name every object has", 'constructor eq "x"', /unknown identifier/],
  ["a comma in a set", 'http.host in {"a", "b"}', /expected literal/],
  ["not before in", 'http.host not in {"a"}', /expected an operator/],
  ["a parenthesis left open", '(http.host eq "x"', /expected \)/],
  ["host bits", "ip.src in {140.82.112.1/20}", /host part of address was not zero/],
  ["a range where one address belongs", "ip.src eq 140.82.112.0/20", /invalid IP address syntax/],
  ["a number compared with a text", 'cf.bot_management.score eq "1"', /expected literal of type Int/],
  ["a header list compared whole", `${H} eq "x"`, /unsupported operation for type Array<Bytes>/],
  ["a text as a condition", "http.host", /expected an operator/],
  ["a list of truths as a condition", `starts_with(${H}[*], "x")`, /expected value of type Bool, but got Array<Bool>/],
  ["4,097 characters", `http.host eq "${"x".repeat(4097 - 15)}"`, /4097 characters/],
  ["a nest too deep", `${"(".repeat(2000)}ssl${")".repeat(2000)}`, /too many nested/],
])("%s is rejected, with the reason", (_, expression, message) => {
  expect(() => compile(expression)).toThrow(ExpressionError);
  expect(() => compile(expression)).toThrow(message);
});
