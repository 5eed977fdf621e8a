/**
 * Reads from the text of the rendered nginx server how it answers a request of the demo, in nginx's order: certificate,
 * location, upstream. test/infra/host/proxy.test.ts and the host suite test a real nginx, which has more answers.
 */
import { containsCidr } from "cidr-tools";

type Arrival = {
  readonly peer: string;
  /** Whether the peer shows a certificate of this zone's own CA. */
  readonly ownCertificate: boolean;
  /** In CF-Connecting-IP. */
  readonly client: string;
  readonly path: string;
};

const directive = (text: string, name: string): string[] =>
  [...text.matchAll(new RegExp(`^\\s*${name} ([^;]+);`, "gm"))].map((match) => match[1]!);

/** Its own answer, or where it passes the request: the loopback port and the address it binds to. */
export function proxyPasses(text: string, arrival: Arrival): { status: number } | { port: number; bind: string } {
  if (directive(text, "ssl_verify_client")[0] === "on" && !arrival.ownCertificate) return { status: 400 };
  // nginx takes the address from the header only if it trusts the peer.
  const client = containsCidr(directive(text, "set_real_ip_from"), arrival.peer) ? arrival.client : arrival.peer;
  const [, location] = text.split(`location = ${arrival.path} {`);
  if (location === undefined) return { status: 404 };
  const port = Number(/:(\d+)$/.exec(directive(location, "proxy_pass")[0] ?? "")?.[1]);
  const transparent = directive(text, "proxy_bind")[0]?.includes("transparent") ?? false;
  return { port, bind: transparent ? client : "the proxy" };
}
