/** When a server that limits the rate of requests takes them again, as its answer says. */
import type { Answer } from "./exchange.ts";

/**
 * Milliseconds from now, 0 where they are over; undefined where the answer names no pause, or is about no rate.
 * Retry-After is in seconds or a date (RFC 9110, 10.2.3); `x-ratelimit-…` is GitHub's, in seconds since 1970.
 */
export function pauseOf({ status, headers }: Pick<Answer, "status" | "headers">): number | undefined {
  if (status === 429 || status >= 500) return named(headers);
  // GitHub answers 403 above its rate.
  return status === 403 ? named(headers) || undefined : undefined;
}

function named(headers: Answer["headers"]): number | undefined {
  const { "retry-after": after, "x-ratelimit-remaining": left = "0", "x-ratelimit-reset": reset } = headers;
  const isWhole = (text: unknown): boolean => /^\d+$/.test(String(text));
  const untilThen = (time: number) => (Number.isNaN(time) ? undefined : Math.max(time - Date.now(), 0));
  if (isWhole(after)) return Number(after) * 1000;
  if (after !== undefined) return / GMT$/.test(String(after)) ? untilThen(Date.parse(String(after))) : undefined;
  return left === "0" && isWhole(reset) ? untilThen(Number(reset) * 1000) : undefined;
}
