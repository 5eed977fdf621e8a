/**
 * The HTTP client of the fake cloudflare plugin, as the real provider's: a bearer token, the API's envelope, retries,
 * snake_case on the wire and camelCase in the program. It has no default address, so a test that forgets
 * `cloudflare:baseUrl` cannot reach the real Cloudflare.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Props, Refusal } from "./provider.ts";
import { perConnection } from "./serve.ts";

/** A request that failed after all retries. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const retries = 10;

const configured = perConnection(() => ({ token: "", base: "" }));

/** The real provider's check of the configuration: the characters of a token, not its length. */
export function configFaults({ apiToken }: Props): Refusal[] {
  if (typeof apiToken !== "string" || /^[0-9A-Za-z\-_]+$/.test(apiToken)) return [];
  const reason = "API tokens must only contain characters a-z, A-Z, 0-9, hyphens and underscores";
  return [{ property: "apiToken", reason }];
}

export function configureApi(config: Props): void {
  Object.assign(configured(), {
    token: String(config.apiToken ?? process.env.CLOUDFLARE_API_TOKEN ?? ""),
    base: String(config.baseUrl ?? process.env.CLOUDFLARE_BASE_URL ?? "").replace(/\/$/, ""),
  });
}

/** Seconds to wait before a retry; undefined if the answer is final. */
function pause(response: Response | undefined, attempt: number): number | undefined {
  const backoff = Math.min(2 * 2 ** attempt, 30);
  if (response === undefined) return backoff;
  if (![408, 409, 429].includes(response.status) && response.status < 500) return undefined;
  const after = Number(response.headers.get("retry-after") ?? Number.NaN);
  return after >= 0 && after < 60 ? after : backoff;
}

type Envelope = { readonly result: unknown; readonly resultInfo?: { readonly cursors?: { readonly after?: string } } };

/** Sends one request and returns its `result` in camelCase. Throws ApiError with the API's codes and messages. */
export async function call(method: string, path: string, body?: Props): Promise<unknown> {
  return (await send(method, path, body))?.result;
}

/** Reads all pages of a list that has a cursor. */
export async function callForAll(path: string): Promise<unknown[]> {
  const all: unknown[] = [];
  for (let cursor = ""; ; ) {
    const page = await send("GET", cursor === "" ? path : `${path}?cursor=${encodeURIComponent(cursor)}`);
    all.push(...((page?.result ?? []) as unknown[]));
    cursor = page?.resultInfo?.cursors?.after ?? "";
    if (cursor === "") return all;
  }
}

async function send(method: string, path: string, body?: Props): Promise<Envelope | undefined> {
  const { token, base } = configured();
  if (base === "")
    throw new Error("The fake cloudflare plugin has no address. Set cloudflare:baseUrl to that of the fake API.");
  const url = `${base}/${path}`;
  const where = `${method} ${JSON.stringify(url)}`;
  const headers = { "content-type": "application/json", ...(token !== "" && { authorization: `Bearer ${token}` }) };
  const sent = { method, headers, ...(body !== undefined && { body: JSON.stringify(snake(body)) }) };
  for (let attempt = 0; ; attempt++) {
    let broken = "";
    const response = await fetch(url, sent).catch((error: Error) => {
      broken = String(error.cause ?? error.message);
    });
    const text = (await response?.text()) ?? "";
    const seconds = attempt < retries ? pause(response ?? undefined, attempt) : undefined;
    if (seconds !== undefined) {
      await sleep(seconds * 1000);
      continue;
    }
    if (!response) throw new ApiError(0, `failed to make http request: ${where}: ${broken}`);
    const { ok, status, statusText } = response;
    if (!ok) throw new ApiError(status, `failed to make http request: ${where}: ${status} ${statusText} ${text}`);
    if (text === "") return undefined;
    try {
      return camel(JSON.parse(text)) as Envelope;
    } catch {
      throw new ApiError(status, `failed to parse the answer to ${where}: ${text.slice(0, 200)}`);
    }
  }
}

const respell = (rename: (key: string) => string) =>
  function walk(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(walk);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [rename(key), walk(inner)]));
  };

// Keys in neither spelling are data, such as header names with a hyphen, and stay as they are.
const snake = respell((key) =>
  /^[a-z][A-Za-z0-9]*$/.test(key) ? key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : key,
);
const camel = respell((key) =>
  /^[a-z][a-z0-9_]*$/.test(key) ? key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()) : key,
);
