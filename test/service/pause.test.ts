import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { pauseOf } from "../../service/pause.ts";

const now = Date.parse("2026-11-23T12:00:00Z");
const seconds = now / 1000;
beforeEach(() => void vi.useFakeTimers({ now }));
afterEach(() => void vi.useRealTimers());

test.each<[Record<string, string>, number | undefined]>([
  [{}, undefined],
  [{ "retry-after": "77" }, 77_000],
  [{ "retry-after": "0" }, 0],
  [{ "retry-after": "Mon, 23 Nov 2026 12:15:00 GMT" }, 900_000],
  [{ "retry-after": "Mon, 23 Nov 2026 11:15:00 GMT" }, 0],
  ...["soon", "-5", "1.5", "some GMT", "Mon, 23 Nov 2026 12:15:00 GMT (later)"].map(
    (text): [Record<string, string>, undefined] => [{ "retry-after": text }, undefined],
  ),
  [{ "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(seconds + 600) }, 600_000],
  [{ "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(seconds - 1) }, 0],
  [{ "x-ratelimit-remaining": "0" }, undefined],
  [{ "x-ratelimit-reset": String(seconds + 600) }, 600_000],
  [{ "x-ratelimit-remaining": "4999", "x-ratelimit-reset": String(seconds + 600) }, undefined],
  [{ "retry-after": "5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(seconds + 600) }, 5_000],
])("%j: the server takes requests again after %s ms", (headers, pause) => {
  for (const status of [429, 503]) expect(pauseOf({ status, headers })).toBe(pause);
  // GitHub's 403 is about the rate only where it names a pause.
  expect(pauseOf({ status: 403, headers })).toBe(pause || undefined);
  for (const status of [200, 400, 404, 408]) expect(pauseOf({ status, headers })).toBeUndefined();
});
