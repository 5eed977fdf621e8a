/** Cloudflare's client certificate: how openssl makes it, where its key goes, and when Cloudflare presents it. */
import { spawnSync } from "node:child_process";
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import * as pulumi from "@pulumi/pulumi";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  type ClientCertificate,
  clientCertificateScript,
  presentClientCertificate,
  readClientCertificate,
} from "../../../infra/edge/client-certificate.ts";
import type { Presented } from "../../../infra/edge/presented.ts";
import { missing } from "../host/namespace.ts";
import { setMocks } from "../mocks.ts";

/**
 * The text is in the state of every stack as the command's `stdin`. A changed byte makes each `up` after an upgrade run
 * it again: a new CA, a new certificate, and minutes until Cloudflare presents it at all its locations.
 */
test("the script is the one that existing stacks have run", () => {
  const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
  expect(sha256(clientCertificateScript("example.org", 1))).toBe(
    "61b1854f312a405706c4ef11f2c2dc0abd00327c64071a92ec55d5cdc39b0da2",
  );
  expect(sha256(clientCertificateScript("a-b.example.net", 7))).toBe(
    "ba49fff1369651186a1be25118e23d9d51bd69c143f4a211f1a29e1e52beee26",
  );
});

test("the script makes a CA, and a client certificate that the CA issued", ({ skip }) => {
  const reason = missing("openssl");
  skip(reason !== undefined, reason);
  const { stdout, status } = spawnSync("sh", ["-s"], {
    input: clientCertificateScript("example.org", 1),
    encoding: "utf8",
  });
  expect(status).toBe(0);
  const made = JSON.parse(stdout) as ClientCertificate;
  const [ca, certificate] = [new X509Certificate(made.ca), new X509Certificate(made.certificate)];
  expect([ca.ca, certificate.ca]).toEqual([true, false]);
  expect(certificate.checkIssued(ca) && certificate.verify(ca.publicKey)).toBe(true);
  expect(certificate.checkPrivateKey(createPrivateKey(made.key))).toBe(true);
  expect(ca.subject).toBe("CN=pushgate origin pulls of example.org");
  for (const { validToDate } of [ca, certificate]) {
    const years = (validToDate.getTime() - Date.now()) / (365 * 86_400_000);
    expect(years).toBeGreaterThan(9.9);
    expect(years).toBeLessThan(10.1);
  }
});

test("no error quotes what openssl printed, because it holds a private key", async () => {
  const read = (text: string) =>
    new Promise<ClientCertificate>((resolve) => readClientCertificate(pulumi.output(text)).apply(resolve));
  const made = { ca: "ca", certificate: "certificate", key: "key" };
  expect(await read(JSON.stringify(made))).toEqual(made);
  expect(await read("-----BEGIN PRIVATE KEY-----")).toEqual({ ca: "", certificate: "", key: "" });
});

test("the private key is secret before the provider marks it, and no hostname uploads no certificate", async () => {
  const declared: { type: string; inputs: Record<string, unknown> }[] = [];
  await setMocks({
    call: () => ({}),
    newResource: ({ type, name, inputs }) => {
      declared.push({ type, inputs });
      return { id: `${name}-id`, state: { expiresOn: "2041-11-01 00:00:00 +0000 UTC", ...inputs } };
    },
  });
  const made = { certificate: "leaf", key: "key" };
  const zone = { id: "zone", live: new Map(), access: undefined };
  expect(presentClientCertificate(zone, [], made)).toEqual([]);
  expect(presentClientCertificate(zone, ["a.example.org"], made)).toHaveLength(1);
  await pulumi.runtime.disconnect();
  expect(declared).toHaveLength(2);
  const uploaded = declared.find(({ type }) => type.endsWith(":AuthenticatedOriginPullsHostnameCertificate"));
  expect(uploaded?.inputs.privateKey).toMatchObject({ value: "key" });
});

describe("of a hostname", () => {
  afterEach(() => vi.restoreAllMocks());
  const hostname = "hooks.example.org";
  const declared: Presented = {
    certId: "client certificate-id",
    enabled: true,
    status: "active",
    certStatus: "active",
  };
  /** Declares the certificate where Cloudflare presents `before`, which the provider then corrects. */
  async function present(isPreview: boolean, before: Presented, expiresOn = "2041-11-01 00:00:00 +0000 UTC") {
    const warn = vi.spyOn(pulumi.log, "warn").mockResolvedValue(undefined);
    const sent: unknown[] = [];
    const configs: unknown[] = [];
    await setMocks(
      {
        call: ({ inputs }) => {
          sent.push(inputs);
          return declared;
        },
        newResource: ({ name, inputs }) => {
          configs.push(...(inputs.configs ?? []));
          // Known, also where the program left a value open: even then a preview must not restore anything.
          const known = { hostname, certId: declared.certId, enabled: true };
          return { id: `${name}-id`, state: { expiresOn, ...inputs, ...(inputs.configs && { configs: [known] }) } };
        },
      },
      "pushgate",
      "prod",
      isPreview,
    );
    const zone = { id: "zone", live: new Map([[hostname, before]]), access: undefined };
    const made = { certificate: "leaf", key: "key" };
    const [presentation] = presentClientCertificate(zone, [hostname], made);
    const certId = await new Promise((resolve) => presentation!.certId.apply(resolve));
    await new Promise((resolve) => presentation!.resource.configs.apply(resolve));
    // What else waits for that has sent its request by now.
    await sleep(20);
    await pulumi.runtime.disconnect();
    return { certId, sent, configs, warnings: warn.mock.calls.map(([text]) => text) };
  }
  const off = { ...declared, enabled: false };

  test("a preview warns of a difference and shows an update, and reads nothing again", async () => {
    const { certId, sent, configs, warnings } = await present(true, off);
    expect(warnings).toEqual([
      "the client certificate of hooks.example.org at Cloudflare is client certificate-id, off; declared is client " +
        "certificate-id, on. Run npx pulumi up, which restores it.",
    ]);
    expect(configs).not.toEqual([{ hostname, certId: "client certificate-id", enabled: true }]);
    expect([certId, sent]).toEqual(["client certificate-id", []]);
  });

  test("up declares the certificate without a warning, and looks at Cloudflare again", async () => {
    const { certId, sent, configs, warnings } = await present(false, off);
    expect([warnings, configs]).toEqual([[], [{ hostname, certId: "client certificate-id", enabled: true }]]);
    expect([certId, sent]).toEqual(["client certificate-id", [{ zoneId: "zone", hostname }]]);
  });

  test("a run warns before the certificate expires, with what renews it", async () => {
    const { warnings } = await present(false, declared, new Date(Date.now() + 10.5 * 86_400_000).toISOString());
    expect(warnings).toEqual([
      "the client certificate that Cloudflare presents expires in 10 days, and every delivery fails from then on. Raise " +
        "pushgate:edge.generation by one and run npx pulumi up.",
    ]);
  });
});
