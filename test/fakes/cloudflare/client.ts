/** A client of the fake API, as curl is one; a leading `Z` in a path means the zone's. */
import { type Api, apiToken } from "./api.ts";

export type Answer = {
  readonly status: number;
  readonly result: unknown;
  readonly errors: { code: number; message: string; source?: unknown }[];
};

export function clientOf(api: () => Api) {
  /** Throws SyntaxError if the answer is not JSON. */
  async function ask(method: string, path: string, body?: unknown): Promise<Answer> {
    const { url, zone } = api();
    const headers = { authorization: `Bearer ${apiToken}` };
    const sent = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await fetch(url + path.replace(/^Z/, `/zones/${zone.id}`), sent);
    const text = await response.text();
    return { status: response.status, ...(text ? JSON.parse(text) : { result: null, errors: [] }) };
  }
  return {
    ask,
    result: async <T>(method: string, path: string, body?: unknown): Promise<T> =>
      (await ask(method, path, body)).result as T,
    /** "400 20217 'zone' is not a valid value …" */
    refused: async (method: string, path: string, body?: unknown): Promise<string> => {
      const { status, errors } = await ask(method, path, body);
      return `${status} ${errors[0]?.code} ${errors[0]?.message}`;
    },
  };
}
