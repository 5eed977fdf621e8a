/**
 * The rows of the removal matrix: attacks by the layer that stops them, and what each is answered as declared, with the
 * layers before open, and with its own layer taken away too. Answers are read as `said` of look.ts writes them.
 */
import { foreignWorker, loopback } from "../../infra/networks.ts";
import { type Change, delivery } from "../deliveries.ts";
import { attacks, type LayerName } from "../scenarios.ts";
import * as fault from "./faults.ts";
import { asClient, type Certificates } from "./impostor.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";
import { locally, throughOtherSite } from "./look.ts";
import { release } from "./release.ts";
import { type Answer, type ClientTls, hostnameOf, type World } from "./world.ts";

export const places = { github: actors.github.v4[0], stranger: actors.stranger.v4[0] };
const [github6, gitlab, stranger6] = [actors.github.v6[0], actors.gitlab.v4[0], actors.stranger.v6[0]];
/** Inside the edge's ranges; the edge itself contacts origins from another. */
const edgeAddress = actors.edge.v4[2];
/** Where impostors listen, by the type of the record that leads to them. */
export const impostors = { A: actors.stranger.v4[1], AAAA: stranger6 };
/** Of the source set "github", as the program counts. */
export const receiverPort = 9461;

export type Lab = { readonly host: Host; readonly world: World; readonly certificates: Certificates };

export type Row = {
  readonly attack: string;
  readonly send: (lab: Lab) => Promise<Answer>;
  readonly declared: string;
  /** Left out: as declared, since nothing before its layer stops it. */
  readonly stopped?: string;
  readonly reaches: string;
};

export type Stage = {
  readonly layer: LayerName;
  /** A fault that its attacks need; it does not stay. */
  readonly during?: { readonly made: fault.Fault; readonly undone: (host: Host) => fault.Fault };
  readonly removal: fault.Fault;
  readonly rows: readonly Row[];
};

type Send = Row["send"];
const push = ({ host }: Lab, change: Change) => delivery({ host: hostnameOf(host), source: places.github, ...change });
const edge =
  (change: Change): Send =>
  ({ world }) =>
    world.deliver(change);

type Client = (lab: Lab) => ClientTls | undefined;
/** The edge's own client certificate, as the zone holds it: what nobody else has. */
const own: Client = ({ world }) => {
  const { certificate, private_key: key } = world.api.zone.origin_pulls.hostname_certificates.at(-1)!;
  return asClient({ certificate, key });
};
const none: Client = () => undefined;
const shared: Client = ({ certificates }) => certificates.shared;
const otherCustomer: Client = ({ certificates }) => certificates.otherCustomer;

/** Past the edge, with the header that the edge would write: its client's address, or none. */
const direct =
  (from: string, client: string | readonly string[] | undefined, tls: Client, change: Change = {}): Send =>
  (lab) => {
    // Node writes a list as a line each.
    const named = client === undefined ? {} : { "cf-connecting-ip": client as string };
    const sent = push(lab, { ...change, headers: { ...named, ...change.headers } });
    return lab.world.contact(lab.host, from, sent, tls(lab), 1_500);
  };
const onTheMachine =
  (address: string): Send =>
  (lab) =>
    locally(lab.host, address, receiverPort, push(lab, {}));

export const blocked = "403 edge: firewallCustom";
const challenged = "403 edge: sbfm";
const noCertificate = "400 proxy: bad request, or no client certificate of this zone";
const notTheEdge = "403 proxy: not sent by the edge";
const noClient = "403 proxy: the edge named no single client address: see whether a transform removes CF-Connecting-IP";
export const notAllowed = "403 proxy: source not allowed";
const unauthorized = "401 receiver: Unauthorized";
export const accepted = "202 receiver: accepted";

const fromStranger = (headers: Change["headers"] = {}): Change => ({ source: places.stranger, headers });
const wrong = attacks["8 receiver"].change(places);
const twice = (address: string) => [address, address] as unknown as string;
/** nginx 1.22 sees only the first of several lines of one name, which is also whom it takes for the client. */
const sees = release === "bookworm" ? "first" : "all";

export const stages: readonly Stage[] = [
  {
    layer: "2 waf",
    removal: fault.noRules,
    rows: [
      {
        attack: attacks["2 waf"].says,
        send: edge(attacks["2 waf"].change(places)),
        declared: blocked,
        reaches: "404 proxy: not found",
      },
      {
        attack: "a valid signature from outside the git host's ranges",
        send: edge(fromStranger()),
        declared: blocked,
        reaches: challenged,
      },
      { attack: "no signature", send: edge({ signature: null }), declared: blocked, reaches: challenged },
      {
        attack: "a query behind the hook's path",
        send: edge({ path: "/webhook/site?a=1" }),
        declared: blocked,
        reaches: challenged,
      },
      {
        attack: "one git host's source at another's hook",
        send: edge({ source: gitlab }),
        declared: blocked,
        reaches: challenged,
      },
    ],
  },
  {
    layer: "3 bots",
    removal: fault.bots("allow"),
    rows: [
      {
        attack: "an automated client from anywhere, with a valid signature",
        send: edge(fromStranger()),
        declared: blocked,
        stopped: challenged,
        reaches: notAllowed,
      },
      {
        attack: "the same with X-Forwarded-For forged",
        send: edge(fromStranger({ "x-forwarded-for": places.github })),
        declared: blocked,
        stopped: challenged,
        reaches: notAllowed,
      },
      {
        attack: "the same with CF-Connecting-IP sent along, twice",
        send: edge(fromStranger({ "cf-connecting-ip": twice(places.github) })),
        declared: blocked,
        stopped: challenged,
        reaches: notAllowed,
      },
      { attack: attacks["3 bots"].says, send: edge({}), declared: accepted, stopped: challenged, reaches: accepted },
    ],
  },
  {
    layer: "4 origin",
    during: {
      made: fault.recordsAt(impostors),
      undone: ({ address, address6 }) => fault.recordsAt({ A: address, AAAA: address6! }),
    },
    removal: fault.notStrict,
    rows: [
      {
        attack: attacks["4 origin"].says,
        send: edge({}),
        declared: accepted,
        stopped: "526 edge",
        reaches: "200 impostor",
      },
      {
        attack: "another machine answers there, with a trusted certificate for a name of its own",
        send: edge({ source: github6 }),
        declared: accepted,
        stopped: "526 edge",
        reaches: "200 impostor",
      },
    ],
  },
  {
    layer: "5 firewall",
    removal: fault.noDrop,
    rows: [
      {
        attack: attacks["5 firewall"].says,
        send: direct(places.stranger, places.github, none),
        declared: "silence",
        reaches: noCertificate,
      },
      {
        attack: "the same over IPv6",
        send: direct(stranger6, places.github, none),
        declared: "silence",
        reaches: noCertificate,
      },
      {
        attack: "the same with the edge's own certificate",
        send: direct(places.stranger, places.github, own),
        declared: "silence",
        reaches: notTheEdge,
      },
    ],
  },
  {
    layer: "6 proxy",
    removal: fault.noClientCertificate,
    rows: [
      {
        attack: attacks["6 proxy"].says,
        send: direct(foreignWorker, foreignWorker, otherCustomer),
        declared: noCertificate,
        reaches: notAllowed,
      },
      {
        attack: "an edge address, without a certificate, says that it speaks for the git host",
        send: direct(edgeAddress, places.github, none, wrong),
        declared: noCertificate,
        reaches: unauthorized,
      },
      {
        attack: "the same with the certificate that all zones share",
        send: direct(edgeAddress, places.github, shared, wrong),
        declared: noCertificate,
        reaches: unauthorized,
      },
    ],
  },
  {
    layer: "6 proxy",
    removal: fault.anyPeer,
    rows: [
      {
        attack: "a stranger with the edge's own certificate says that it speaks for the git host",
        send: direct(places.stranger, places.github, own),
        declared: "silence",
        stopped: notTheEdge,
        reaches: notAllowed,
      },
    ],
  },
  {
    layer: "6 proxy",
    removal: fault.anyClient,
    rows: [
      {
        attack: "the edge names no client",
        send: direct(edgeAddress, undefined, own),
        declared: noClient,
        reaches: notAllowed,
      },
      {
        attack: "CF-Connecting-IP doubled, the stranger's first",
        send: direct(edgeAddress, [places.stranger, places.github], own),
        declared: sees === "all" ? noClient : notAllowed,
        reaches: notAllowed,
      },
      {
        attack: "CF-Connecting-IP doubled, the git host's first",
        send: direct(edgeAddress, [places.github, places.stranger], own),
        declared: sees === "all" ? noClient : accepted,
        reaches: accepted,
      },
    ],
  },
  {
    layer: "6 proxy",
    removal: fault.forwardedForBelieved,
    rows: [
      {
        attack: "X-Forwarded-For forged by whoever speaks as the edge",
        send: direct(edgeAddress, places.stranger, own, fromStranger({ "x-forwarded-for": places.github })),
        declared: notAllowed,
        reaches: accepted,
      },
    ],
  },
  {
    layer: "7 service manager",
    removal: fault.noList,
    rows: [
      {
        attack: attacks["7 service manager"].says,
        send: edge(attacks["7 service manager"].change(places)),
        declared: blocked,
        stopped: notAllowed,
        reaches: accepted,
      },
      {
        attack: "the same over IPv6",
        send: edge({ source: stranger6 }),
        declared: blocked,
        stopped: notAllowed,
        reaches: accepted,
      },
      {
        attack: "one git host's source at another's hook, the edge's rules deleted",
        send: edge({ source: gitlab }),
        declared: blocked,
        stopped: notAllowed,
        reaches: accepted,
      },
      {
        attack: "a process of the machine at the receiver's socket",
        send: onTheMachine(loopback.v4),
        declared: "silence",
        reaches: accepted,
      },
      {
        attack: "the same over IPv6 loopback",
        send: onTheMachine(loopback.v6),
        declared: "silence",
        reaches: accepted,
      },
      {
        attack: "another site of the same nginx passes a delivery of the git host's on",
        send: (lab) => throughOtherSite(lab.host, push(lab, {})),
        declared: "504 nginx",
        reaches: accepted,
      },
    ],
  },
  {
    layer: "8 receiver",
    removal: fault.noSignatureCheck,
    rows: [
      { attack: attacks["8 receiver"].says, send: edge(wrong), declared: unauthorized, reaches: accepted },
      { attack: "signed with the empty secret", send: edge({ secret: "" }), declared: unauthorized, reaches: accepted },
      {
        attack: "a signature of nothing, as a git host without a secret sends it",
        send: edge({ signature: "sha256=" }),
        declared: blocked,
        stopped: unauthorized,
        reaches: accepted,
      },
      {
        attack: "no signature, the edge's rules deleted",
        send: edge({ signature: null }),
        declared: blocked,
        stopped: unauthorized,
        reaches: accepted,
      },
    ],
  },
];
