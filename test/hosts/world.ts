/**
 * A world is everything that a delivery passes through: throwaway hosts, Pulumi's engine with this program, the fake
 * Cloudflare with its API and data plane, and git hosts as addresses of the lab. Call buildWorld inside withLab.
 *
 *   const world = await buildWorld([host]);
 *   await world.stack.up();
 *   const { status, servedBy } = await world.deliver();
 */
import { request as httpsRequest, type RequestOptions } from "node:https";
import { isIPv6 } from "node:net";
import { type Workspace, type WorkspaceOptions, workspace } from "../engine/engine.ts";
import { type Api, apiToken, permissions, startApi } from "../fakes/cloudflare/api.ts";
import { type Edge, startEdge } from "../fakes/cloudflare/dataplane.ts";
import { emptyZone } from "../fakes/cloudflare/zone.ts";
import { type Change, type Delivery, delivery } from "../fakes/deliveries.ts";
import type { Got } from "../fakes/webhook-api.ts";
import { secrets } from "../fixtures.ts";
import type { Host } from "./lab/host.ts";
import { actors } from "./lab/net.ts";

/** `error`: the reason of status 0. */
export type Answer = Got & { readonly servedBy: string; readonly error?: string };

export type World = Awaited<ReturnType<typeof worldAround<Workspace>>>;

export type ClientTls = { readonly cert: string; readonly key: string };

/** The addresses at which the fake Cloudflare accepts visitors. */
export const edgeFront = { v4: actors.edge.v4[0], v6: actors.edge.v6[0] } as const;
/** The addresses from which the fake Cloudflare connects to origins. */
const edgeBack = { v4: actors.edge.v4[1], v6: actors.edge.v6[1] } as const;

export const originPort = 8443;
export const zoneName = "example.org";

/** Without these headers the fake Cloudflare takes a visitor for a bot. */
const browser = {
  accept: "text/html",
  "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
};

/** The hook hostname of a host. */
export const hostnameOf = (host: Pick<Host, "name">): string => `hooks-${host.name}.${zoneName}`;

export type WorldOptions = Pick<WorkspaceOptions, "config" | "path" | "starts" | "passphrase"> & {
  /** The hooks' secrets and Cloudflare's API token, if a test needs its own. */
  readonly secrets?: Readonly<Record<string, unknown>>;
  readonly token?: string;
};

export const hostEntry = (host: Host, change: Readonly<Record<string, unknown>> = {}): Record<string, unknown> => ({
  name: host.name,
  ssh: `root@${host.alias}`,
  address: host.address,
  ...(host.address6 !== undefined && { address6: host.address6 }),
  hostname: hostnameOf(host),
  originPort,
  ...change,
});

export async function buildWorld(
  hosts: readonly Host[],
  { config, secrets: own = secrets, token = apiToken, ...more }: WorldOptions = {},
): Promise<World> {
  const api = await startApi({ zone: emptyZone(zoneName, "pro"), tokens: { [token]: permissions } });
  const stack = await workspace({
    ...more,
    config: {
      "cloudflare:baseUrl": api.url,
      "pushgate:zone": zoneName,
      "pushgate:edge": { plan: "pro" },
      "pushgate:hosts": hosts.map((host) => hostEntry(host)),
      "pushgate:hooks": [
        { name: "site", gitHost: "github", repository: "https://github.com/example/site.git", branch: "main" },
        {
          name: "docs",
          gitHost: "forgejo",
          sources: [`${actors.gitlab.v4[0]}/32`],
          repository: "https://git.example.net/example/docs.git",
          branch: "main",
        },
      ],
      ...config,
    },
    secrets: { "cloudflare:apiToken": token, "pushgate:secrets": own },
  });
  return worldAround(hosts, api, stack);
}

/** Starts the fake Cloudflare's data plane. Several test files run at once, so each has its own on a port of its own. */
export const startFront = (api: Api, port = 0): Promise<Edge> =>
  startEdge({
    zone: api.zone,
    originAuthorities: [api.authority.certificate],
    listen: [edgeFront.v4, edgeFront.v6].map((host) => ({ host, port })),
    edgeSource: edgeBack,
    // Longer than a busy host takes for a handshake, which Cloudflare would give up with 525.
    connectTimeout: 5_000,
  });

/** Starts the fake Cloudflare's data plane for an existing API and stack, and returns the clients of both. */
export async function worldAround<Stack extends { close(): unknown }>(hosts: readonly Host[], api: Api, stack: Stack) {
  const edge = await startFront(api);
  const first = hosts[0];
  /** Sends a delivery from its `source` to the fake Cloudflare: a valid push from GitHub, except for `change`. */
  const deliver = (change: Change = {}): Promise<Answer> =>
    send(delivery({ source: actors.github.v4[0], ...(first && { host: hostnameOf(first) }), ...change }));
  /** Sends a delivery of any git host from its `source` to the fake Cloudflare. */
  const send = (sent: Delivery): Promise<Answer> => {
    const to = edge.addresses[isIPv6(sent.source) ? 1 : 0]!;
    return request(sent, { ...to, localAddress: sent.source, ca: edge.certificate });
  };
  /** Sends a browser's request for a hostname of the zone to the fake Cloudflare. */
  const visit = (host: string, path = "/"): Promise<Answer> => {
    const source = actors.stranger.v4[0];
    const sent = { method: "GET", host, path, source, headers: browser, body: Buffer.alloc(0) };
    return request(sent, { ...edge.addresses[0]!, localAddress: source, ca: edge.certificate });
  };
  /** Connects directly to the origin port, from an address of the lab. */
  const contact = (host: Host, from: string, sent: Delivery, tls?: ClientTls, timeout = 15_000): Promise<Answer> => {
    const to = { host: isIPv6(from) ? host.address6! : host.address, port: originPort, localAddress: from, timeout };
    return request(sent, { ...to, rejectUnauthorized: false, ...tls });
  };
  /** The zone's own client certificate, which only Cloudflare holds. */
  const client = (): ClientTls => {
    const { certificate: cert, private_key: key } = api.zone.origin_pulls.hostname_certificates.at(-1)!;
    return { cert, key };
  };
  /** Names of the files in the spool of a hook. */
  const spooled = async (host: Host, hook = "site"): Promise<string[]> =>
    // find exits with 1 where the receiver renames a file meanwhile, and lists the others all the same.
    (await host.read(`find /var/spool/pushgate/${hook} -type f ! -name '.*' -printf '%f\\n' 2>/dev/null || true`))
      .split("\n")
      .filter(Boolean);
  const close = async () => {
    await edge.close();
    await api.close();
    await stack.close();
  };
  return { hosts, api, edge, stack, deliver, send, visit, contact, client, spooled, close };
}

/**
 * Sends one request on a new connection. A failed connection resolves with status 0. The fake Cloudflare always answers;
 * the time limit only ends a test that hangs.
 */
export function request({ method, path, host, headers, body }: Delivery, to: RequestOptions): Promise<Answer> {
  return new Promise((resolve) => {
    const failed = (error: string): void => resolve({ status: 0, servedBy: "", headers: {}, body: "", error });
    const sent = httpsRequest(
      { timeout: 30_000, ...to, method, path, servername: host, headers: { host, ...headers }, agent: false },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        answer.on("end", () =>
          resolve({
            status: answer.statusCode ?? 0,
            servedBy: String(answer.headers["x-served-by"] ?? ""),
            headers: answer.headers,
            body: text,
          }),
        );
      },
    );
    sent.on("timeout", () => sent.destroy(new Error("no answer")));
    sent.on("error", (error) => failed(error.message));
    sent.end(body);
  });
}
