/** One request to a server that answers wrongly, too much, or only half. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { exchange } from "../../service/exchange.ts";
import { startHttpsServer, trust } from "../fakes/https-server.ts";
import { deadFirst } from "./dead-address.ts";

let answer: (response: ServerResponse) => void;
let sent: IncomingHttpHeaders;
const server = await startHttpsServer(async ({ headers }, response) => {
  sent = headers;
  answer(response);
});
trust(server.ca);
afterAll(() => server.close());

const what = () => ({ url: server.origin, headers: {}, body: "{}" });
const ask = (seconds = 30) => exchange(what(), { seconds });

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
  expect(sent).toMatchObject({ connection: "close", "content-type": "application/json", "user-agent": "pushgate" });
});

const late = "no answer within 0.3 s";
const noAnswer = "the server closed the connection without an answer";
test.each([
  ["another protocol", "101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", noAnswer],
  ["half of its first line", "20", "socket hang up"],
  ["half of a body", "200 OK\r\ncontent-length: 9\r\n\r\nhalf", "aborted"],
  ["interim answers alone", "103 Early Hints\r\n\r\n", late, true],
  ["a trailer without an end", "200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\r\n", late, true],
])("each end of a request ends it: of %s", { timeout: 10_000 }, async (_, text, says, isOpen = false) => {
  answer = ({ socket }) => {
    socket!.write(`HTTP/1.1 ${text}`);
    if (!isOpen) socket!.end();
  };
  await expect(ask(isOpen ? 0.3 : 30)).rejects.toThrow(says);
});

test("a redirect is an answer, which no second request follows", async () => {
  let requests = 0;
  answer = (response) => {
    requests += 1;
    response.writeHead(307, { location: `${server.origin}/elsewhere` }).end();
  };
  expect((await ask()).status).toBe(307);
  expect(requests).toBe(1);
});

test("a certificate of an unknown authority is no server's", async () => {
  const other = await startHttpsServer(async () => {});
  onTestFinished(() => other.close());
  await expect(exchange({ ...what(), url: other.origin }, { seconds: 30 })).rejects.toThrow(/certificate/);
});

test("a first address that leads nowhere does not hide the second, whatever the default of this Node is", async () => {
  deadFirst();
  answer = (response) => void response.end("here");
  expect((await ask()).text).toBe("here");
});

test.each([
  ["GET", undefined, "second"],
  ["POST", "{}", "socket hang up"],
])(
  "a %s is sent anew where the server had closed the connection that was kept: its body is %s",
  async (_, body, says) => {
    let type: string | undefined;
    answer = (response) => {
      type = response.req.headers["content-type"];
      response.end("first");
    };
    const bounds = { seconds: 30, keeps: true };
    const asked = () =>
      exchange({ ...what(), body }, bounds).then(
        ({ text }) => text,
        (error: Error) => error.message,
      );
    expect([await asked(), type]).toEqual(["first", body && "application/json"]);
    let seen = 0;
    answer = (response) => {
      if (seen++ === 0) response.socket!.destroy();
      else response.end("second");
    };
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await asked()).toBe(says);
  },
);

test("the bound of time keeps no process alive after the answer", async () => {
  const timers = vi.spyOn(globalThis, "setTimeout");
  onTestFinished(() => timers.mockRestore());
  answer = (response) => void response.end();
  await ask(77);
  const bound = timers.mock.calls.findIndex(([, after]) => after === 77_000);
  expect(timers.mock.results[bound]?.value.hasRef()).toBe(false);
});
