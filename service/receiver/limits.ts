/**
 * What one source may hold open, and how often the receiver may reject it.
 *
 * Only a rejection uses the budget, never an arrival: all customers of a git host share its few addresses, so a limit on
 * arrivals would let one customer's wrongly signed hook block the good deliveries, which GitHub does not send again.
 * express-rate-limit decides on arrival, and costs a third of the throughput, more than the signature check it saves.
 */
import ipaddr from "ipaddr.js";
import type { ReceiverSettings } from "../settings.ts";

export type Limits = {
  /** Reserves a place and `bytes`. Returns the function that frees them, or the reason why there is no place. */
  enter(source: string, bytes: number): (() => void) | string;
  /** Counts a rejection. Returns 0 within the budget, else the seconds until the next rejection is within it. */
  rejected(source: string, hook: string): number;
};

/** Pairs of source and hook with a budget in memory: 1 MB at about 100 bytes each. The least recent one is forgotten. */
const remembered = 10_000;

/** Bytes of one source: four bodies of the allowed size, or 32 of the largest push seen (457 kB). */
const bytesPerSource = (bodyBytes: number): number => Math.max(4 * bodyBytes, 16 << 20);

/** All sources together hold as much as four: 80 MiB where a body may have 5 MiB. */
const fullSources = 4;

/**
 * A source is an IPv4 address or an IPv6 /64, the smallest network that one sender owns: with single IPv6 addresses each
 * request could come from a new one. A good sender in the same /64 loses nothing, as only rejections use the budget.
 */
export function sourceOf(address: string | null): string {
  if (address === null || !ipaddr.isValid(address)) return "unknown";
  // process() turns ::ffff:192.0.2.1, an IPv4 peer of a socket for both families, into 192.0.2.1.
  const parsed = ipaddr.process(address);
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString();
  const network = parsed.parts.slice(0, 4).map((part) => part.toString(16));
  return `${network.join(":")}::/64`;
}

/** `now`: milliseconds of a clock that never goes back. */
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
      if (held.bytes + bytes > most) return "the open requests of this source hold too many bytes";
      if (allBytes + bytes > fullSources * most) return "the open requests of all sources hold too many bytes";
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

    rejected(source, hook) {
      const key = `${source} ${hook}`;
      const at = now();
      const known = budgets.get(key) ?? { left: limits.refusalsPerMinute, at };
      const left = Math.min(limits.refusalsPerMinute, known.left + (at - known.at) * perMs);
      // A Map keeps the order of insertion: after delete and set, the first key is the least recent one.
      budgets.delete(key);
      if (budgets.size >= remembered) budgets.delete(budgets.keys().next().value as string);
      budgets.set(key, { left: left >= 1 ? left - 1 : left, at });
      return left >= 1 ? 0 : Math.ceil((1 - left) / perMs / 1000);
    },
  };
}
