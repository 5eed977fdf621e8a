/** Starts a receiver in the test's process, and returns its port, its spool and its journal. */
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type JournalLine, line } from "../../../service/journal.ts";
import { createApp, type Parts } from "../../../service/receiver/app.ts";
import { createLimiter } from "../../../service/receiver/limiter.ts";
import { bounds, createReceiver } from "../../../service/receiver/server.ts";
import type { ReceiverSettings } from "../../../service/receiver/settings.ts";
import { openSpool, type Spooled } from "../../../service/receiver/spool.ts";
import { type Delivery, type Change as DeliveryChange, delivery } from "../../fakes/deliveries.ts";
import { secrets } from "../../fixtures.ts";

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

export type Running = Awaited<ReturnType<typeof receiver>>;

export const hooks: ReceiverSettings["hooks"] = [
  { name: "site", gitHost: "github", branch: "main" },
  { name: "docs", gitHost: "forgejo", branch: "main" },
];

export const limits: ReceiverSettings["limits"] = {
  bodyBytes: 128 << 10,
  rejectionsPerMinute: 60,
  concurrentPerSource: 32,
};

export const bySecrets: Parts["secrets"] = new Map([
  ["site", [secrets.site.current, secrets.site.previous]],
  ["docs", [secrets.docs.current]],
]);

type Change = Partial<Parts> & {
  readonly bound?: Partial<typeof bounds>;
  readonly limit?: Partial<typeof limits>;
  readonly hooks?: ReceiverSettings["hooks"];
};

export async function receiver({ bound, limit, hooks: declared = hooks, ...change }: Change = {}) {
  const spool = mkdtempSync(join(tmpdir(), "pushgate-receiver-"));
  const journal: JournalLine[] = [];
  const settings = { hooks: declared, limits: { ...limits, ...limit } };
  const parts: Parts = {
    settings,
    secrets: bySecrets,
    limiter: createLimiter(settings.limits),
    spool: openSpool(spool, ["site", "docs", "site-previews"]),
    // Parsed from the written line, so that a test sees what journalctl prints.
    journal: (entry) => journal.push(JSON.parse(line(entry))),
    ...change,
  };
  const server = createReceiver(createApp(parts), parts.journal, { ...bounds, ...bound });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    const closed = once(server.close(), "close");
    server.closeAllConnections();
    await closed;
    rmSync(spool, { recursive: true, force: true });
  };
  return {
    port,
    journal: journal as readonly JournalLine[],
    /** The spool's files, also dot files, as [path below the spool, content]. */
    spooled: () =>
      (readdirSync(spool, { recursive: true }) as string[])
        .filter((path) => path.includes("/"))
        .map((path): [string, Spooled] => [path, JSON.parse(readFileSync(join(spool, path), "utf8"))]),
    /** Sends the whole delivery on a new connection, as a git host does. */
    send: (delivery: Delivery) => exchange(port, [head(delivery), delivery.body]),
    /** Sends these bytes and waits for an answer, or for the end of the connection (status 0). */
    raw: (...bytes: (string | Buffer)[]) => exchange(port, bytes),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** The request line and the headers as bytes on the wire; `and`: more header lines, which may repeat a name. */
export function head({ method, path, host, headers }: Delivery, ...and: string[]): string {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${host}`,
    ...Object.entries(headers).map((pair) => pair.join(": ")),
  ];
  return [...lines, ...and, "", ""].join("\r\n");
}

/** A delivery's head without a declared length. */
export function chunkedHead(change: DeliveryChange = {}): string {
  const sent = delivery(change);
  const { "content-length": _, ...headers } = sent.headers;
  return head({ ...sent, headers }, "transfer-encoding: chunked");
}

export function dial(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => resolve(socket)).once("error", reject);
  });
}

export const chunk = (bytes: Buffer | string): Buffer =>
  Buffer.concat([Buffer.from(`${Buffer.byteLength(bytes).toString(16)}\r\n`), Buffer.from(bytes), Buffer.from("\r\n")]);

export async function exchange(port: number, parts: readonly (string | Buffer)[]): Promise<Answer> {
  const socket = await dial(port);
  const answered = answer(socket);
  for (const part of parts) if (socket.writable) socket.write(part);
  return answered.finally(() => socket.destroy());
}

const ignored = () => {};

/** The next answer on a connection; status 0 where the connection ends without one. */
export function answer(socket: Socket): Promise<Answer> {
  return new Promise((resolve) => {
    let text = "";
    const done = () => {
      socket.off("data", onData).off("close", done);
      resolve(parsed(text) ?? { status: 0, headers: {}, body: text });
    };
    const onData = (bytes: Buffer) => {
      text += bytes.toString("latin1");
      if (parsed(text)) done();
    };
    socket.off("error", ignored).on("error", ignored);
    socket.on("data", onData).on("close", done);
  });
}

function parsed(text: string): Answer | undefined {
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = text.slice(0, end).split("\r\n");
  const headers = Object.fromEntries(
    lines.map((each) => [each.slice(0, each.indexOf(":")).toLowerCase(), each.slice(each.indexOf(":") + 1).trim()]),
  );
  const body = text.slice(end + 4);
  if (body.length < Number(headers["content-length"] ?? 0)) return undefined;
  return { status: Number(first.split(" ")[1]), headers, body };
}
