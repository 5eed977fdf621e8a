/**
 * The rows of the removal matrix: attacks grouped by the layer that stops them. Each row holds three answers, as
 * `summary` of attack-report.ts writes them: with every layer as declared, with the layers before its own removed, and
 * with its own layer removed too.
 */
import { foreignWorker } from "../fixtures.ts";
import { attacks, type RejectingLayer } from "../scenarios.ts";
import { answers } from "./attack-report.ts";
import * as by from "./attackers.ts";
import * as fault from "./faults.ts";
import type { Host } from "./lab/host.ts";

const { places } = by;

export type Row = {
  readonly attack: string;
  readonly send: by.Send;
  readonly declared: string;
  /** Omitted if it equals `declared`, because no layer before its own stops the attack. */
  readonly stopped?: string;
  readonly reaches: string;
};

export type Stage = {
  readonly layer: RejectingLayer;
  /** A fault that these attacks need; it is undone after them. */
  readonly during?: { readonly made: fault.Fault; readonly undone: (host: Host) => fault.Fault };
  readonly removal: fault.Fault;
  readonly rows: readonly Row[];
};

export const { accepted } = answers;
const { blocked, notAllowed, challenged, noCertificate, noClient, notTheEdge, unauthorized } = answers;

const wrong = attacks["8 receiver"].change(places);

export const stages: readonly Stage[] = [
  {
    layer: "2 WAF",
    removal: fault.noRules,
    rows: [
      {
        attack: attacks["2 WAF"].says,
        send: by.edge(attacks["2 WAF"].change(places)),
        declared: blocked,
        reaches: "404 proxy: not found",
      },
    ],
  },
  {
    layer: "3 bot management",
    removal: fault.bots("allow"),
    rows: [
      {
        attack: attacks["3 bot management"].says,
        send: by.edge({}),
        declared: accepted,
        stopped: challenged,
        reaches: accepted,
      },
    ],
  },
  {
    layer: "4 Cloudflare to origin",
    during: {
      made: fault.recordAt(by.impostor),
      undone: ({ address }) => fault.recordAt(address),
    },
    removal: fault.notStrict,
    rows: [
      {
        attack: attacks["4 Cloudflare to origin"].says,
        send: by.edge({}),
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
        send: by.direct(places.stranger, places.github, by.none),
        declared: "silence",
        reaches: noCertificate,
      },
    ],
  },
  {
    layer: "6 nginx",
    removal: fault.noClientCertificate,
    rows: [
      {
        attack: attacks["6 nginx"].says,
        send: by.direct(foreignWorker, foreignWorker, by.otherCustomer),
        declared: noCertificate,
        reaches: notAllowed,
      },
    ],
  },
  {
    layer: "6 nginx",
    removal: fault.anyPeer,
    rows: [
      {
        attack: "a stranger with the zone's own client certificate claims the git host's address",
        send: by.direct(places.stranger, places.github, by.own),
        declared: "silence",
        stopped: notTheEdge,
        reaches: notAllowed,
      },
    ],
  },
  {
    layer: "6 nginx",
    removal: fault.anyClient,
    rows: [
      {
        attack: "Cloudflare sends no client address",
        send: by.direct(by.edgeAddress, undefined, by.own),
        declared: noClient,
        reaches: notAllowed,
      },
    ],
  },
  {
    layer: "7 systemd",
    removal: fault.noList,
    rows: [
      {
        attack: attacks["7 systemd"].says,
        send: by.edge(attacks["7 systemd"].change(places)),
        declared: blocked,
        stopped: notAllowed,
        reaches: accepted,
      },
      {
        attack: "a process on the host connects to the receiver's socket",
        send: by.onTheHost,
        declared: "silence",
        reaches: accepted,
      },
    ],
  },
  {
    layer: "8 receiver",
    removal: fault.noSignatureCheck,
    rows: [{ attack: attacks["8 receiver"].says, send: by.edge(wrong), declared: unauthorized, reaches: accepted }],
  },
];
