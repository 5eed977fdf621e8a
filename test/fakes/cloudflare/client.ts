/** A client of the fake API, as curl is one; a leading `Z` in a path means the zone's. */
import { type Api, apiToken } from "./api.ts";

export type Answer = {
  readonly status: number;
  readonly result: unknown;
  readonly errors: { code: number; message: string; source?: unknown }[];
};

export function clientOf(api: () => Api) {
  /** Throws SyntaxError if the answer is not JSON. */
  async function ask(method: string, path: string, body?: unknown, token: string | null = apiToken): Promise<Answer> {
    const { url, zone } = api();
    const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
    const content = typeof body === "string" ? body : JSON.stringify(body);
    const asked = { method, headers, ...(body === undefined ? {} : { body: content }) };
    const response = await fetch(url + path.replace(/^Z/, `/zones/${zone.id}`), asked);
    const text = await response.text();
    return { status: response.status, ...(text ? JSON.parse(text) : { result: null, errors: [] }) };
  }
  return {
    ask,
    /** The answer's result, believed to be a T. */
    result: async <T>(method: string, path: string, body?: unknown): Promise<T> =>
      (await ask(method, path, body)).result as T,
    /** "400 20217 'zone' is not a valid value …" */
    refused: async (method: string, path: string, body?: unknown): Promise<string> => {
      const { status, errors } = await ask(method, path, body);
      return `${status} ${errors[0]?.code} ${errors[0]?.message}`;
    },
  };
}
