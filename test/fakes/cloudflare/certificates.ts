/** The fake API's Origin CA and client certificates: real signatures on real requests, real keys that must match. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { Authority } from "./authority.ts";
import { byId, type Call, type Fields, found, now, paged, Refusal, type Reply, type Route } from "./refusal.ts";
import { type ClientCertificate, idOf, type ZoneState } from "./zone.ts";

/** Days an Origin CA certificate may be valid. */
const validities = [7, 30, 90, 365, 730, 1095, 5475];

export function certificateRoutes(zone: ZoneState, authority: Authority): Route[] {
  const inZone = (name: string): boolean => name === zone.name || name.endsWith(`.${zone.name}`);

  async function signOrigin({ body }: Call): Promise<Reply> {
    // Returned sorted, whatever order was sent.
    const names = [...((body.hostnames ?? []) as string[])].sort();
    const days = Number(body.requested_validity ?? 5475);
    if (names.length === 0) throw new Refusal(400, 1007, "hostnames: 1 to 200 are needed");
    const stranger = names.find((name) => !inZone(name));
    if (stranger !== undefined)
      throw new Refusal(400, 1010, `Failed to validate requested hostname ${stranger}: This zone is not yours.`);
    if (!validities.includes(days)) throw new Refusal(400, 1008, `requested_validity: one of ${validities.join(", ")}`);
    if (body.request_type !== "origin-ecc") throw new Refusal(400, 1006, "request_type: the key is of another type");
    const certificate = await authority.sign(String(body.csr ?? ""), names, days).catch(() => {
      throw new Refusal(400, 1005, "Failed to parse the certificate signing request");
    });
    const { serialNumber, validTo } = new X509Certificate(certificate);
    const expires_on = `${new Date(validTo).toISOString().slice(0, 19).replace("T", " ")} +0000 UTC`;
    const id = BigInt(`0x${serialNumber}`).toString();
    const stored = { id, certificate, hostnames: names, expires_on, request_type: body.request_type };
    zone.origin_certificates.push(stored);
    return { result: { ...stored, csr: body.csr, requested_validity: days } };
  }

  const origin = ({ params }: Call) => byId(zone.origin_certificates, params.id, 1002, "certificate not found");

  // Functions, so that a test may replace the zone's lists.
  const held = (): ClientCertificate[] => zone.origin_pulls.hostname_certificates;
  const shown = ({ private_key: _, ...rest }: ClientCertificate): Fields => rest;

  function upload({ body }: Call): Reply {
    const { certificate, private_key } = body;
    let leaf: X509Certificate;
    let fits = false;
    try {
      leaf = new X509Certificate(String(certificate));
      fits = leaf.checkPrivateKey(createPrivateKey(String(private_key)));
    } catch {
      throw new Refusal(400, 1400, "Unable to decode the certificate or its private key: PEM is needed");
    }
    if (leaf.ca || leaf.issuer === leaf.subject) throw new Refusal(400, 1412, "missing leaf certificate");
    if (!fits) throw new Refusal(400, 1414, "The private key does not match the certificate");
    if (held().length >= 10) throw new Refusal(400, 1405, "at most 10 certificates are allowed");
    const stored: ClientCertificate = {
      id: idOf(leaf.fingerprint256, held().length, Date.now()),
      certificate: String(certificate),
      private_key: String(private_key),
      expires_on: new Date(leaf.validTo).toISOString().replace(".000Z", "Z"),
      uploaded_on: now(),
      status: "active",
    };
    held().push(stored);
    // The real Cloudflare takes minutes to deploy it.
    return { result: { ...shown(stored), status: "pending_deployment" } };
  }

  /** Certificates that were deleted. Cloudflare goes on to return them; none can be associated. */
  const deleted = new Map<string, ClientCertificate>();
  const one = ({ params }: Call): ClientCertificate =>
    found(held().find(({ id }) => id === params.id) ?? deleted.get(params.id ?? ""), 1401, "certificate not found");

  function drop(call: Call): Reply {
    const gone = one(call);
    if (!deleted.has(gone.id)) held().splice(held().indexOf(gone), 1);
    deleted.set(gone.id, { ...gone, status: "deleted" });
    return { result: { ...shown(gone), status: "pending_deletion" } };
  }

  /** Associations that were removed. Cloudflare goes on to return them; they are no part of what the zone does. */
  const removed = new Map<string, Fields>();

  function associate({ body }: Call): Reply {
    const given = Array.isArray(body.config) ? (body.config as Fields[]) : [];
    if (given.length === 0) throw new Refusal(400, 1430, "config: at least one hostname is needed");
    for (const { hostname, cert_id, enabled } of given) {
      if (!inZone(String(hostname))) throw new Refusal(400, 1431, `hostname ${hostname} is not in this zone`);
      if (enabled !== null && !held().some(({ id }) => id === cert_id))
        throw new Refusal(400, 1432, `certificate ${cert_id} was not found`);
    }
    const result = given.map(({ hostname, cert_id, enabled }) => {
      const name = String(hostname);
      zone.origin_pulls.hostnames = zone.origin_pulls.hostnames.filter((existing) => existing.hostname !== name);
      const about = { hostname: name, cert_id: String(cert_id), cert_status: "active", updated_at: now() };
      if (enabled === null) {
        removed.set(name, { ...about, enabled: null, status: "deleted" });
        return { ...about, enabled: null, status: "pending_deletion" };
      }
      const made = { ...about, status: "active", enabled: enabled === true, created_at: now() };
      zone.origin_pulls.hostnames.push(made);
      return made;
    });
    return { result };
  }

  function originsOfZone({ query }: Call): Reply {
    if (query.get("zone_id") !== zone.id) throw new Refusal(400, 1003, "zone_id: a zone of yours is needed");
    return paged(zone.origin_certificates, query, 20);
  }

  function revoke(call: Call): Reply {
    const { id } = origin(call);
    zone.origin_certificates = zone.origin_certificates.filter((kept) => kept.id !== id);
    return { result: { id, revoked_at: now() } };
  }

  function packs({ query }: Call): Reply {
    const active = zone.certificate_packs.filter(({ status }) => status === "active");
    return paged(active, query, 20);
  }

  function association({ params: { hostname = "" } }: Call): Reply {
    const kept = zone.origin_pulls.hostnames.find((one) => one.hostname === hostname);
    const result = found(kept ?? removed.get(hostname), 1433, "hostname not found");
    const isHeld = held().some(({ id }) => id === result.cert_id);
    const isDeleted = !isHeld && deleted.has(String(result.cert_id));
    return { result: { ...result, ...(isDeleted && { cert_status: "deleted" }) } };
  }

  const [reads, writes] = ["SSL and Certificates Read", "SSL and Certificates Write"];
  const O = "/zones/:zone/origin_tls_client_auth/hostnames";
  return [
    ["GET", "/zones/:zone/ssl/certificate_packs", reads, packs],
    ["GET", "/certificates", reads, originsOfZone],
    ["POST", "/certificates", writes, signOrigin],
    ["GET", "/certificates/:id", reads, (call) => ({ result: origin(call) })],
    ["DELETE", "/certificates/:id", writes, revoke],
    ["PUT", O, writes, associate],
    ["GET", `${O}/certificates`, reads, () => ({ result: held().map(shown) })],
    ["POST", `${O}/certificates`, writes, upload],
    ["GET", `${O}/certificates/:id`, reads, (call) => ({ result: shown(one(call)) })],
    ["DELETE", `${O}/certificates/:id`, writes, drop],
    ["GET", `${O}/:hostname`, reads, association],
  ];
}
