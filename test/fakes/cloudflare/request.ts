/**
 * One request as Cloudflare sees it, and the fields that a rule may read. Header names are lower case and the path is
 * normalised before any rule runs; the origin gets what the visitor sent (zone default: scope "incoming", type
 * "cloudflare"), so a spelling that only normalises to a declared path passes the rules and arrives unnormalised.
 */
import type { Plan } from "../../../infra/config/settings.ts";

export type EdgeRequest = {
  readonly source: string;
  readonly method: string;
  /** Without a port. */
  readonly host: string;
  /** Path and query as sent. */
  readonly target: string;
  /** TLS between visitor and Cloudflare; true by default. */
  readonly ssl?: boolean;
  /** Names in any case; a list for a header that came more than once. */
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  /** Whether Cloudflare detects a program. Left out: true for a client that does not call itself a browser. */
  readonly automated?: boolean;
  /** The body trips the managed WAF rules, as a diff in a commit message may. */
  readonly attackLike?: boolean;
  /** Requests this source has made in a rate rule's current period, this one included. */
  readonly counted?: (ref: string) => number;
};

export const headerValues = ({ headers }: EdgeRequest, name: string): readonly string[] =>
  Object.entries(headers).flatMap(([key, value]) => (key.toLowerCase() === name ? value : []));

export const isAutomated = (request: EdgeRequest): boolean =>
  request.automated ?? !/^Mozilla\//.test(headerValues(request, "user-agent")[0] ?? "");

/** Backslashes and runs of slashes become one slash, unreserved characters are decoded, dot segments removed. */
export function normalisedPath(path: string): string {
  const decoded = path
    .replace(/%([0-9a-f]{2})/gi, (encoded, hex: string) => {
      const character = String.fromCharCode(Number.parseInt(hex, 16));
      return /[A-Za-z0-9._~-]/.test(character) ? character : encoded.toUpperCase();
    })
    .replace(/[\\/]+/g, "/");
  const kept: string[] = [];
  const segments = decoded.split("/").slice(1);
  for (const [index, segment] of segments.entries()) {
    const dots = segment === "." || segment === "..";
    if (segment === "..") kept.pop();
    if (!dots) kept.push(segment);
    else if (index === segments.length - 1) kept.push("");
  }
  return `/${kept.join("/")}`;
}

/** The types the language knows; `Array<…>` is indexed by a number or `[*]`, `Map<…>` by a string. */
export type Type = "Bool" | "Int" | "Bytes" | "Ip" | `Array<${"Bool" | "Int" | "Bytes"}>` | "Map<Array<Bytes>>";
export type Value = boolean | number | string | readonly Value[] | ReadonlyMap<string, Value>;

export type Field = {
  readonly type: Type;
  /** undefined: the request has no such thing. */
  readonly read: (request: EdgeRequest) => Value | undefined;
  readonly needs?: { readonly plan: Plan; readonly words: string };
};

export const fields: Readonly<Record<string, Field>> = {
  ssl: { type: "Bool", read: (r) => r.ssl ?? true },
  "http.host": { type: "Bytes", read: (r) => r.host.toLowerCase() },
  "http.user_agent": { type: "Bytes", read: (r) => headerValues(r, "user-agent")[0] ?? "" },
  "http.request.method": { type: "Bytes", read: (r) => r.method },
  "http.request.uri.path": { type: "Bytes", read: (r) => normalisedPath(r.target.replace(/\?.*/s, "")) },
  "http.request.uri.query": { type: "Bytes", read: (r) => /\?(.*)/s.exec(r.target)?.[1] ?? "" },
  "http.request.headers": {
    type: "Map<Array<Bytes>>",
    read: (r) =>
      new Map(Object.keys(r.headers).map((name) => [name.toLowerCase(), headerValues(r, name.toLowerCase())])),
  },
  "ip.src": { type: "Ip", read: (r) => r.source },
  "cf.bot_management.score": {
    ...{ type: "Int", read: (r) => (isAutomated(r) ? 1 : 90) },
    needs: { plan: "enterprise-bots", words: "a Bot Management plan" },
  },
};
