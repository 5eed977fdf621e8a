/** The budget of rejections and the places of a source. The clock of the budget changes only where a test sets it. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { receiverLimits } from "../../../service/limits.ts";
import { createLimiter, sourceOf } from "../../../service/receiver/limiter.ts";
import { delivery, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { answer, chunk, dial, head, limits, type Running, receiver, untilAccepted } from "./harness.ts";

describe("a source is", () => {
  test.each([
    ["an IPv4 address", "192.30.252.7", "192.30.252.7"],
    ["the IPv4 address that ::ffff: maps into IPv6", "::ffff:192.30.252.7", "192.30.252.7"],
    ["an IPv6 /64", "2a0a:a440:1:2:3:4:5:6", "2a0a:a440:1:2::/64"],
    ["the same /64, another address", "2a0a:a440:1:2::9", "2a0a:a440:1:2::/64"],
    ["another /64", "2a0a:a440:1:3::9", "2a0a:a440:1:3::/64"],
    ["the /64 of a link-local address with its zone", "fe80::1%eth0", "fe80::/64"],
    ["unknown after the connection has ended", undefined, "unknown"],
  ])("%s", (_, address, source) => expect(sourceOf(address ?? null)).toBe(source));
});

test("each limit says what a value is, with its bounds and default, and what it limits", () => {
  expect(Object.entries(receiverLimits.entries).map(([name, schema]) => [name, v.getMetadata(schema.wrapped)])).toEqual(
    [
      [
        "bodyBytes",
        { form: "a number of bytes from 1024 to 26214400, such as 5242880", description: "Size of a delivery's body." },
      ],
      [
        "rejectionsPerMinute",
        {
          form: "a whole number from 1 to 10000, such as 60",
          description: "Rejected requests a minute, by source and hook.",
        },
      ],
      [
        "concurrentPerSource",
        {
          form: "a whole number from 1 to 1000, such as 32",
          description: "Requests that one source may have open.",
        },
      ],
    ],
  );
  expect(v.parse(receiverLimits, {})).toEqual({ bodyBytes: 5 << 20, rejectionsPerMinute: 60, concurrentPerSource: 32 });
});

describe("the budget of rejections", () => {
  let now = 0;
  const budget = (rejectionsPerMinute: number) => createLimiter({ ...limits, rejectionsPerMinute }, () => now);
  beforeEach(() => {
    now = 0;
  });

  test("allows rejectionsPerMinute rejections, then returns the seconds until the next", () => {
    const { rejected } = budget(60);
    for (let i = 0; i < 60; i++) expect(rejected("a", "site")).toBe(0);
    expect(rejected("a", "site")).toBe(1);
    now += 999;
    expect(rejected("a", "site")).toBe(1);
    now += 1;
    expect(rejected("a", "site")).toBe(0);
    expect(rejected("a", "site")).toBe(1);
  });

  test("returns 60 seconds where it allows one rejection per minute", () => {
    const { rejected } = budget(1);
    expect([rejected("a", "site"), rejected("a", "site")]).toEqual([0, 60]);
  });

  test("is full again after a minute and never more than full", () => {
    const { rejected } = budget(3);
    for (let i = 0; i < 9; i++) rejected("a", "site");
    now += 3_600_000;
    expect([1, 2, 3, 4].map(() => rejected("a", "site") === 0)).toEqual([true, true, true, false]);
  });

  test("is separate for each source and each hook", () => {
    const { rejected } = budget(1);
    expect([rejected("a", "site"), rejected("a", "docs"), rejected("b", "site")]).toEqual([0, 0, 0]);
    expect(rejected("a", "site")).toBeGreaterThan(0);
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
  test("are concurrentPerSource for each source, and are free again after use", () => {
    const { enter } = createLimiter({ ...limits, concurrentPerSource: 2 });
    const leave = enter("a", 1);
    enter("a", 1);
    expect(enter("a", 1)).toBe("2 requests of this source are open");
    expect(enter("b", 1)).toBeTypeOf("function");
    if (typeof leave === "function") leave();
    expect(enter("a", 1)).toBeTypeOf("function");
  });

  test("of one source hold four of the largest bodies, or 16 MiB", () => {
    const big = createLimiter({ ...limits, bodyBytes: 5 << 20 });
    for (let i = 0; i < 4; i++) expect(big.enter("a", 5 << 20)).toBeTypeOf("function");
    expect(big.enter("a", 1)).toBe("the open requests of this source hold too many bytes");
    expect(big.enter("b", 5 << 20)).toBeTypeOf("function");
    const small = createLimiter({ ...limits, bodyBytes: 1 << 20 });
    for (let i = 0; i < 16; i++) expect(small.enter("a", 1 << 20)).toBeTypeOf("function");
    expect(small.enter("a", 1)).toBe("the open requests of this source hold too many bytes");
  });

  test("give their bytes back, to their source and to all sources", () => {
    const { enter } = createLimiter({ ...limits, bodyBytes: 5 << 20, concurrentPerSource: 4 });
    const through = (source: string, bytes: number) => {
      const leave = enter(source, bytes);
      expect(leave).toBeTypeOf("function");
      if (typeof leave === "function") leave();
    };
    // One request stays open: a source without any is forgotten, and its bytes with it.
    expect(enter("a", 1)).toBeTypeOf("function");
    for (let i = 0; i < 100; i++) through("a", 5 << 20);
    for (let i = 0; i < 100; i++) through(`source ${i}`, 5 << 20);
    // Three more of the largest bodies, and all that is left for the others: 76 MiB less the first byte.
    for (let i = 0; i < 3; i++) expect(enter("a", 5 << 20)).toBeTypeOf("function");
    const others = Array.from({ length: 40 }, (_, i) => enter(`source ${i}`, 5 << 20));
    expect(others.filter((each) => typeof each === "function")).toHaveLength(12);
  });

  test("of a source that has none nothing stays in memory", () => {
    setFlagsFromString("--expose-gc");
    const collect: () => void = runInNewContext("gc");
    const { enter } = createLimiter({ ...limits, bodyBytes: 5 << 20 });
    /** MiB that 100,000 sources leave. */
    const left = (leaves: boolean) => {
      collect();
      const before = process.memoryUsage().heapUsed;
      for (let i = 0; i < 100_000; i++) {
        const leave = enter(`source ${leaves} ${i}`, 1);
        if (leaves && typeof leave === "function") leave();
      }
      collect();
      return (process.memoryUsage().heapUsed - before) / (1 << 20);
    };
    expect(left(true)).toBeLessThan(2);
    expect(left(false)).toBeGreaterThan(8);
  });

  test("of one source hold 32 of the largest push seen", () => {
    const { enter } = createLimiter({ ...limits, bodyBytes: 5 << 20 });
    for (let i = 0; i < 32; i++) expect(enter("a", 457_000)).toBeTypeOf("function");
  });

  test("of all sources together hold 16 of the largest bodies", () => {
    const { enter } = createLimiter({ ...limits, bodyBytes: 5 << 20 });
    const entered = Array.from({ length: 40 }, (_, i) => enter(`source ${i}`, 5 << 20));
    expect(entered.filter((each) => typeof each === "function")).toHaveLength(16);
    expect(entered[16]).toBe("the open requests of all sources hold too many bytes");
  });
});

describe("the receiver", () => {
  let running: Running;
  afterEach(() => running.stop());
  const bad = () => delivery({ secret: "another-secret-0123456789-abcdefghij" });

  test("answers 429 with Retry-After once the budget is used, and the journal keeps the reason", async () => {
    running = await receiver({ limit: { rejectionsPerMinute: 3 } });
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await running.send(bad())).status);
    expect(statuses).toEqual([401, 401, 401, 429]);
    const late = await running.send(delivery({ signature: null }));
    expect([late.status, late.body]).toEqual([429, '{"status":"Too Many Requests"}\n']);
    expect(late.headers["retry-after"]).toMatch(/^([1-9]|[1-5]\d|60)$/);
    expect(running.journal.map(({ overBudget }) => overBudget)).toEqual([undefined, undefined, undefined, true, true]);
    expect(running.journal.at(-1)?.reason).toMatch(
      /^the source exceeded rejectionsPerMinute: X-Hub-Signature-256 is missing/,
    );
    expect(running.spooled()).toEqual([]);
  });

  test("accepts a good delivery from an address whose budget another sender has used", async () => {
    running = await receiver({ limit: { rejectionsPerMinute: 1 } });
    for (let i = 0; i < 20; i++) await running.send(bad());
    expect((await running.send(bad())).status).toBe(429);
    expect((await running.send(delivery())).status).toBe(202);
  });

  test("does not charge the budget for accepted and ignored deliveries", async () => {
    running = await receiver({ limit: { rejectionsPerMinute: 1 } });
    for (let i = 0; i < 10; i++) {
      expect((await running.send(delivery())).status).toBe(202);
      expect((await running.send(delivery({ event: "ping" }))).status).toBe(200);
    }
    expect((await running.send(bad())).status).toBe(401);
    expect((await running.send(bad())).status).toBe(429);
  });

  test("charges a rejection to its own hook only", async () => {
    running = await receiver({ limit: { rejectionsPerMinute: 1 } });
    for (let i = 0; i < 3; i++) await running.send(bad());
    expect((await running.send(delivery({ hook: "docs" }))).status).toBe(401);
  });

  test("answers 429 with Retry-After: 1 when a source has no free place for 2 s, and frees a place when a sender leaves", async () => {
    running = await receiver({ limit: { concurrentPerSource: 2 } });
    const slow = [await dial(running.port), await dial(running.port)];
    for (const socket of slow) socket.on("error", () => {}).write(head(delivery()));
    await until(() => running.send(delivery()).then(({ status }) => status === 429));
    const answer = await running.send(delivery());
    expect([answer.status, answer.headers["retry-after"], answer.body]).toEqual([
      429,
      "1",
      '{"status":"Too Many Requests"}\n',
    ]);
    expect(running.journal.at(-1)?.reason).toBe("2 requests of this source are open");
    slow[0]?.destroy();
    await untilAccepted(() => running.send(delivery()), 429);
    slow[1]?.destroy();
  });

  test("reserves the declared length of a body, and the largest for one in chunks", async () => {
    const reserved: number[] = [];
    const enter = (_: string, bytes: number) => {
      reserved.push(bytes);
      return () => {};
    };
    running = await receiver({ limiter: { longestBody: 1 << 20, enter, rejected: () => 0 } });
    const { headers, ...sent } = delivery();
    const { "content-length": length, ...others } = headers;
    expect((await running.send({ headers, ...sent })).status).toBe(202);
    const chunked = head({ headers: others, ...sent }, "transfer-encoding: chunked");
    expect((await running.raw(chunked, chunk(sent.body), "0\r\n\r\n")).status).toBe(202);
    expect(reserved).toEqual([Number(length), 1 << 20]);
  });

  test("lets a delivery wait for a place, and gives none to a sender that left while it waited", async () => {
    let room = false;
    let tries = 0;
    let places = 0;
    const enter = () => {
      tries++;
      if (!room) return "no place";
      places++;
      return () => {};
    };
    running = await receiver({ limiter: { longestBody: 1 << 20, enter, rejected: () => 0 } });
    const gone = await dial(running.port);
    gone.write(head(delivery()));
    await until(async () => tries > 0);
    gone.destroy();
    await until(async () => running.journal.some(({ status }) => status === 499));
    tries = 0;
    const good = running.send(delivery());
    await until(async () => tries > 1);
    expect(running.spooled()).toEqual([]);
    room = true;
    expect((await good).status).toBe(202);
    expect(places).toBe(1);
  });

  test("reserves no place for a request without a signature", async () => {
    running = await receiver({ limit: { concurrentPerSource: 1 } });
    const slow = await dial(running.port);
    slow.write(head(delivery({ signature: null })));
    expect((await answer(slow)).status).toBe(401);
    expect((await running.send(delivery())).status).toBe(202);
    slow.destroy();
  });

  test("reserves the whole limit for a chunked body, which may become that large", async () => {
    running = await receiver({ limit: { bodyBytes: 8 << 20, concurrentPerSource: 100 } });
    const { "content-length": _, ...headers } = delivery().headers;
    const endless = head({ ...delivery(), headers }, "transfer-encoding: chunked");
    const open = await Promise.all([1, 2, 3, 4].map(() => dial(running.port)));
    for (const socket of open) socket.on("error", () => {}).write(endless);
    await until(() => running.send(delivery()).then(({ status }) => status === 429));
    expect(running.journal.at(-1)?.reason).toBe("the open requests of this source hold too many bytes");
    for (const socket of open) socket.destroy();
    await untilAccepted(() => running.send(delivery()), 429);
  });

  test("accepts 40 deliveries at once where a source has 40 places", async () => {
    running = await receiver({ limit: { concurrentPerSource: 40, rejectionsPerMinute: 1 } });
    const answers = await Promise.all(Array.from({ length: 40 }, () => running.send(delivery())));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(running.spooled()).toHaveLength(40);
  });

  test("accepts a chunked body without a declared length", async () => {
    running = await receiver();
    const { headers, body, ...rest } = delivery();
    const { "content-length": _, ...others } = headers;
    const sent = head({ ...rest, body, headers: others }, "transfer-encoding: chunked");
    const halves = [body.subarray(0, 1000), body.subarray(1000)];
    expect((await running.raw(sent, ...halves.map(chunk), "0\r\n\r\n")).status).toBe(202);
    expect(sign(body, secrets.site.current)).toBe(headers["x-hub-signature-256"]);
  });
});

/** Polls, because the receiver frees a place a moment after a socket closes. */
async function until(met: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await met())) {
    if (performance.now() > end) throw new Error("The condition was not met within 30 s.");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
