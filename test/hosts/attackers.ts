/**
 * Who attacks and from where: visitors of the edge, whoever contacts the origin past it, with certificates of others or
 * with the edge's own, and whoever else is on the machine. Deliveries are good ones but for what is said.
 */
import { type Change, delivery } from "../fakes/deliveries.ts";
import { asClient, type Certificates } from "./impostor.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";
import { locally, throughOtherSite as visitOtherSite } from "./look.ts";
import { type Answer, type ClientTls, hostnameOf, type World } from "./world.ts";

export const places = { github: actors.github.v4[0], stranger: actors.stranger.v4[0] };
/** Inside the edge's ranges; the edge itself contacts origins from another. */
export const edgeAddress = actors.edge.v4[2];
/** Where impostors listen, by the type of the record that leads to them. */
export const impostors = { A: actors.stranger.v4[1], AAAA: actors.stranger.v6[0] };
/** Of the source set "github", as the program counts. */
export const receiverPort = 9461;

export type Lab = { readonly host: Host; readonly world: World; readonly certificates: Certificates };
export type Send = (lab: Lab) => Promise<Answer>;

const push = ({ host }: Lab, change: Change) => delivery({ host: hostnameOf(host), source: places.github, ...change });

/** Through the edge, as any visitor. */
export const edge =
  (change: Change): Send =>
  ({ world }) =>
    world.deliver(change);

/** What is shown as a client certificate. */
type Client = (lab: Lab) => ClientTls | undefined;
/** The edge's own client certificate, as the zone holds it: what nobody else has. */
export const own: Client = ({ world }) => {
  const { certificate, private_key: key } = world.api.zone.origin_pulls.hostname_certificates.at(-1)!;
  return asClient({ certificate, key });
};
export const none: Client = () => undefined;
export const shared: Client = ({ certificates }) => certificates.shared;
export const otherCustomer: Client = ({ certificates }) => certificates.otherCustomer;

/** Past the edge, with the header that the edge would write: its client's address, or none. */
export const direct =
  (from: string, client: string | readonly string[] | undefined, tls: Client, change: Change = {}): Send =>
  (lab) => {
    // Node writes a list as a line each.
    const named = client === undefined ? {} : { "cf-connecting-ip": client as string };
    const sent = push(lab, { ...change, headers: { ...named, ...change.headers } });
    return lab.world.contact(lab.host, from, sent, tls(lab), 1_500);
  };

/** At the receiver's own socket. */
export const onTheMachine =
  (address: string): Send =>
  (lab) =>
    locally(lab.host, address, receiverPort, push(lab, {}));

/** From the lab, as any visitor of another site of the machine. */
export const throughOtherSite: Send = (lab) => visitOtherSite(lab.host, push(lab, {}));
