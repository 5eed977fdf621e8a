/** Certificates of the fake API: really signed, and rejected where the real API rejects them. */
import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { type Api, startApi } from "./api.ts";
import { createAuthority } from "./authority.ts";
import { clientOf } from "./client.ts";
import { emptyZone } from "./zone.ts";

const authority = await createAuthority("test CA");
let api: Api;
const { ask, result, refused } = clientOf(() => api);
beforeEach(async () => {
  api = await startApi({ zone: emptyZone("example.org", "free"), authority });
});
afterEach(() => api.close());
afterAll(() => authority.close());

/** The parts of a certificate that the tests read. */
type Made = { id: string; status: string; certificate: string; expires_on: string };

const folder = mkdtempSync(`${tmpdir()}/pushgate-`);
const file = (name: string) => `${folder}/${name}`;
const ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
execFileSync("openssl", ["req", "-new", ...ec, "-subj", "/CN=ignored", "-keyout", file("key"), "-out", file("csr")], {
  stdio: "pipe",
});
const csr = readFileSync(file("csr"), "utf8");
rmSync(folder, { recursive: true });
const wanted = { csr, hostnames: ["hooks.example.org"], request_type: "origin-ecc", requested_validity: 5475 };

test("the Origin CA signs a request for names of the zone, and no other", async () => {
  const made = await result<Made>("POST", "/certificates", wanted);
  const certificate = new X509Certificate(made.certificate);
  expect(certificate.verify(new X509Certificate(authority.certificate).publicKey)).toBe(true);
  expect(certificate.subjectAltName).toBe("DNS:hooks.example.org");
  expect(made.expires_on).toMatch(/^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC$/);
  expect((await ask("GET", `/certificates/${made.id}`)).result).toMatchObject({ id: made.id });
  expect(await refused("POST", "/certificates", { ...wanted, hostnames: ["hooks.example.net"] })).toMatch(
    /^400 1010 Failed to validate/,
  );
  expect(await refused("POST", "/certificates", { ...wanted, hostnames: ["notexample.org"] })).toMatch(/^400 1010/);
  expect(await refused("POST", "/certificates", { ...wanted, csr: "nothing" })).toMatch(/^400 1005/);
  expect(await refused("POST", "/certificates", { ...wanted, requested_validity: 10 })).toMatch(/^400/);
  expect((await ask("DELETE", `/certificates/${made.id}`)).status).toBe(200);
  expect((await ask("GET", `/certificates/${made.id}`)).status).toBe(404);
});

test("a client certificate is accepted with its key, for a hostname of the zone", async () => {
  const own = await createAuthority("stack CA");
  const leaf = await own.issue("pushgate");
  const other = await own.issue("other");
  await own.close();
  const P = "Z/origin_tls_client_auth/hostnames";
  const upload = (certificate: string, private_key: string) => ({ certificate, private_key });
  expect(await refused("POST", `${P}/certificates`, upload(own.certificate, leaf.key))).toMatch(
    /missing leaf certificate/,
  );
  expect(await refused("POST", `${P}/certificates`, upload(leaf.certificate, other.key))).toMatch(/does not match/);
  expect(await refused("POST", `${P}/certificates`, upload("x", "y"))).toMatch(/PEM/);
  const made = await result<Made>("POST", `${P}/certificates`, upload(leaf.certificate, leaf.key));
  expect(made.status).toBe("pending_deployment");
  const shown = await result<Made>("GET", `${P}/certificates/${made.id}`);
  expect(shown).toMatchObject({ status: "active", certificate: leaf.certificate });
  expect(shown).not.toHaveProperty("private_key");

  const config = (hostname: string, enabled: boolean | null = true) => ({
    config: [{ hostname, cert_id: made.id, enabled }],
  });
  expect(await refused("PUT", P, config("hooks.example.net"))).toMatch(/^400/);
  expect((await ask("PUT", P, config("hooks.example.org"))).result).toMatchObject([
    { enabled: true, cert_id: made.id },
  ]);
  expect((await ask("GET", `${P}/hooks.example.org`)).result).toMatchObject({
    hostname: "hooks.example.org",
    enabled: true,
  });
  await ask("PUT", P, config("hooks.example.org", null));
  // Cloudflare goes on to return a removed association, and returns 404 for a hostname that never had one.
  const removed = { hostname: "hooks.example.org", cert_id: made.id, enabled: null, status: "deleted" };
  expect((await ask("GET", `${P}/hooks.example.org`)).result).toMatchObject(removed);
  expect(api.zone.origin_pulls.hostnames).toEqual([]);
  await ask("PUT", P, config("hooks.example.org", true));
  expect((await ask("GET", `${P}/hooks.example.org`)).result).toMatchObject({ enabled: true, status: "active" });
  expect((await ask("GET", `${P}/other.example.org`)).status).toBe(404);
  expect((await ask("PUT", "Z/origin_tls_client_auth/settings", { enabled: true })).result).toEqual({
    enabled: true,
  });
});
