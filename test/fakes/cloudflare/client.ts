/** A client of the fake API, as curl is one; a leading `Z` in a path means the zone's. */
import { type Api, apiToken } from "./api.ts";

export const clientOf = (api: () => Api) => ({
  result: async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const { url, zone } = api();
    const headers = { authorization: `Bearer ${apiToken}` };
    const sent = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    const response = await fetch(url + path.replace(/^Z/, `/zones/${zone.id}`), sent);
    return ((await response.json()) as { result: T }).result;
  },
});
