/** One request, its one answer, and its one line in the journal, without a body, a signature or a secret. */
import { randomUUID } from "node:crypto";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { servedByReceiver } from "../contract.ts";
import { markedBy } from "../git-hosts/index.ts";
import type { Journal } from "../journal.ts";
import { endGently } from "./body.ts";

type Texts = Readonly<Record<string, string>>;

/** Names and values in turn. To join objects for each answer would take as long as all the rest of a rejection. */
export type Headers = readonly string[];

function rendered(body: Texts) {
  const text = `${JSON.stringify(body)}\n`;
  const length = String(Buffer.byteLength(text));
  const headers = ["X-Served-By", servedByReceiver, "Content-Type", "application/json", "Content-Length", length];
  return { text, headers };
}
type Rendered = ReturnType<typeof rendered>;

/** The answers of rejections by status, each rendered once. */
export const rejections: Readonly<Record<number, Rendered>> = Object.fromEntries(
  Object.entries(STATUS_CODES).map(([code, status = ""]) => [code, rendered({ status })]),
);

export type Exchange = ReturnType<typeof openExchange>;

/** `linger`: the most bytes of an unread body that are discarded after the answer. */
export function openExchange(req: IncomingMessage, res: ServerResponse, journal: Journal, linger: number) {
  const id = req.headers[markedBy(req.headers)?.deliveryHeader ?? ""];
  let recorded = false;
  const record = (status: number, reason: string) => {
    const { delivery, hook, source, overBudget } = exchange;
    const ms = Math.round((performance.now() - exchange.started) * 10) / 10;
    if (!recorded) journal({ delivery, hook, source, status, reason, ms, ...(overBudget && { overBudget: true }) });
    recorded = true;
  };
  const send = (status: number, reason: string, { text, headers: always }: Rendered, more: Headers = []): void => {
    record(status, reason);
    const headers = [...always, ...more];
    // In the event loop's next phase: after the journal's write, and after Node has parsed a body that came at once.
    setImmediate(() => {
      if (req.complete) return void res.writeHead(status, headers).end(text);
      // Without `Connection: close` Node would read the whole rest of a rejected body, to reach the next request.
      res.writeHead(status, [...headers, "Connection", "close"]).write(text);
      void endGently(req, res, linger);
    });
  };
  const exchange = {
    started: performance.now(),
    /** The git host's id where it can be a file's name, else a random one. No signature covers it. */
    delivery: typeof id === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(id) ? id : randomUUID(),
    /** nginx connects from the real client's address: no header has to be trusted. */
    source: req.socket.remoteAddress ?? null,
    hook: null as string | null,
    overBudget: false,
    /** What the journal adds of an answer to a signed delivery. */
    signed: "",
    /** Frees what the request reserved, once its connection is free. */
    free: () => {},
    answer: (status: number, reason: string, body: Texts) => send(status, reason + exchange.signed, rendered(body)),
    /** A 401 has its reason: the git host shows the answer to the person who entered the secret there. */
    reject: (status: number, reason: string, more?: Headers) =>
      send(status, reason, status === 401 ? rendered({ status: "Unauthorized", reason }) : rejections[status]!, more),
  };
  res.on("close", () => {
    exchange.free();
    record(499, "the sender closed the connection before the answer");
  });
  return exchange;
}
