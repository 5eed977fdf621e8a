/**
 * What one source may have open, and how often it may be refused.
 *
 * The budget is charged when a request is refused, never when it arrives: everybody's deliveries come from a git host's
 * few addresses, and a limiter that turns arrivals away would let whoever aims a wrongly signed hook at us lock the
 * good ones out, which GitHub does not send again. That is why this is not express-rate-limit, which decides on
 * arrival; it also costs a third of the throughput, more than the signature check that it would save.
 */
import ipaddr from "ipaddr.js";
import type { ReceiverSettings } from "../settings.ts";

export type Limits = {
  /** Takes a place and `bytes`; returns how to give them back, or why not. */
  enter(source: string, bytes: number): (() => void) | string;
  /** Counts a refusal. Returns the seconds until the next one is free: 0 within the budget. */
  refused(source: string, hook: string): number;
};

/** Sources and hooks remembered: at about 100 bytes each, 1 MB. The longest unheard is forgotten first. */
const remembered = 10_000;

/** Bytes one source may have in memory: four of the largest allowed, or 32 of the largest push seen (457 kB). */
const bytesPerSource = (bodyBytes: number): number => Math.max(4 * bodyBytes, 16 << 20);

/** And all together, as many as four sources: 80 MiB where a body may have 5. */
const sourcesAtAll = 4;

/**
 * IPv4 addresses one by one. IPv6 by /64, the least that one sender has for itself: by the address, each request could
 * come from a new one. Sharing a /64 costs a good sender nothing, as only refusals are counted.
 */
export function sourceOf(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return "unknown";
  // A socket that listens on both families shows an IPv4 peer as ::ffff:…; process() takes that off.
  const parsed = ipaddr.process(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(":")}::/64`;
}

/** `now`: milliseconds, never going back. */
export function createLimits(limits: ReceiverSettings["limits"], now = () => performance.now()): Limits {
  const open = new Map<string, { requests: number; bytes: number }>();
  let allBytes = 0;
  const most = bytesPerSource(limits.bodyBytes);
  const budgets = new Map<string, { left: number; at: number }>();
  const perMs = limits.refusalsPerMinute / 60_000;

  return {
    enter(source, bytes) {
      const held = open.get(source) ?? { requests: 0, bytes: 0 };
      if (held.requests >= limits.concurrentPerSource) return `${held.requests} requests of this source are open`;
      if (held.bytes + bytes > most) return "too many bytes of this source are open";
      if (allBytes + bytes > sourcesAtAll * most) return "too many bytes are open";
      held.requests += 1;
      held.bytes += bytes;
      allBytes += bytes;
      open.set(source, held);
      return () => {
        held.requests -= 1;
        held.bytes -= bytes;
        allBytes -= bytes;
        if (held.requests === 0) open.delete(source);
      };
    },

    refused(source, hook) {
      const key = `${source} ${hook}`;
      const at = now();
      const known = budgets.get(key) ?? { left: limits.refusalsPerMinute, at };
      const left = Math.min(limits.refusalsPerMinute, known.left + (at - known.at) * perMs);
      // Deleted first: a Map keeps the order of insertion, so the first key is the longest unheard.
      budgets.delete(key);
      if (budgets.size >= remembered) budgets.delete(budgets.keys().next().value as string);
      budgets.set(key, { left: left >= 1 ? left - 1 : left, at });
      return left >= 1 ? 0 : Math.ceil((1 - left) / perMs / 1000);
    },
  };
}
