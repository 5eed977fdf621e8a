/** What one source may hold open, and how often the receiver may reject it. Not by express-rate-limit: decision 005. */
import { isIPv4 } from "node:net";
import ipaddr from "ipaddr.js";
import { openBytes, type ReceiverLimits } from "../limits.ts";

const remembered = 10_000; // pairs of source and hook whose budget is in memory, about 1 MB

/**
 * An IPv4 address, or an IPv6 /64, whose owner could send each request from another address of it. No socket of the
 * receiver has both families, so none shows an IPv4 address as IPv6 (::ffff:…).
 */
export function sourceOf(address: string | null): string {
  if (address !== null && isIPv4(address)) return address;
  if (address === null || !ipaddr.IPv6.isValid(address)) return "unknown";
  const { parts } = ipaddr.IPv6.parse(address);
  return `${new ipaddr.IPv6([...parts.slice(0, 4), 0, 0, 0, 0])}/64`;
}

export type Limiter = ReturnType<typeof createLimiter>;

/** `now`: milliseconds of a clock that never goes back. */
export function createLimiter(limits: ReceiverLimits, now = () => performance.now()) {
  const { concurrentPerSource, rejectionsPerMinute } = limits;
  const { ofBody, ofSource, ofAll } = openBytes(limits);
  const open = new Map<string, { requests: number; bytes: number }>();
  let allBytes = 0;
  const budgets = new Map<string, { left: number; at: number }>();
  const perMs = rejectionsPerMinute / 60_000;

  return {
    longestBody: ofBody,
    /** Reserves a place and `bytes`. Returns the function that frees them, or the reason why there is no place. */
    enter(source: string, bytes: number): (() => void) | string {
      const held = open.get(source) ?? { requests: 0, bytes: 0 };
      if (held.requests >= concurrentPerSource) return `${held.requests} requests of this source are open`;
      if (held.bytes + bytes > ofSource) return "the open requests of this source hold too many bytes";
      if (allBytes + bytes > ofAll) return "the open requests of all sources hold too many bytes";
      const change = (sign: 1 | -1) => {
        held.requests += sign;
        held.bytes += sign * bytes;
        allBytes += sign * bytes;
        if (held.requests === 0) open.delete(source);
      };
      open.set(source, held);
      change(1);
      return () => change(-1);
    },

    /** Counts a rejection. Returns 0 within the budget, else the seconds until the next one is within it. */
    rejected(source: string, hook: string): number {
      const key = `${source} ${hook}`;
      const at = now();
      const former = budgets.get(key) ?? { left: rejectionsPerMinute, at };
      const left = Math.min(rejectionsPerMinute, former.left + (at - former.at) * perMs);
      // A Map keeps the order of insertion.
      if (!budgets.has(key) && budgets.size >= remembered) budgets.delete(budgets.keys().next().value as string);
      budgets.set(key, { left: left >= 1 ? left - 1 : left, at });
      return left >= 1 ? 0 : Math.ceil((1 - left) / perMs / 1000);
    },
  };
}
