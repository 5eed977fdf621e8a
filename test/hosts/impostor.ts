/** Impostors: a server that poses as the origin, and clients with certificates that are not the zone's. */
import { createServer } from "node:https";
import { createAuthority, type Pair } from "../fakes/cloudflare/authority.ts";
import type { ClientTls } from "./world.ts";

/** Starts a server that answers every request with 200 and its name, like a false origin that collects deliveries. */
export async function startImpostor(host: string, port: number, { certificate, key }: Pair): Promise<() => void> {
  const server = createServer({ cert: certificate, key }, (_request, answer) => {
    answer.writeHead(200, { "x-served-by": "impostor" }).end();
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  return () => {
    server.closeAllConnections();
    server.close();
  };
}

export type Certificates = {
  /** Makes a certificate for the hook hostname, signed by the impostor's own authority. */
  readonly selfMade: (name: string) => Promise<Pair>;
  /** Another customer's own certificate, signed by that customer's authority. */
  readonly otherCustomer: ClientTls;
};

export async function otherPeoplesCertificates(): Promise<Certificates> {
  const [impostor, customer] = await Promise.all([
    createAuthority("an unknown authority"),
    createAuthority("origin pulls of another customer"),
  ]);
  const { certificate, key } = await customer.issue("edge of example.net");
  return { selfMade: (name) => impostor.issue(name, [name]), otherCustomer: { cert: certificate, key } };
}
