/** What a person reads when the canary does not get through; that it is asked, and of whom: test/hosts/edge/canary.test.ts. */
import { describe, expect, test } from "vitest";
import { type CanaryAnswer, isAsked, obstacle } from "../../../infra/edge/canary.ts";

const machine = { address: "203.0.113.10", address6: "2001:db8::10", originPort: 8443 };
const edge = { "cf-ray": "8f0c2d1e3a4b5c6d-FRA", server: "cloudflare" };
const told = (status: number, headers: CanaryAnswer["headers"] = edge) => obstacle(machine, { status, headers });
const failed = (error: string) => obstacle(machine, { status: 0, error, headers: {} });

test("nothing, where the proxy itself answers, or a challenge that no delivery meets", () => {
  expect(told(204, { ...edge, "x-served-by": "pushgate-proxy" })).toBeUndefined();
  expect(told(403, { ...edge, "cf-mitigated": "challenge" })).toBeUndefined();
});

describe("which layer, and the cure", () => {
  test.each([
    [521, /^the edge gets no connection to 203\.0\.113\.10 and 2001:db8::10, port 8443: a firewall/],
    [522, /Let https:\/\/www\.cloudflare\.com\/ips in on that port there \(522, ray 8f0c2d1e3a4b5c6d-FRA\)$/],
    [523, /an address that is not the machine's/],
    [530, /no way to 203/],
    [525, /no certificate of ours/],
    [526, /no certificate of ours/],
    [520, /gives no answer/],
    [524, /gives no answer/],
    [403, /before ours.*Security Events has it under that ray \(403, ray /],
    [429, /rate limiting rule/],
    // What of the origin's own comes without the proxy's name is somebody else's.
    [204, /something else answers/],
    [302, /Access application/],
  ])("%d by the edge", (status, says) => expect(told(status)).toMatch(says));

  test.each([
    [400, "pushgate-proxy"],
    [503, "pushgate-proxy"],
    [204, "pushgate-receiver"],
  ])("%d by %s", (status, by) =>
    expect(told(status, { ...edge, "x-served-by": by })).toMatch(
      new RegExp(`^the machine itself refuses it \\(${status}, by ${by}, ray `),
    ),
  );

  test.each([
    ["ENOTFOUND", /not found from here/],
    ["EAI_AGAIN", /not found from here/],
    ["ERR_TLS_CERT_ALTNAME_INVALID", /one level below the zone/],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", /no valid certificate/],
    ["CERT_HAS_EXPIRED", /no valid certificate/],
    ["ECONNREFUSED", /^nobody answers \(ECONNREFUSED\)/],
    ["ETIMEDOUT", /^nobody answers/],
  ])("%s", (error, says) => expect(failed(error)).toMatch(says));

  test("a machine without IPv6 is named by the address it has", () => {
    const { address6: _, ...old } = machine;
    expect(obstacle(old, { status: 522, headers: {} })).toContain("to 203.0.113.10, port 8443: ");
  });
});

test("asked where the API is the vendor's own, or it is said so", () => {
  const at = (baseUrl: string) => ({ baseUrl, token: "t" });
  expect(isAsked({}, at("https://api.cloudflare.com/client/v4"))).toBe(true);
  expect(isAsked({}, at("http://127.0.0.1:4000/client/v4"))).toBe(false);
  expect(isAsked({}, undefined)).toBe(false);
  expect(isAsked({ canary: true }, undefined)).toBe(true);
  expect(isAsked({ canary: false }, at("https://api.cloudflare.com/client/v4"))).toBe(false);
});
