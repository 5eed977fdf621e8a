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

/** A row without an attack has the layer's of scenarios.ts. */
const stage = (
  layer: RejectingLayer,
  removal: fault.Fault,
  ...rows: readonly (Omit<Row, "attack"> & Partial<Pick<Row, "attack">>)[]
): Stage => ({ layer, removal, rows: rows.map((row) => ({ attack: attacks[layer].says, ...row })) });

export const stages: readonly Stage[] = [
  stage("2 WAF", fault.noRules, {
    send: by.edge(attacks["2 WAF"].change(places)),
    ...{ declared: blocked, reaches: "404 proxy: not found" },
  }),
  stage("3 bot management", fault.bots("allow"), {
    send: by.edge({}),
    ...{ declared: accepted, stopped: challenged, reaches: accepted },
  }),
  {
    ...stage("4 Cloudflare to origin", fault.notStrict, {
      send: by.edge({}),
      ...{ declared: accepted, stopped: "526 edge", reaches: "200 impostor" },
    }),
    during: { made: fault.recordAt(by.impostor), undone: ({ address }) => fault.recordAt(address) },
  },
  stage("5 firewall", fault.noDrop, {
    send: by.direct(places.stranger, places.github, by.none),
    ...{ declared: "silence", reaches: noCertificate },
  }),
  stage("6 nginx", fault.noClientCertificate, {
    send: by.direct(foreignWorker, foreignWorker, by.otherCustomer),
    ...{ declared: noCertificate, reaches: notAllowed },
  }),
  stage("6 nginx", fault.anyPeer, {
    attack: "a stranger with the zone's own client certificate claims the git host's address",
    send: by.direct(places.stranger, places.github, by.own),
    ...{ declared: "silence", stopped: notTheEdge, reaches: notAllowed },
  }),
  stage("6 nginx", fault.anyClient, {
    attack: "Cloudflare sends no client address",
    send: by.direct(by.edgeAddress, undefined, by.own),
    ...{ declared: noClient, reaches: notAllowed },
  }),
  stage(
    "7 systemd",
    fault.noList,
    {
      send: by.edge(attacks["7 systemd"].change(places)),
      ...{ declared: blocked, stopped: notAllowed, reaches: accepted },
    },
    {
      attack: "a process on the host connects to the receiver's socket",
      send: by.onTheHost,
      ...{ declared: "silence", reaches: accepted },
    },
  ),
  stage("8 receiver", fault.noSignatureCheck, {
    send: by.edge(attacks["8 receiver"].change(places)),
    ...{ declared: unauthorized, reaches: accepted },
  }),
];
