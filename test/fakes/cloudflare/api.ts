/**
 * A fake of the part of Cloudflare's API that pushgate uses, in memory, for one zone. Cloudflare's own Pulumi provider
 * works against it through `cloudflare:baseUrl`. It rejects what the real API rejects: no token, a token without the
 * permission, more than the plan includes, a second ruleset in a phase, unknown fields, broken expressions.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { tried } from "../../../service/tried.ts";
import { type Authority, createAuthority } from "./authority.ts";
import { cacheRoutes } from "./cache.ts";
import { certificateRoutes } from "./certificates.ts";
import { graphqlRoutes } from "./graphql.ts";
import { zoneRoutes } from "./records.ts";
import { type Fields, Refusal, type Reply, type Route } from "./refusal.ts";
import { rulesetRoutes } from "./rulesets.ts";
import type { ZoneState } from "./zone.ts";

/** The permissions that pushgate's token needs; `Write` includes `Read`. */
export const permissions = [
  ...["Zone Read", "DNS Write", "Zone WAF Write", "Config Rules Write", "Origin Rules Write"],
  ...["Bot Management Write", "SSL and Certificates Write"],
] as const;

/** A token with all of `permissions`, of the form that the provider checks. */
export const apiToken = "stand-in-token-0123456789-0123456789-abcdef";

export type Seen = { readonly method: string; readonly path: string; readonly status: number; readonly body: Fields };
/** Not of a trial, which changes nothing. */
export const isWrite = ({ method, path }: Seen): boolean => method !== "GET" && !path.endsWith("dry_run=true");

/** An answer in place of the API's, for the next `times` requests that match. */
export type Fault = {
  readonly method?: string;
  readonly path?: RegExp;
  times: number;
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is, malformed if that is the fault. Left out: the API's envelope for the status. */
  readonly body?: string;
};

export type ApiOptions = {
  /** Used, not copied: a test that changes it makes drift. */
  readonly zone: ZoneState;
  /** Token -> permissions. Used, not copied. */
  readonly tokens?: Record<string, readonly string[]>;
  /** Signs origin certificates. Left out: one that is made and closed with the API. */
  readonly authority?: Authority;
};

export type Api = Awaited<ReturnType<typeof startApi>>;

const prefix = "/client/v4";

export async function startApi({ zone, ...options }: ApiOptions) {
  const tokens = options.tokens ?? { [apiToken]: permissions };
  const authority = options.authority ?? (await createAuthority("Origin CA of the fake Cloudflare"));
  const requests: Seen[] = [];
  const faults: Fault[] = [];
  const routes = [
    ...zoneRoutes(zone),
    ...rulesetRoutes(zone),
    ...certificateRoutes(zone, authority),
    ...graphqlRoutes(zone),
    ...cacheRoutes(zone),
  ].map(([method, path, permission, handle]: Route) => {
    const pattern = new RegExp(`^${path.replace(/:(\w+)/g, "(?<$1>[^/]+)")}$`);
    return { method, pattern, permission, handle };
  });

  async function answer({ method, headers }: IncomingMessage, url: URL, body: Fields | undefined): Promise<Reply> {
    const path = url.pathname.slice(prefix.length);
    const route = routes.find((one) => one.method === method && one.pattern.test(path));
    if (route === undefined) throw new Refusal(404, 7000, `No route for that URI: ${method} ${path}`);
    const params: Record<string, string> = { ...route.pattern.exec(path)!.groups };
    const held = granted(headers.authorization, tokens);
    const holds = (permission: string) =>
      held.includes(permission) || held.includes(permission.replace(/ Read$/, " Write"));
    const demand = (permission: string) => {
      if (!holds(permission)) throw new Refusal(403, 10000, "Authentication error");
    };
    if (route.permission !== undefined) demand(route.permission);
    if (params.zone !== undefined && params.zone !== zone.id)
      throw new Refusal(404, 7003, `Could not route to ${path}, perhaps your object identifier is invalid?`);
    if (body === undefined) throw new Refusal(400, 6007, "Malformed JSON in request body");
    return route.handle({ params, query: url.searchParams, body, demand, holds });
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://api");
    const body = parsed(await textOf(request));
    const send = (status: number, content: string, headers: Readonly<Record<string, string>> = {}) => {
      const path = url.pathname.slice(prefix.length) + url.search;
      requests.push({ method: request.method ?? "", path, status, body: body ?? {} });
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(content);
    };
    const isMeant = ({ method = request.method, path, times }: Fault) =>
      times > 0 && method === request.method && (path?.test(url.pathname) ?? true);
    const fault = faults.find(isMeant);
    if (fault) {
      fault.times--;
      const { status, headers } = fault;
      send(status, fault.body ?? envelope(new Refusal(status, 10013, "Please wait and try again")), headers);
      return;
    }
    try {
      const { status = 200, result, info, raw } = await answer(request, url, body);
      const ok = { success: true, errors: [], messages: [], result, ...(info ? { result_info: info } : {}) };
      send(status, status === 204 ? "" : JSON.stringify(raw ?? ok));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      send(error.status, envelope(error));
    }
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error: unknown) => {
      // A fault of the fake itself: 400, so that a client does not retry for minutes.
      response.writeHead(400).end(envelope(new Refusal(400, 0, `fake API: ${String(error)}`)));
    });
  });
  // As Cloudflare's. After Node's 5 s a slow program would send its next request into a connection that closes.
  server.keepAliveTimeout = 400_000;
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return {
    /** What `cloudflare:baseUrl` is set to. */
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`,
    ...{ zone, authority, requests, faults, tokens },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      if (options.authority === undefined) await authority.close();
    },
  };
}

/** The token's permissions; throws what the API answers to no token and to a wrong one. */
function granted(header: string | undefined, tokens: Readonly<Record<string, readonly string[]>>): readonly string[] {
  if (header === undefined) throw new Refusal(400, 9106, "Missing X-Auth-Key, X-Auth-Email or Authorization headers");
  const token = /^Bearer (.+)$/.exec(header)?.[1];
  if (token === undefined) throw new Refusal(400, 6003, "Invalid request headers");
  if (!Object.hasOwn(tokens, token)) throw new Refusal(401, 1000, "Invalid API Token");
  return tokens[token]!;
}

const envelope = ({ code, message, pointer }: Refusal): string => {
  const error = { code, message, ...(pointer ? { source: { pointer } } : {}) };
  return JSON.stringify({ result: null, success: false, errors: [error], messages: [] });
};

/** undefined for what is no JSON object. */
function parsed(text: string): Fields | undefined {
  if (text === "") return {};
  const value = tried((): unknown => JSON.parse(text));
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}
