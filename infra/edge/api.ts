/**
 * The edge's API without the provider: for what a provider has no word for. A dry run, whether a certificate has been
 * rolled out, and what exists that no state knows of. Nothing in here writes but through `dry_run`.
 */
import { setTimeout as sleep } from "node:timers/promises";

/** As the provider is configured: `cloudflare:baseUrl` and `cloudflare:apiToken`. */
export type EdgeAccess = { readonly baseUrl: string; readonly token: string };

/** What the API said instead of a result. `code` is its own, 0 where it gave none. */
export class ApiRefusal extends Error {
  readonly status: number;
  readonly code: number;
  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
  /** Whether it is the token that lacks something. */
  get forbids(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

type Envelope = {
  readonly success?: boolean;
  readonly result?: unknown;
  readonly errors?: readonly { readonly code?: number; readonly message?: string }[];
  readonly result_info?: { readonly page?: number; readonly total_pages?: number };
};

export type EdgeApi = ReturnType<typeof edgeApi>;

const tries = 4;
const busy = (status: number): boolean => status === 429 || status >= 500;

export function edgeApi({ baseUrl, token }: EdgeAccess) {
  async function send(method: string, path: string, body?: object): Promise<Envelope> {
    const url = `${baseUrl.replace(/\/$/, "")}/${path}`;
    for (let left = tries - 1; ; left--) {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const asked = { method, headers, signal: AbortSignal.timeout(20_000), redirect: "error" } as const;
      let response: Response;
      let text: string;
      try {
        response = await fetch(url, body === undefined ? asked : { ...asked, body: JSON.stringify(body) });
        text = await response.text();
      } catch (error) {
        const cause = error instanceof Error ? String(error.cause ?? error.message) : String(error);
        throw new ApiRefusal(0, 0, `no answer from ${new URL(url).host} (${cause})`);
      }
      if (busy(response.status) && left > 0) {
        const asked = Number(response.headers.get("retry-after") ?? Number.NaN);
        await sleep(1000 * (asked >= 0 && asked < 60 ? asked : 2));
        continue;
      }
      return read(response.status, text);
    }
  }
  return {
    /** The answer's `result`, believed to be a T; undefined for 404. Throws ApiRefusal. */
    async get<T>(path: string): Promise<T | undefined> {
      try {
        return (await send("GET", path)).result as T;
      } catch (error) {
        if (error instanceof ApiRefusal && error.status === 404) return undefined;
        throw error;
      }
    },
    /** Every page of a list. `path` has no query of its own but filters. */
    async list<T>(path: string): Promise<T[]> {
      const all: T[] = [];
      for (let page = 1; ; page++) {
        const answer = await send("GET", `${path}${path.includes("?") ? "&" : "?"}page=${page}&per_page=50`);
        all.push(...((answer.result ?? []) as T[]));
        if (page >= (answer.result_info?.total_pages ?? 1)) return all;
      }
    },
    /** Whether a write would be taken: nothing is written. Throws ApiRefusal with what the write would be told. */
    async dryRun(method: "POST" | "PUT", path: string, body: object): Promise<void> {
      await send(method, `${path}?dry_run=true`, body);
    },
  };
}

/** Cloudflare quotes a rejected expression whole, which may be thousands of characters long. */
const shortened = (message: string): string => message.replace(/'([^']{80})[^']{80,}'/g, "'$1…'");

function read(status: number, text: string): Envelope {
  let envelope: Envelope;
  try {
    envelope = text === "" ? {} : (JSON.parse(text) as Envelope);
  } catch {
    throw new ApiRefusal(status, 0, `${status} and no JSON`);
  }
  if (status < 400 && envelope.success !== false) return envelope;
  const errors = envelope.errors ?? [];
  const said = errors.map(({ code, message = "" }) => `${shortened(message)} (${code})`).join("; ");
  throw new ApiRefusal(status, errors[0]?.code ?? 0, `${status} ${said}`.trim());
}
