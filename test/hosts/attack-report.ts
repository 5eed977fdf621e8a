/** Describes how an attack ended, in a few words. */
import type { Edge } from "../fakes/cloudflare/dataplane.ts";
import type { Answer } from "./world.ts";

/** "<status> <layer>: <reason>", of Cloudflare the product and its action; "silence" if no connection was made. */
export function summary({ status, servedBy, headers, body, error }: Answer, edge: Edge): string {
  if (status === 0) return error === "no answer" ? "silence" : `broken off: ${error}`;
  const who = servedBy.replace(/^pushgate-/, "");
  if (who === "proxy" || who === "receiver") {
    const { error: fault, status: word } = JSON.parse(body) as { error?: string; status?: string };
    return `${status} ${who}: ${fault ?? word}`;
  }
  if (who !== "") return `${status} ${who}`;
  const event = edge.events.find(({ ray }) => ray === headers["cf-ray"]);
  if (event === undefined) return `${status} ${String(headers.server).split("/")[0]}`;
  // The word "edge" is the layer's name in this text: matrix.ts and the tests compare it.
  if (event.decidedBy === undefined) return `${status} edge`;
  const { source, action } = event.decidedBy;
  return `${status} edge: ${source} ${action}`;
}

/** The summary of each layer's rejection, and of the receiver's acceptance. */
export const answers = {
  blocked: "403 edge: firewallCustom block",
  challenged: "403 edge: sbfm managed_challenge",
  noCertificate: "400 proxy: bad request, or no client certificate of this zone",
  notTheEdge: "403 proxy: the request does not come from Cloudflare",
  noClient:
    "403 proxy: Cloudflare sent no single client address: see whether a transform rule changes CF-Connecting-IP",
  notAllowed: "403 proxy: source not allowed",
  unauthorized: "401 receiver: Unauthorized",
  accepted: "202 receiver: accepted",
} as const;
