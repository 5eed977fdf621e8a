/**
 * Cloudflare's cache of a zone, which a test fills, and the API that purges it. It rejects what the real one rejects:
 * more URLs than each plan may send at once, a URL or a name of another zone, a body of several kinds or of none.
 */
import { type Fields, Refusal, type Reply, type Route } from "./refusal.ts";
import type { ZoneState } from "./zone.ts";

const caches = new WeakMap<ZoneState, Set<string>>();
/** The URLs of what it has. */
export function cacheOf(zone: ZoneState): Set<string> {
  const cache = caches.get(zone) ?? new Set();
  caches.set(zone, cache);
  return cache;
}

export const cacheRoutes = (zone: ZoneState): Route[] => [
  ["POST", "/zones/:zone/purge_cache", "Cache Purge", ({ body }) => purge(zone, body)],
];

const most = 30;

function purge(zone: ZoneState, body: Fields): Reply {
  const kinds = Object.keys(body).filter((key) => ["files", "hosts", "purge_everything"].includes(key));
  const [kind] = kinds;
  if (kinds.length !== 1 || Object.keys(body).length !== 1)
    throw new Refusal(400, 1012, 'Request must contain one of "purge_everything" or "files", "tags", "hosts"');
  const cache = cacheOf(zone);
  const list = kind === "purge_everything" ? [] : body[kind!];
  if (!Array.isArray(list) || list.length > most)
    throw new Refusal(400, 1094, `You may only purge up to ${most} ${kind} at a time`);
  const hostOf = (one: unknown): string => (kind === "hosts" ? String(one) : new URL(String(one)).hostname);
  for (const one of list)
    if (hostOf(one) !== zone.name && !hostOf(one).endsWith(`.${zone.name}`))
      throw new Refusal(400, 1016, `Unable to purge ${one}, which is not in the zone`);
  for (const url of cache)
    if (kind === "purge_everything" || list.includes(kind === "hosts" ? new URL(url).hostname : url)) cache.delete(url);
  return { result: { id: zone.id } };
}
