/** Who else may sit on the other side: a machine that poses as the origin, and holders of certificates not ours. */
import { createServer } from "node:https";
import { createAuthority, type Pair } from "../fakes/cloudflare/authority.ts";
import type { ClientTls } from "./world.ts";

export const asClient = ({ certificate, key }: Pair): ClientTls => ({ cert: certificate, key });

/** Answers everything with 200 and its name, as an origin that wants the delivery would. */
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
  /** By an authority of the impostor's own, with our name in it. */
  readonly selfMade: (name: string) => Promise<Pair>;
  /** What the edge shows for every zone that has none of its own; another customer's own is signed by another too. */
  readonly shared: ClientTls;
  readonly otherCustomer: ClientTls;
};

export async function otherPeoplesCertificates(): Promise<Certificates> {
  const [impostor, vendor, customer] = await Promise.all([
    createAuthority("nobody we know"),
    createAuthority("origin pulls of the vendor"),
    createAuthority("origin pulls of another customer"),
  ]);
  return {
    selfMade: (name) => impostor.issue(name, [name]),
    shared: asClient(await vendor.issue("origin-pull.example.net")),
    otherCustomer: asClient(await customer.issue("edge of example.net")),
  };
}
