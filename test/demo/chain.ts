/**
 * The whole chain on one table, without root: the edge's rules as the program declares them, firewall, proxy and socket
 * as it renders them, and the real receiver. A delivery walks through and is stopped by the first layer that says no;
 * a layer is taken away by changing the declared or rendered text, never by a switch in the reader.
 */

import { decide } from "../fakes/cloudflare/plane.ts";
import type { ZoneState } from "../fakes/cloudflare/zone.ts";
import type { Delivery } from "../fakes/deliveries.ts";
import { firewallAdmits } from "../infra/host/rendered/firewall.ts";
import { proxyPasses } from "../infra/host/rendered/proxy.ts";
import { socketAdmits } from "../infra/host/rendered/socket.ts";
import type { Answered } from "../service/receiver-process.ts";

export type Chain = {
  readonly zone: ZoneState;
  readonly firewall: string;
  readonly proxy: string;
  /** The rendered .socket that listens on a loopback port. */
  readonly socket: (port: number) => string;
  readonly receiver: (delivery: Delivery) => Promise<Answered>;
  /** Whether the machine that answers at the record's address shows this zone's origin certificate. */
  readonly impostor?: boolean;
};

/** How an attack gets in: through our edge, through another customer's, or past the edge to the origin's port. */
export type Way =
  | { readonly through: "edge" }
  | { readonly through: "foreign edge"; readonly client: string }
  | { readonly through: "origin port"; readonly peer: string };

export type Outcome = {
  /** What the sender sees; 0 is silence. */
  readonly status: number;
  readonly stoppedBy: string;
  /** Lines this delivery left in each log. */
  readonly logs: { readonly proxy: number; readonly receiver: number };
};

/** One address of the edge's ranges each family, as its connections to an origin show. */
export const edgeAddress = "104.16.0.1";

/** The rules that decide, by who owns them: pushgate's are layer 2, the edge's products layer 3. */
const edgeLayer = (source: string): string => (source === "firewallCustom" ? "2 waf" : "3 bots");

export async function walk(chain: Chain, delivery: Delivery, way: Way = { through: "edge" }): Promise<Outcome> {
  const stopped = (status: number, stoppedBy: string, proxy = 0, receiver = 0): Outcome => ({
    status,
    stoppedBy,
    logs: { proxy, receiver },
  });

  let peer = edgeAddress;
  let client: string = delivery.source;
  let ownCertificate = false;
  const port = Number(/listen (\d+) ssl/.exec(chain.proxy)?.[1]);
  if (way.through === "edge") {
    const request = {
      source: delivery.source,
      method: delivery.method,
      host: delivery.host,
      target: delivery.path,
      headers: delivery.headers,
    };
    const verdict = decide(chain.zone, request);
    if (verdict.answer) return stopped(verdict.answer.status, edgeLayer(verdict.decidedBy?.source ?? ""));
    if (verdict.origin.port !== port) return stopped(521, "4 origin");
    if (chain.impostor)
      return verdict.origin.ssl === "strict" ? stopped(526, "4 origin") : stopped(200, "nobody: the impostor has it");
    ownCertificate = chain.zone.origin_pulls.hostnames.some(
      ({ hostname, enabled }) => hostname === delivery.host && enabled,
    );
  } else if (way.through === "foreign edge") {
    client = way.client;
  } else {
    peer = way.peer;
    client = way.peer;
  }

  if (!firewallAdmits(chain.firewall, { source: peer, port })) return stopped(0, "5 firewall");

  const { method, path, body } = delivery;
  const passage = proxyPasses(chain.proxy, { peer, ownCertificate, client, method, path, bodyBytes: body.length });
  if ("status" in passage) return stopped(passage.status, passage.status < 400 ? "nobody" : "6 proxy", 1);

  // A refused connection is the proxy's 403, by the name of the layer that refused it.
  if (!socketAdmits(chain.socket(passage.port), passage.bind)) return stopped(403, "7 service manager", 1);

  const { status, lines } = await chain.receiver(delivery);
  return stopped(status, status < 300 ? "nobody" : "8 receiver", 1, lines);
}
