/**
 * Cloudflare's client certificate: how openssl makes it, and where its key goes. test/engine/edge-drift.test.ts has when
 * Cloudflare presents it.
 */
import { spawnSync } from "node:child_process";
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import * as pulumi from "@pulumi/pulumi";
import { expect, test, vi } from "vitest";
import { driftIn } from "../../../infra/contract.ts";
import { cloudflareApi } from "../../../infra/edge/api.ts";
import {
  type ClientCertificate,
  clientCertificateScript,
  presentClientCertificate,
  readClientCertificate,
} from "../../../infra/edge/client-certificate.ts";
import { missing } from "../host/namespace.ts";
import { setMocks } from "../mocks.ts";

/**
 * The text is in the state of every stack as the command's `stdin`. A changed byte makes each `up` after an upgrade run
 * it again: a new CA, a new certificate, and minutes until Cloudflare presents it at all its locations.
 */
test("the script is the one that existing stacks have run", () => {
  const script = clientCertificateScript("a-b.example.net", 7);
  expect(createHash("sha256").update(script).digest("hex")).toBe(
    "0415af242c1f629c807106a29da6debe8b2cc30453b699f7e9c95e7d2e2f02ee",
  );
});

const long = "a-company-of-a-long-name-gmbh-und-co-kg.example";
test.for([
  ["example.org", "example.org"],
  [long, long.slice(0, 39)],
])(
  "the script makes a CA, and a client certificate that the CA issued, for the zone %s",
  ([zone = "", named], { skip }) => {
    skip(missing("openssl") !== undefined, missing("openssl"));
    const input = clientCertificateScript(zone, 1);
    const { stdout, status } = spawnSync("sh", ["-s"], { input, encoding: "utf8" });
    expect(status).toBe(0);
    const made = JSON.parse(stdout) as ClientCertificate;
    const [ca, certificate] = [new X509Certificate(made.ca), new X509Certificate(made.certificate)];
    expect([ca.ca, certificate.ca]).toEqual([true, false]);
    expect(certificate.checkIssued(ca) && certificate.verify(ca.publicKey)).toBe(true);
    expect(certificate.checkPrivateKey(createPrivateKey(made.key))).toBe(true);
    expect(ca.subject).toBe(`CN=pushgate origin pulls of ${named}`);
    for (const { validFromDate, validToDate, publicKey } of [ca, certificate]) {
      // A host's clock may be behind this computer's.
      expect(Date.now() - validFromDate.getTime()).toBeGreaterThan(86_400_000);
      // With the whole curve in place of its name OpenSSL rejects it.
      expect(publicKey.asymmetricKeyDetails).toEqual({ namedCurve: "prime256v1" });
      const years = (validToDate.getTime() - Date.now()) / (365 * 86_400_000);
      expect(years).toBeGreaterThan(9.9);
      expect(years).toBeLessThan(10.1);
    }
  },
);

test("no error quotes what openssl printed, because it holds a private key", async () => {
  const read = (text: string) =>
    new Promise<ClientCertificate>((resolve) => readClientCertificate(pulumi.output(text)).apply(resolve));
  const made = { ca: "ca", certificate: "certificate", key: "key" };
  expect(await read(JSON.stringify(made))).toEqual(made);
  expect(await read("-----BEGIN PRIVATE KEY-----")).toEqual({ ca: "", certificate: "", key: "" });
});

test("the private key is secret before the provider marks it, no hostname uploads no certificate, and a preview warns of one that expires or is not presented", async () => {
  const debug = vi.spyOn(pulumi.log, "debug").mockResolvedValue(undefined);
  const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
  const expiresOn = new Date(Date.now() + 10.5 * 86_400_000).toISOString();
  const declared: { type: string; inputs: Record<string, unknown> }[] = [];
  const newResource = ({ type, name, inputs }: pulumi.runtime.MockResourceArgs) => {
    declared.push({ type, inputs });
    return { id: `${name}-id`, state: { expiresOn, ...inputs } };
  };
  await setMocks({ newResource }, "pushgate", "prod", true);
  const made = { certificate: "leaf", key: "key" };
  const zone = { id: "zone", api: cloudflareApi({ baseUrl: "", token: "" }) };
  expect(presentClientCertificate(zone, new Map(), [], made)).toEqual([]);
  const [a, b, certId] = ["a.example.org", "b.example.org", "client certificate-id"] as const;
  const before = { cert_id: "former", enabled: true, status: "active", cert_status: "active" };
  const presented = presentClientCertificate(zone, new Map([[b, before]]), [a, b], made);
  expect(presented).toMatchObject([{ hostname: a }, { hostname: b }]);
  await pulumi.runtime.disconnect();
  expect(declared).toHaveLength(3);
  // Only an unknown value shows an update.
  const configs = [
    { hostname: a, certId, enabled: true },
    { hostname: b, certId: pulumi.unknown, enabled: true },
  ];
  expect(declared.flatMap(({ inputs }) => inputs.configs ?? [])).toEqual(configs);
  const item = { item: "configs", kind: "property", before, after: { cert_id: certId, enabled: true } };
  const drifts = debug.mock.calls.flatMap(([text]) => driftIn(text) ?? []);
  expect(drifts).toEqual([{ host: null, layer: `${b} client certificate`, ...item }]);
  const uploaded = declared.find(({ type }) => type.endsWith(":AuthenticatedOriginPullsHostnameCertificate"));
  expect(uploaded?.inputs.privateKey).toMatchObject({ value: "key" });
  const says = /^the client certificate that Cloudflare presents expires in 10 days, .*edge\.generation by one/;
  expect(warn).toHaveBeenCalledTimes(2);
  expect(warn).toHaveBeenCalledWith(expect.stringMatching(says), expect.anything());
  expect(warn).toHaveBeenCalledWith(expect.stringContaining(`${b} at Cloudflare is former, on; declared is ${certId}`));
});
