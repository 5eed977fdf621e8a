/** A small client of Cloudflare's API: for all that the program reads, and what the provider cannot do (decision 009). */
import { setTimeout as sleep } from "node:timers/promises";
import { exchange, ofApi } from "../../service/exchange.ts";
import { pauseOf } from "../../service/pause.ts";
import { printable } from "../../service/printable.ts";
import { tried } from "../../service/tried.ts";

export type CloudflareAccess = { readonly baseUrl: string; readonly token: string };

export class ApiError extends Error {
  readonly status: number; // Of HTTP; 0 without an answer
  readonly code: number | undefined; // Of Cloudflare's first error; absent in an answer that is not its API's
  constructor(status: number, message: string, code?: number) {
    super(printable(message));
    this.status = status;
    this.code = code;
  }
}

/** `what` failed, why, and what to do. `permission`: as on the dashboard's page for tokens. */
export function explained(what: string, permission: string, error: unknown): string {
  if (!(error instanceof ApiError)) throw error;
  const { status } = error;
  const isRejected = status >= 400 && status < 500 && status !== 429 && error.code !== undefined;
  const remedy = isRejected
    ? `Check that cloudflare:apiToken is valid, belongs to this zone and has the permission ${permission}.`
    : status === 429 || status >= 500
      ? "Run it again in a few minutes."
      : "Check that this computer reaches Cloudflare's API, and run it again.";
  return `${what}: ${error.message}. ${remedy}`;
}

type Envelope = {
  readonly success?: boolean;
  readonly result?: unknown;
  readonly data?: unknown; // in place of a result, where GraphQL answers
  readonly errors?: readonly { readonly code?: number; readonly message?: string }[] | null;
  readonly result_info?: { readonly total_pages?: number };
};

const tries = 4;
const usualPause = 2_000; // ms

export type CloudflareApi = ReturnType<typeof cloudflareApi>;

/** Its functions throw ApiError. With a deadline, which covers all requests of the client, none is repeated. */
export function cloudflareApi({ baseUrl, token }: CloudflareAccess, deadline?: AbortSignal) {
  const headers = { authorization: `Bearer ${token}` };

  async function send(method: string, path: string, body?: object): Promise<Envelope> {
    const url = `${baseUrl.replace(/\/$/, "")}/${path}`;
    for (let left = deadline === undefined ? tries - 1 : 0; ; left--) {
      const outgoing = { url, method, headers, body: JSON.stringify(body) };
      const answer = await exchange(outgoing, { ...ofApi, signal: deadline }).catch((error: Error) => {
        throw new ApiError(0, `no answer from ${new URL(url).host} (${error.message})`);
      });
      const { status, text } = answer;
      const busy = status === 429 || status >= 500;
      if (!busy || left === 0) return read(status, text);
      const pause = pauseOf(answer) ?? usualPause;
      await sleep(pause < 60_000 ? pause : usualPause);
    }
  }

  return {
    /** undefined for a 404 of Cloudflare's own. */
    async get<T>(path: string): Promise<T | undefined> {
      const answer = await send("GET", path).catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status !== 404 || error.code === undefined) throw error;
      });
      return answer?.result as T | undefined;
    },
    async list<T>(path: string): Promise<T[]> {
      const all: T[] = [];
      for (let page = 1, pages = 1; page <= pages; page++) {
        const answer = await send("GET", `${path}${path.includes("?") ? "&" : "?"}page=${page}&per_page=50`);
        all.push(...((answer.result ?? []) as T[]));
        pages = answer.result_info?.total_pages ?? 1;
      }
      return all;
    },
    put: (path: string, body: object) => send("PUT", path, body),
    query: async <T>(query: string, variables: Readonly<Record<string, unknown>>) =>
      (await send("POST", "graphql", { query, variables })).data as T,
    /** Writes nothing, and throws what Cloudflare would answer to the write. */
    dryRun: (method: "POST" | "PUT", path: string, body: object) => send(method, `${path}?dry_run=true`, body),
  };
}

export type Zone = {
  readonly id: string;
  readonly name: string;
  readonly status?: string;
  readonly plan?: { readonly legacy_id?: string };
};

/** The active one where several accounts have the name; undefined if the token can read none. */
export async function zoneNamed(api: CloudflareApi, name: string): Promise<Zone | undefined> {
  const found = await api.list<Zone>(`zones?name=${encodeURIComponent(name)}`);
  return found.find(({ status }) => status === "active") ?? found[0];
}

/** Cloudflare quotes a rejected expression whole, which may be thousands of characters long. */
const shortened = (message: string): string => message.replace(/'([^']{80})[^']{80,}'/g, "'$1…'");

function read(status: number, text: string): Envelope {
  const envelope: Envelope | undefined = text === "" ? {} : tried(() => JSON.parse(text));
  if (envelope === undefined) throw new ApiError(status, `${status} and no JSON`);
  // GraphQL may answer 200 to a query that it rejects, and its errors have no code.
  const faults = envelope.errors ?? [];
  if (status < 300 && envelope.success !== false && (envelope.success === true || faults.length === 0)) return envelope;
  const errors = faults.map(({ code, message = "" }) => shortened(message) + (code === undefined ? "" : ` (${code})`));
  throw new ApiError(status, `${status} ${errors.join("; ")}`.replace(/\s+/g, " ").trim(), faults[0]?.code);
}
