/**
 * The attackers and their addresses: visitors of Cloudflare; clients that connect to the origin directly, without a
 * client certificate, with another customer's, or with the zone's own; and processes on the host. A delivery is valid
 * except for the change that the caller names.
 */
import { paths, units } from "../../infra/host/paths.ts";
import { type Change, delivery } from "../fakes/deliveries.ts";
import { fromTheHost, throughOtherSite as visitOtherSite } from "./attack-report.ts";
import { type Certificates, startImpostor } from "./impostor.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";
import { type Answer, type ClientTls, hostnameOf, originPort, type World } from "./world.ts";

export const places = { github: actors.github.v4[0], stranger: actors.stranger.v4[0] };
/** An address in Cloudflare's ranges from which the fake Cloudflare never connects. */
export const edgeAddress = actors.edge.v4[2];
/** Addresses of the impostors, by the type of the DNS record that points to them. */
export const impostors = { A: actors.stranger.v4[1], AAAA: actors.stranger.v6[0] };
/** The socket for the deliveries of the hook "site": that of GitHub's ranges, or one for sources of its own. */
export const socketOfSite = (host: Host): Promise<string> =>
  host.read(
    `cd ${paths.units}; ls ${units.socket("github")} ${units.socket(`${places.github}-32`)} 2>/dev/null || true`,
  );
export const receiverPort = async (host: Host): Promise<number> =>
  Number(
    await host.read(`sed -n 's/^ListenStream=.*:\\([0-9]*\\)$/\\1/p;T;q' ${paths.units}/${await socketOfSite(host)}`),
  );

export type Lab = { readonly host: Host; readonly world: World; readonly certificates: Certificates };
export type Send = (lab: Lab) => Promise<Answer>;

/** Starts both impostors; returns what ends them. */
export async function startImpostors({ host, world, certificates }: Lab): Promise<() => void> {
  const first = await startImpostor(impostors.A, originPort, await certificates.selfMade(hostnameOf(host)));
  // Cloudflare trusts the authority of the second one's certificate, but the certificate is for another name.
  const stolen = await world.api.authority.issue("example.net", ["example.net"]);
  const second = await startImpostor(impostors.AAAA, originPort, stolen);
  return () => {
    first();
    second();
  };
}

const push = ({ host }: Lab, change: Change) => delivery({ host: hostnameOf(host), source: places.github, ...change });

/** Sends a delivery to Cloudflare, as any visitor can. */
export const edge =
  (change: Change): Send =>
  ({ world }) =>
    world.deliver(change);

/** The client certificate that an attacker presents to nginx. */
type Client = (lab: Lab) => ClientTls | undefined;
export const own: Client = ({ world }) => world.client();
export const none: Client = () => undefined;
export const otherCustomer: Client = ({ certificates }) => certificates.otherCustomer;

/** Connects to the origin port directly. `client` is the value of CF-Connecting-IP, which Cloudflare would write. */
export const direct =
  (from: string, client: string | undefined, tls: Client): Send =>
  (lab) => {
    const headers: Change["headers"] = client === undefined ? {} : { "cf-connecting-ip": client };
    return lab.world.contact(lab.host, from, push(lab, { headers }), tls(lab), 5_000);
  };

/** Connects to the receiver's socket from a process on the host. */
export const onTheHost =
  (address: string): Send =>
  async (lab) =>
    fromTheHost(lab.host, address, await receiverPort(lab.host), push(lab, {}));

/** Sends the delivery to another site of the host's nginx, which forwards it to the receiver. */
export const throughOtherSite: Send = (lab) => visitOtherSite(lab.host, push(lab, {}));
