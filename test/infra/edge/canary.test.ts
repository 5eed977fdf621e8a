/** The report on a canary that does not arrive. canary-run.test.ts tests what is sent, and test/hosts/edge/canary.test.ts when. */
import { describe, expect, test } from "vitest";
import { type CanaryAnswer, obstacle } from "../../../infra/edge/canary.ts";

const host = { address: "203.0.113.10", address6: "2001:db8::10", originPort: 8443 };
const cloudflare = { "cf-ray": "8f0c2d1e3a4b5c6d-FRA", server: "cloudflare" };
const reported = (status: number, headers: CanaryAnswer["headers"] = cloudflare) => obstacle(host, { status, headers });
const failed = (error: string) => obstacle(host, { status: 0, error, headers: {} });

test("obstacle reports nothing if nginx answers, or if Cloudflare challenges the canary, because it challenges no delivery", () => {
  expect(reported(204, { ...cloudflare, "x-served-by": "pushgate-proxy" })).toBeUndefined();
  expect(reported(403, { ...cloudflare, "cf-mitigated": "challenge" })).toBeUndefined();
});

describe("obstacle names the layer and what to do for", () => {
  test.each([
    [
      521,
      /^521, ray 8f0c2d1e3a4b5c6d-FRA: Cloudflare could not connect to 203\.0\.113\.10 and 2001:db8::10, port 8443: a firewall/,
    ],
    [526, /does not have pushgate's origin certificate/],
    [
      403,
      /^403, ray .*: one of these .*: .*custom rule, .*access rule, .*browser check\. Look the ray up at Cloudflare, Security > Events\. A signed/,
    ],
    // An answer of the origin without nginx's name comes from another program.
    [204, /a Worker, an Access application or a redirect rule/],
    [503, /knows no reason/],
  ])("%d by Cloudflare", (status, says) => expect(reported(status)).toMatch(says));

  test.each([
    [400, "pushgate-proxy"],
    [204, "pushgate-receiver"],
  ])("%d by %s", (status, by) =>
    expect(reported(status, { ...cloudflare, "x-served-by": by })).toMatch(
      new RegExp(`^${status}, by ${by}, ray .*: the host itself rejects the request`),
    ),
  );

  test.each([
    ["ENOTFOUND", /^ENOTFOUND: DNS does not resolve the hostname here/],
    ["EAI_AGAIN", /DNS does not resolve/],
    ["ERR_TLS_CERT_ALTNAME_INVALID", /one level below the zone/],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", /no valid certificate/],
    ["ECONNREFUSED", /^ECONNREFUSED: there is no answer/],
  ])("%s", (error, says) => expect(failed(error)).toMatch(says));

  test("a host without IPv6, by its one address", () => {
    const { address6: _, ...old } = host;
    expect(obstacle(old, { status: 522, headers: {} })).toContain("to 203.0.113.10, port 8443: a firewall");
  });
});

test("every status that Cloudflare may answer has a text without gaps", () => {
  for (let status = 200; status < 600; status++) expect(reported(status)).not.toContain("undefined");
});
