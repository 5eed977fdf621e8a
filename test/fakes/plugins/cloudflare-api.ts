/**
 * The HTTP client of the fake cloudflare plugin, as the real provider's: a bearer token, the API's envelope, a retry
 * after 429, snake_case on the wire and camelCase in the program. It has no default address, so a test that forgets
 * `cloudflare:baseUrl` cannot reach the real Cloudflare.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { StatusError } from "../status-error.ts";
import type { Props } from "./provider.ts";
import { perConnection } from "./serve.ts";

export class ApiError extends StatusError {}

const configured = perConnection(() => ({ token: "", base: "" }));

export function configureApi(config: Props): void {
  Object.assign(configured(), {
    token: String(config.apiToken ?? process.env.CLOUDFLARE_API_TOKEN ?? ""),
    base: String(config.baseUrl ?? process.env.CLOUDFLARE_BASE_URL ?? "").replace(/\/$/, ""),
  });
}

/** Sends one request and returns its `result` in camelCase. Throws ApiError with the API's codes and messages. */
export async function call(method: string, path: string, body?: Props): Promise<unknown> {
  const { token, base } = configured();
  if (base === "")
    throw new Error("The fake cloudflare plugin has no address. Set cloudflare:baseUrl to that of the fake API.");
  const url = `${base}/${path}`;
  const where = `${method} ${JSON.stringify(url)}`;
  const headers = { "content-type": "application/json", ...(token !== "" && { authorization: `Bearer ${token}` }) };
  const sent = { method, headers, ...(body !== undefined && { body: JSON.stringify(snake(body)) }) };
  const request = () => fetch(url, sent);
  // The server may close an idle connection while a request arrives on it.
  const response = await request()
    .catch(request)
    .catch((error: Error) => {
      throw new ApiError(0, `failed to make http request: ${where}: ${error.cause ?? error.message}`);
    });
  const after = response.headers.get("retry-after");
  if (response.status === 429 && after !== null) {
    await sleep(Number(after) * 1000);
    return call(method, path, body);
  }
  const text = await response.text();
  const { ok, status, statusText } = response;
  if (!ok) throw new ApiError(status, `failed to make http request: ${where}: ${status} ${statusText} ${text}`);
  return text === "" ? undefined : (camel(JSON.parse(text)) as Props).result;
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
