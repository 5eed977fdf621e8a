/**
 * Reads from the text of the rendered nginx server how it answers a request, in nginx's order: certificate, conditions
 * of the server, location, method, size. test/infra/host/proxy.test.ts and the host suite test a real nginx.
 */
import { containsCidr } from "cidr-tools";

type Arrival = {
  readonly peer: string;
  /** Whether the peer shows a certificate of this zone's own CA. */
  readonly ownCertificate: boolean;
  /** In CF-Connecting-IP. */
  readonly client: string;
  readonly method: string;
  readonly path: string;
  readonly bodyBytes: number;
};

const directive = (text: string, name: string): string[] =>
  [...text.matchAll(new RegExp(`^\\s*${name} ([^;]+);`, "gm"))].map((match) => match[1]!);

const block = (text: string, head: string): string | undefined => {
  const start = text.indexOf(`${head} {`);
  if (start < 0) return undefined;
  const indent = /[ ]*$/.exec(text.slice(0, start))![0];
  return text.slice(start, text.indexOf(`\n${indent}}`, start));
};

/** Its own answer, or where it passes the request: the loopback port and the address it binds to. */
export function proxyPasses(text: string, arrival: Arrival): { status: number } | { port: number; bind: string } {
  const server = text.slice(text.indexOf("ssl_certificate "));
  if (directive(server, "ssl_verify_client")[0] === "on" && !arrival.ownCertificate) return { status: 400 };
  // nginx takes the address from the header only if it trusts the peer.
  const trusted = containsCidr(directive(server, "set_real_ip_from"), arrival.peer);
  const edge = block(text, "geo $realip_remote_addr $pushgate_peer_is_edge") ?? "";
  const edgeRanges = [...edge.matchAll(/^\s*(\S+) 1;/gm)].map((match) => match[1]!);
  if (server.includes("if ($pushgate_peer_is_edge = 0)") && !containsCidr(edgeRanges, arrival.peer))
    return { status: 403 };
  const client = trusted ? arrival.client : arrival.peer;
  const location = block(server, `location = ${arrival.path.split("?")[0]}`);
  if (location === undefined) return { status: 404 };
  const declared = /if \(\$request_method != (\w+)\)/.exec(location)?.[1];
  if (declared !== undefined && arrival.method !== declared) return { status: 405 };
  const answers = directive(location.replace(/if \([^}]*\}/, ""), "return")[0];
  if (answers !== undefined) return { status: Number.parseInt(answers, 10) };
  if (arrival.bodyBytes > Number(directive(server, "client_max_body_size")[0])) return { status: 413 };
  const port = Number(/:(\d+)$/.exec(directive(location, "proxy_pass")[0] ?? "")?.[1]);
  const transparent = directive(server, "proxy_bind")[0]?.includes("transparent") ?? false;
  return { port, bind: transparent ? client : "the proxy" };
}
