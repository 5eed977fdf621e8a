/** The budget of rejections and the places of a source. The clock of the budget changes only where a test sets it. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createLimiter, sourceOf } from "../../../service/receiver/limiter.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { chunk, chunkedHead, dial, head, limits, type Running, receiver } from "./harness.ts";

test.each([
  ["an IPv4 address", "192.30.252.7", "192.30.252.7"],
  ["an IPv6 /64", "2a0a:a440:1:2:3:4:5:6", "2a0a:a440:1:2::/64"],
  ["the /64 of a link-local address with its zone", "fe80::1%eth0", "fe80::/64"],
  ["unknown after the connection has ended", undefined, "unknown"],
])("a source is %s", (_, address, source) => expect(sourceOf(address ?? null)).toBe(source));

describe("the budget of rejections", () => {
  let now = 0;
  const budget = (rejectionsPerMinute: number) => createLimiter({ ...limits, rejectionsPerMinute }, () => now);
  beforeEach(() => {
    now = 0;
  });

  test("allows rejectionsPerMinute rejections, then returns the seconds until the next, and is never more than full", () => {
    const { rejected } = budget(60);
    const wait = () => rejected("a", "site");
    const full = [...Array(60).fill(0), 1];
    expect(full.map(wait)).toEqual(full);
    now += 999;
    expect(wait()).toBe(1);
    now += 1;
    expect([wait(), wait()]).toEqual([0, 1]);
    now += 3_600_000;
    expect(full.map(wait)).toEqual(full);
  });

  test("is separate for each source and each hook", () => {
    const { rejected } = budget(1);
    expect([rejected("a", "site"), rejected("a", "docs"), rejected("b", "site")]).toEqual([0, 0, 0]);
    expect(rejected("a", "site")).toBe(60);
  });

  test("remembers 10,000 pairs of source and hook; the oldest is forgotten first, and starts with a full budget", () => {
    const { rejected } = budget(1);
    const spend = (from: number, to: number) => {
      for (let i = from; i < to; i++) rejected(`source ${i}`, "site");
    };
    spend(0, 10_000);
    expect(rejected("source 0", "site")).toBeGreaterThan(0);
    spend(10_000, 10_001);
    expect(rejected("source 1", "site")).toBeGreaterThan(0);
    expect(rejected("source 0", "site")).toBe(0);
    // That was a new pair, so the oldest left again.
    expect(rejected("source 1", "site")).toBe(0);
    expect(rejected("source 3", "site")).toBeGreaterThan(0);
  });
});

describe("places", () => {
  function entered(place: (() => void) | string): () => void {
    if (typeof place === "string") throw new Error(place);
    return place;
  }

  test("are concurrentPerSource for each source, and are free again after use", () => {
    const { enter } = createLimiter({ ...limits, concurrentPerSource: 2 });
    const leave = entered(enter("a", 1));
    enter("a", 1);
    expect(enter("a", 1)).toBe("2 requests of this source are open");
    entered(enter("b", 1));
    leave();
    entered(enter("a", 1));
  });

  test("of one source hold four of the largest bodies, or 16 MiB", () => {
    for (const [bodyBytes, most] of [[5 << 20, 4] as const, [1 << 20, 16] as const]) {
      const { enter } = createLimiter({ ...limits, bodyBytes });
      for (let i = 0; i < most; i++) entered(enter("a", bodyBytes));
      expect(enter("a", 1)).toBe("the open requests of this source hold too many bytes");
      entered(enter("b", bodyBytes));
    }
  });

  test("give their bytes back, to their source and to all sources", () => {
    const { enter } = createLimiter({ ...limits, bodyBytes: 5 << 20, concurrentPerSource: 4 });
    // One request stays open: a source without any is forgotten, and its bytes with it.
    entered(enter("a", 1));
    for (let i = 0; i < 100; i++) entered(enter("a", 5 << 20))();
    for (let i = 0; i < 100; i++) entered(enter(`source ${i}`, 5 << 20))();
    // All sources together hold 16 of the largest bodies: three more here, 12 of others, and one without the first byte.
    for (let i = 0; i < 3; i++) entered(enter("a", 5 << 20));
    for (let i = 0; i < 12; i++) entered(enter(`source ${i}`, 5 << 20));
    entered(enter("b", (5 << 20) - 1));
    expect(enter("b", 1)).toBe("the open requests of all sources hold too many bytes");
  });

  test("of a source that has none nothing stays in memory", () => {
    const { enter } = createLimiter(limits);
    const set = vi.spyOn(Map.prototype, "set");
    const leave = entered(enter("a", 1));
    const [open] = set.mock.contexts as Map<unknown, unknown>[];
    set.mockRestore();
    expect([...open!.keys()]).toEqual(["a"]);
    leave();
    expect(open!.size).toBe(0);
  });
});

describe("the receiver", () => {
  let running: Running;
  afterEach(() => running.stop());

  test("answers 429 once the budget is used, whatever X-Forwarded-For says, and still accepts a good delivery", async () => {
    running = await receiver({ limit: { rejectionsPerMinute: 3 } });
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) {
      const forged = `198.51.100.${i}`;
      const headers = { "x-forwarded-for": forged, "cf-connecting-ip": forged, forwarded: `for=${forged}` };
      statuses.push((await running.send(delivery({ secret: "x".repeat(40), headers }))).status);
    }
    expect(statuses).toEqual([401, 401, 401, 429]);
    const late = await running.send(delivery({ signature: null }));
    expect([late.status, late.body]).toEqual([429, '{"status":"Too Many Requests"}\n']);
    expect(late.headers["retry-after"]).toMatch(/^([1-9]|[1-5]\d|60)$/);
    expect(running.journal.map(({ overBudget }) => overBudget)).toEqual([undefined, undefined, undefined, true, true]);
    const { source, reason } = running.journal.at(-1)!;
    expect(source).toBe("127.0.0.1");
    expect(reason).toMatch(/^the source exceeded rejectionsPerMinute: X-Hub-Signature-256 is missing/);
    expect(running.spooled()).toEqual([]);
    expect((await running.send(delivery())).status).toBe(202);
  });

  test("reserves nothing for an unsigned request, the declared length of a body, and the largest for one in chunks", async () => {
    const enter = vi.fn((_: string, _bytes: number) => () => {});
    running = await receiver({ limiter: { longestBody: 1 << 20, enter, rejected: () => 0 } });
    const sent = delivery();
    expect((await running.send(delivery({ signature: null }))).status).toBe(401);
    expect((await running.send(sent)).status).toBe(202);
    expect((await running.raw(chunkedHead(), chunk(sent.body), "0\r\n\r\n")).status).toBe(202);
    expect(enter.mock.calls.map(([, bytes]) => bytes)).toEqual([sent.body.length, 1 << 20]);
  });

  test("lets a delivery wait for a place, and gives none to a sender that left while it waited", async () => {
    let room = false;
    const enter = vi.fn(() => (room ? () => {} : "no place"));
    running = await receiver({ limiter: { longestBody: 1 << 20, enter, rejected: () => 0 } });
    const gone = await dial(running.port);
    gone.write(head(delivery()));
    await expect.poll(() => enter.mock.calls.length).toBeGreaterThan(0);
    gone.destroy();
    await expect.poll(() => running.journal.map(({ status }) => status)).toEqual([499]);
    enter.mockClear();
    const good = running.send(delivery());
    await expect.poll(() => enter.mock.calls.length).toBeGreaterThan(1);
    expect(running.spooled()).toEqual([]);
    room = true;
    expect((await good).status).toBe(202);
    expect(enter.mock.results.filter(({ value }) => value !== "no place")).toHaveLength(1);
  });
});
