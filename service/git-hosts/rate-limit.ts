/** When a server that limits the rate of requests takes them again, as its answer says. */

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Milliseconds from now, 0 where they are over; undefined where the answer names no pause. Names of headers in lower case.
 * Retry-After is in seconds or a date (RFC 9110, 10.2.3); `x-ratelimit-…` is GitHub's, in seconds since 1970.
 */
export function pauseOf({
  "retry-after": after,
  "x-ratelimit-remaining": left = "0",
  "x-ratelimit-reset": reset,
}: Headers): number | undefined {
  const seconds = Number(after);
  const pause =
    after === undefined
      ? Number(left === "0" ? reset : undefined) * 1000 - Date.now()
      : Number.isNaN(seconds)
        ? Date.parse(String(after)) - Date.now()
        : seconds * 1000;
  return Number.isNaN(pause) ? undefined : Math.max(pause, 0);
}
