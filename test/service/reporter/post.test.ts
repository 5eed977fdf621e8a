/** One request of the reporter to a server that answers wrongly, too much, or only half. */
import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { post } from "../../../service/reporter/post.ts";
import { type HttpsServer, startHttpsServer } from "../../fakes/https-server.ts";

let server: HttpsServer;
let answer: (response: ServerResponse) => void;
beforeAll(async () => {
  server = await startHttpsServer(async (_, response) => answer(response));
});
afterAll(() => server.close());

const what = () => ({ url: server.origin, headers: {}, body: "{}" });
const ask = (seconds = 30) => post(what(), seconds, server.ca);

test("an answer of 16 KiB is enough, and the connection of one that goes on is closed", {
  timeout: 10_000,
}, async () => {
  let closed: Promise<void> | undefined;
  answer = (response) => {
    closed = new Promise((resolve) => response.once("close", resolve));
    response.writeHead(200).write("x".repeat(16 << 10));
  };
  expect((await ask()).text).toBe("x".repeat(16 << 10));
  await closed;
});

test("one byte less is not enough where the answer does not end", async () => {
  answer = (response) => void response.writeHead(200).write("x".repeat((16 << 10) - 1));
  await expect(ask(0.2)).rejects.toThrow("no answer within 0.2 s");
});

test("an answer that the server breaks off is none", { timeout: 10_000 }, async () => {
  answer = (response) => void response.writeHead(200, { "content-length": 9 }).write("half", () => response.destroy());
  await expect(ask()).rejects.toThrow("aborted");
});

test("the bound of time keeps no process alive after the answer", async () => {
  const timers = vi.spyOn(globalThis, "setTimeout");
  onTestFinished(() => timers.mockRestore());
  answer = (response) => void response.end();
  await ask(77);
  const bound = timers.mock.calls.findIndex(([, after]) => after === 77_000);
  expect(timers.mock.results[bound]?.value.hasRef()).toBe(false);
});
