/**
 * The attackers and their addresses: visitors of Cloudflare; clients that connect to the origin directly, without a
 * client certificate, with another customer's, or with the zone's own; and processes on the host. A delivery is valid
 * except for the change that the caller names.
 */
import { once } from "node:events";
import { createServer } from "node:https";
import { paths, units } from "../../infra/host/paths.ts";
import { loopback } from "../../infra/networks.ts";
import { createAuthority } from "../fakes/cloudflare/authority.ts";
import { type Change, delivery } from "../fakes/deliveries.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";
import { type Answer, type ClientTls, hostnameOf, originPort, type World } from "./world.ts";

export const places = { github: actors.github.v4[0], stranger: actors.stranger.v4[0] };
/** An address in Cloudflare's ranges from which the fake Cloudflare never connects. */
export const edgeAddress = actors.edge.v4[2];
/** The address of the impostor. */
export const impostor = actors.stranger.v4[1];
/** The socket for the deliveries of the hook "site": that of GitHub's ranges, or one for sources of its own. */
export const socketOfSite = (host: Host): Promise<string> =>
  host.read(
    `cd ${paths.units}; ls ${units.socket("github")} ${units.socket(`${places.github}-32`)} 2>/dev/null || true`,
  );
const receiverPort = async (host: Host): Promise<number> =>
  Number(
    await host.read(`sed -n 's/^ListenStream=.*:\\([0-9]*\\)$/\\1/p;T;q' ${paths.units}/${await socketOfSite(host)}`),
  );

/** `otherCustomer`: another customer's own certificate, signed by that customer's authority. */
export type Lab = { readonly host: Host; readonly world: World; readonly otherCustomer: ClientTls };
export type Send = (lab: Lab) => Promise<Answer>;

/** Makes what the attackers of a host have: certificates, and an impostor of the origin, which `close` ends. */
export async function startAttackers(host: Host, world: World): Promise<{ lab: Lab; close: () => void }> {
  const [unknown, customer] = await Promise.all([
    createAuthority("an unknown authority"),
    createAuthority("origin pulls of another customer"),
  ]);
  const selfMade = await unknown.issue(hostnameOf(host), [hostnameOf(host)]);
  // Answers every request with 200 and its name, like a false origin that collects deliveries.
  const server = createServer({ cert: selfMade.certificate, key: selfMade.key }, (_request, answer) => {
    answer.writeHead(200, { "x-served-by": "impostor" }).end();
  });
  await once(server.listen(originPort, impostor), "listening");
  const { certificate: cert, key } = await customer.issue("edge of example.net");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { lab: { host, world, otherCustomer: { cert, key } }, close };
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
export const otherCustomer: Client = ({ otherCustomer }) => otherCustomer;

/** Connects to the origin port directly. `client` is the value of CF-Connecting-IP, which Cloudflare would write. */
export const direct =
  (from: string, client: string | undefined, tls: Client): Send =>
  (lab) => {
    const headers: Change["headers"] = client === undefined ? {} : { "cf-connecting-ip": client };
    return lab.world.contact(lab.host, from, push(lab, { headers }), tls(lab), 5_000);
  };

/** Connects to the receiver's socket from a process on the host, by an unprivileged account. */
export const onTheHost: Send = async (lab) => {
  const { method, path, host, headers, body } = push(lab, {});
  const lines = Object.entries({ host, ...headers, expect: "" }).map(([name, value]) => `-H '${name}: ${value}'`);
  const to = `http://${loopback.v4}:${await receiverPort(lab.host)}${path}`;
  const curl = `curl --silent --include --max-time 5 -X ${method} ${lines.join(" ")} --data-binary @- ${to}`;
  const { code, stdout } = await lab.host.inside(`runuser -u guest -- ${curl}`, { stdin: body, check: false });
  const [head = "", text = ""] = stdout.split("\r\n\r\n");
  return {
    status: Number(head.split(" ")[1] ?? 0),
    servedBy: /^x-served-by: (\S+)/im.exec(head)?.[1] ?? "",
    headers: {},
    body: text,
    // curl's exit code 28 means that no answer came in time.
    ...(code !== 0 && { error: code === 28 ? "no answer" : `curl: exit ${code}` }),
  };
};
