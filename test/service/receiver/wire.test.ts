/** Requests that only a raw connection can send: incomplete, oversized, slow or invalid HTTP. */
import { EventEmitter, once } from "node:events";
import { type IncomingMessage, type RequestListener, type ServerResponse, STATUS_CODES } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { endGently, readBody } from "../../../service/receiver/body.ts";
import { bounds, createReceiver, drain, listen } from "../../../service/receiver/server.ts";
import { delivery, sign } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";
import { answer, chunk, chunkedHead, dial, head, limits, type Running, receiver } from "./harness.ts";

let running: Running;
beforeEach(async () => {
  running = await receiver();
});
afterEach(() => running.stop());

function push(bytes: number): Buffer {
  const text = '{"ref":"refs/heads/main","pad":""}';
  return Buffer.from(text.replace('""', `"${"x".repeat(bytes - text.length)}"`));
}

test("the receiver accepts a body of exactly bodyBytes, and rejects one more byte, with a declared length or chunked", async () => {
  const later = 100 + (16 << 10);
  const sent = async (body: Buffer, signature = sign(body, secrets.site.current)) => {
    const chunks = [body.subarray(0, 100), body.subarray(100, later), body.subarray(later)].map(chunk);
    return [
      (await running.send(delivery({ body, signature }))).status,
      (await running.raw(chunkedHead({ body, signature }), ...chunks, "0\r\n\r\n")).status,
    ];
  };
  const [fits, larger] = [push(limits.bodyBytes), push(limits.bodyBytes + 1)];
  expect(await sent(fits)).toEqual([202, 202]);
  expect(await sent(larger)).toEqual([413, 413]);
  const ofItsBeginning = sign(larger.subarray(0, limits.bodyBytes), secrets.site.current);
  expect(await sent(larger, ofItsBeginning)).toEqual([413, 413]);
  const reasons = ["131073 bytes are declared, 131072 allowed", "the body is larger than 131072 bytes"];
  expect(running.journal.slice(-2).map(({ reason }) => reason)).toEqual(reasons);
  expect(running.spooled()).toHaveLength(2);
});

test("a sender that is still sending receives the answer and no reset", async () => {
  // As nginx does: it writes the whole body, and reads the answer when it arrives.
  const body = push(limits.bodyBytes);
  const errors: string[] = [];
  for (let i = 0; i < 5; i++) {
    const socket = connect({ port: running.port, host: "127.0.0.1", allowHalfOpen: true });
    socket.on("error", ({ message }) => errors.push(message));
    const answered = answer(socket);
    socket.write(head(delivery({ body, signature: null })).replace("HTTP/1.1", "HTTP/1.0"));
    for (let at = 0; at < body.length; at += 8 << 10) {
      socket.write(body.subarray(at, at + (8 << 10)));
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect((await answered).status).toBe(401);
    socket.end();
    await once(socket, "close");
  }
  expect(errors).toEqual([]);
});

test("a sender that leaves in the middle of its body frees its place and is one journal line with 499", async () => {
  await using single = await receiver({ limit: { concurrentPerSource: 1 } });
  const sent = delivery();
  const socket = await dial(single.port);
  socket.write(head(sent));
  socket.write(sent.body.subarray(0, 100));
  await new Promise((resolve) => setTimeout(resolve, 50));
  socket.destroy();
  await expect.poll(() => single.journal).toHaveLength(1);
  expect(single.journal[0]).toMatchObject({ status: 499, hook: "site", delivery: sent.headers["x-github-delivery"] });
  expect((await single.send(delivery())).status).toBe(202);
  expect(single.spooled()).toHaveLength(1);
});

test("a sender that leaves while its push is stored is one journal line with 499, and the receiver continues", async () => {
  const { promise: stored, resolve: store } = Promise.withResolvers<void>();
  const spool = vi.fn(() => stored);
  await using slow = await receiver({ spool });
  const sent = delivery();
  const socket = await dial(slow.port);
  socket.write(head(sent));
  socket.write(sent.body);
  await expect.poll(() => spool.mock.calls.length).toBe(1);
  socket.destroy();
  const reason = "the sender closed the connection before the answer";
  await expect.poll(() => slow.journal).toMatchObject([{ status: 499, reason }]);
  store();
  expect((await slow.send(delivery({ event: "ping" }))).status).toBe(200);
});

test("readBody holds a body of a declared length in one buffer of that length", async () => {
  const req = Object.assign(new EventEmitter(), { headers: { "content-length": "50000" } });
  const read = readBody(req as unknown as IncomingMessage, 1 << 20);
  for (let i = 0; i < 5; i++) req.emit("data", Buffer.alloc(10_000));
  req.emit("end");
  expect((await read)!.buffer.byteLength).toBe(50_000);
});

test.each([
  ["at once after more bytes than it discards", 11, 0],
  // nginx may still be writing the body.
  ["2 s after fewer", 10, 2_000],
])("an answer ends %s", async (_, bytes, after) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const [req, end] = [Object.assign(new EventEmitter(), { headers: {} }), vi.fn()];
  void endGently(req as unknown as IncomingMessage, { end } as unknown as ServerResponse, 10);
  // Chunks that have only a length: it keeps nothing of what it discards.
  for (const length of [1, bytes - 1]) req.emit("data", { length });
  if (after > 0) await vi.advanceTimersByTimeAsync(after - 1);
  expect(end).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(after > 0 ? 1 : 0);
  expect(end).toHaveBeenCalledOnce();
});

describe("the receiver answers what Node's parser rejects with X-Served-By and a journal line:", () => {
  test.each([
    ["no HTTP", 400, "hello\r\n\r\n"],
    ["headers over 8 KiB", 431, head(delivery(), `x-large: ${"x".repeat(9 << 10)}`)],
    ["a length and chunks, as in request smuggling", 400, head(delivery(), "transfer-encoding: chunked")],
    ["a bare line feed in a header", 400, head(delivery(), "x: y\nz: w").replaceAll("\r\n", "\n")],
    ["CONNECT", 405, "CONNECT hooks.example.org:443 HTTP/1.1\r\nhost: hooks.example.org\r\n\r\n"],
  ])("%s: %i", async (_, status, bytes) => {
    const { body, ...answer } = await running.raw(bytes);
    expect(JSON.parse(body)).toEqual({ status: STATUS_CODES[status] });
    expect(answer).toEqual({
      status,
      headers: {
        ...{ "x-served-by": "pushgate-receiver", "content-type": "application/json" },
        ...{ "content-length": String(body.length), ...(status === 405 && { allow: "POST" }), connection: "close" },
      },
    });
    const reason = status === 405 ? /^the method is CONNECT$/ : /^not valid HTTP: HPE_[A-Z_2]+$/;
    expect(running.journal).toMatchObject([{ status, source: "127.0.0.1", reason: expect.stringMatching(reason) }]);
    expect(running.spooled()).toEqual([]);
  });

  test("half of a request's head: 400, and a journal line", async () => {
    const socket = await dial(running.port);
    const answered = answer(socket);
    socket.end(head(delivery()).slice(0, 100));
    expect((await answered).status).toBe(400);
    expect(running.journal).toMatchObject([{ status: 400, reason: "not valid HTTP: HPE_INVALID_EOF_STATE" }]);
  });

  test("a broken chunk in the middle of a body: 400, one line, and the place is free again", async () => {
    await using single = await receiver({ limit: { concurrentPerSource: 1 } });
    const answer = await single.raw(chunkedHead(), "zz\r\nnot a chunk\r\n");
    expect([answer.status, answer.headers["x-served-by"]]).toEqual([400, "pushgate-receiver"]);
    await expect.poll(() => single.journal.map(({ status }) => status)).toEqual([400]);
    await expect.poll(() => single.send(delivery()), { timeout: 30_000 }).toMatchObject({ status: 202 });
  });

  test("an unknown Expect header, an Upgrade header and the lack of a Host header: the receiver ignores them", async () => {
    const sent = delivery({ headers: { expect: "the-spanish-inquisition" } });
    for (const text of [
      head(sent),
      head(delivery(), "connection: upgrade", "upgrade: websocket"),
      head(sent).replace(/host: .*\r\n/, ""),
    ])
      expect((await running.raw(text, sent.body)).status).toBe(202);
  });
});

test("the receiver closes connections over maxConnections and writes a journal line", async () => {
  await using small = await receiver({ bound: { maxConnections: 2 } });
  const held = [await dial(small.port), await dial(small.port)];
  for (const socket of held) socket.on("error", () => {});
  expect((await small.send(delivery())).status).toBe(0);
  expect(small.journal).toMatchObject([{ status: 0, reason: "2 connections are open" }]);
  for (const socket of held) socket.destroy();
  await expect.poll(() => small.send(delivery())).toMatchObject({ status: 202 });
});

test.each([
  ["bytes that are not HTTP", "hello\r\n\r\n", ""],
  ["a broken chunk after a rejection", chunkedHead({ signature: null }), "zz\r\n"],
])("a sender that keeps its side open after %s has no connection left", async (_, bytes, more) => {
  await using single = await receiver({ bound: { maxConnections: 1 } });
  const socket = connect({ port: single.port, host: "127.0.0.1", allowHalfOpen: true });
  let text = "";
  socket.on("data", (data) => {
    text += data;
  });
  socket.write(bytes);
  await expect.poll(() => text).toMatch(/^HTTP\/1.1 4/);
  const began = performance.now();
  socket.write(more);
  await expect.poll(() => single.send(delivery())).toMatchObject({ status: 202 });
  // Before the receiver's own ends: 2 s after a rejection, 5 s after the connection's begin.
  expect(performance.now() - began).toBeLessThan(1_500);
  expect(text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  expect(single.journal.filter(({ status }) => status === 400 || status === 401)).toHaveLength(1);
  socket.destroy();
});

test("a sender that does not end its headers or its body receives 408, and the journal line has the delivery id", async () => {
  await using hurried = await receiver({
    bound: { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 20 },
  });
  const sent = delivery();
  for (const parts of [["POST /webhook/site HTTP/1.1\r\nhost: x\r\n"], [head(sent), sent.body.subarray(0, 10)]]) {
    const { status, headers } = await hurried.raw(...parts);
    expect([status, headers["x-served-by"]]).toEqual([408, "pushgate-receiver"]);
  }
  const id = sent.headers["x-github-delivery"];
  const line = { delivery: null, status: 408, reason: "not valid HTTP: ERR_HTTP_REQUEST_TIMEOUT" };
  await expect.poll(() => hurried.journal).toMatchObject([line, { ...line, delivery: id }]);
  expect(hurried.spooled()).toEqual([]);
  // nginx waits 9 s, and GitHub 10 s.
  const { headersTimeout, requestTimeout, connectionsCheckingInterval } = bounds;
  expect(Math.max(headersTimeout, requestTimeout) + connectionsCheckingInterval).toBeLessThanOrEqual(9_000);
});

// process.test.ts has the sockets of systemd and SIGTERM.
test("the servers' end waits for the open request's answer, and not for a client that keeps its connection", async () => {
  const answerLate: RequestListener = (_, res) => void setTimeout(() => res.end(), 300);
  const server = createReceiver(answerLate, () => {}).listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = await dial((server.address() as AddressInfo).port);
  const answered = answer(socket);
  socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  await once(server, "request");
  const began = performance.now();
  await drain([server]);
  const waited = performance.now() - began;
  expect((await answered).status).toBe(200);
  expect(waited).toBeGreaterThan(200);
  expect(waited).toBeLessThan(4_000); // before keepAliveTimeout, 5 s
  expect(server.listening).toBe(false);
  socket.destroy();
});

test("the receiver does not start on a descriptor of no socket", async () => {
  await expect(listen([9_999], vi.fn(), vi.fn())).rejects.toThrow("listen EINVAL");
});

test("a rejection keeps the connection where the body has arrived with the headers", async () => {
  const malformed = delivery({ signature: "sha256=" });
  const socket = await dial(running.port);
  for (let i = 0; i < 3; i++) {
    const answered = answer(socket);
    socket.write(Buffer.concat([Buffer.from(head(malformed)), malformed.body]));
    const { status, headers } = await answered;
    expect([status, headers.connection]).toEqual([401, "keep-alive"]);
  }
  socket.destroy();
});

test("the sender receives the answer to a request before the one to the invalid bytes behind it", async () => {
  const sent = delivery({ signature: null });
  const bytes = Buffer.concat([Buffer.from(head(sent)), sent.body, Buffer.from("invalid\r\n\r\n")]);
  expect((await running.raw(bytes)).status).toBe(401);
});
