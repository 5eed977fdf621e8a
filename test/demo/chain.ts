/**
 * Sends a delivery through all layers without root: Cloudflare's rules as the program declares them, firewall, proxy
 * and socket as it renders them, and the real receiver. The first layer that rejects the delivery decides. A test
 * removes a protection by changing the declared or rendered text.
 */
import { decide } from "../fakes/cloudflare/plane.ts";
import type { ZoneState } from "../fakes/cloudflare/zone.ts";
import type { Delivery } from "../fakes/deliveries.ts";
import { firewallAdmits, proxyPasses, socketAdmits } from "../infra/host/rendered.ts";
import type { Answered } from "../service/receiver-process.ts";

export type Chain = {
  readonly zone: ZoneState;
  readonly firewall: string;
  readonly proxy: string;
  /** The rendered .socket that listens on a loopback port. */
  readonly socket: (port: number) => string;
  readonly receiver: (delivery: Delivery) => Promise<Answered>;
  /** Whether another host answers at the record's address, without this zone's origin certificate. */
  readonly impostor?: boolean;
};

/** The way to the host: through this zone, from another Cloudflare customer's worker, or to the origin port. */
export type Way =
  | { readonly through: "zone" }
  | { readonly through: "another customer"; readonly client: string }
  | { readonly through: "origin port"; readonly peer: string };

export type Outcome = {
  /** What the sender receives; 0 is no answer. */
  readonly status: number;
  /** The layer that rejects the delivery; `none` if it is accepted. */
  readonly stoppedBy: string;
};

/** One of Cloudflare's addresses, as a connection to the origin shows it. */
const cloudflareAddress = "104.16.0.1";

/** Custom rules are layer 2, Cloudflare's products are layer 3. */
const layerOf = (source: string): string => (source === "firewallCustom" ? "2 WAF" : "3 bot management");

export async function walk(chain: Chain, delivery: Delivery, way: Way = { through: "zone" }): Promise<Outcome> {
  const stopped = (status: number, stoppedBy: string): Outcome => ({ status, stoppedBy });
  let peer = cloudflareAddress;
  let client: string = delivery.source;
  let ownCertificate = false;
  const port = Number(/listen (\d+) ssl/.exec(chain.proxy)?.[1]);
  if (way.through === "zone") {
    const { source, method, host, path: target, headers } = delivery;
    const verdict = decide(chain.zone, { source, method, host, target, headers });
    if (verdict.answer) return stopped(verdict.answer.status, layerOf(verdict.decidedBy?.source ?? ""));
    if (verdict.origin.port !== port) return stopped(521, "4 Cloudflare to origin");
    if (chain.impostor)
      return verdict.origin.ssl === "strict"
        ? stopped(526, "4 Cloudflare to origin")
        : stopped(200, "none: the other host answers");
    ownCertificate = chain.zone.origin_pulls.hostnames.some(
      ({ hostname, enabled }) => hostname === delivery.host && enabled,
    );
  } else if (way.through === "another customer") {
    client = way.client;
  } else {
    peer = way.peer;
    client = way.peer;
  }

  if (!firewallAdmits(chain.firewall, { source: peer, port })) return stopped(0, "5 firewall");

  const passage = proxyPasses(chain.proxy, { peer, ownCertificate, client, path: delivery.path });
  if ("status" in passage) return stopped(passage.status, passage.status < 400 ? "none" : "6 nginx");

  // nginx answers 403 for a connection that the kernel rejects, but the rejecting layer is systemd's allowlist.
  if (!socketAdmits(chain.socket(passage.port), passage.bind)) return stopped(403, "7 systemd");

  const { status } = await chain.receiver(delivery);
  return stopped(status, status < 300 ? "none" : "8 receiver");
}
