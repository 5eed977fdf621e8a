/**
 * One request and its one answer. Each answer carries X-Served-By and each request writes one line to the journal, which
 * never holds a body, a signature or a secret. The sender of a rejected request receives the status and its name alone.
 */
import { randomUUID } from "node:crypto";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { gitHosts, verifiedGitHosts } from "../git-hosts/index.ts";

type Headers = Readonly<Record<string, string>>;

/** A failed check. No Error: a stack would cost time, and a sender's fault has no place in this program. */
export class Rejection {
  readonly status: number;
  /** For the journal. */
  readonly reason: string;
  readonly headers: Headers;
  constructor(status: number, reason: string, headers: Headers = {}) {
    this.status = status;
    this.reason = reason;
    this.headers = headers;
  }
}

/** One line of `journalctl -o cat -u pushgate-receiver`. */
export type Entry = {
  readonly delivery: string | null;
  readonly hook: string | null;
  /** The address that the connection came from. */
  readonly source: string | null;
  /** Of the answer; 499 where the sender left first, as in nginx's log; 0 where no answer was possible. */
  readonly status: number;
  readonly reason: string;
  /** Milliseconds from the request's headers to the answer. */
  readonly ms: number;
};

export type Journal = (entry: Entry) => void;

/** Controls, formats such as text direction, and separators: they change or hide text on a terminal. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** The entry as JSON. A value is cut to 200 characters, as a path or a header can have 8 KiB. */
export const line = (entry: Entry): string =>
  JSON.stringify(entry, (_, value) =>
    typeof value === "string" ? value.slice(0, 200).replace(unprintable, "") : value,
  );

/** An answer's text, and the headers that all answers have: an answer without this X-Served-By is another layer's. */
export function rendered(body: Readonly<Record<string, string | undefined>>) {
  const text = `${JSON.stringify(body)}\n`;
  const length = String(Buffer.byteLength(text));
  const headers = { "X-Served-By": "pushgate-receiver", "Content-Type": "application/json", "Content-Length": length };
  return { text, headers };
}

const deliveryHeaders = [...new Set(verifiedGitHosts.map((name) => gitHosts[name].deliveryHeader))];

/** The git host's id where it can be a file's name, else a random one. No signature covers it: it proves nothing. */
function deliveryId({ headers }: IncomingMessage): string {
  const id = deliveryHeaders.map((name) => headers[name]).find((value) => value !== undefined);
  return typeof id === "string" && /^[A-Za-z0-9-]{1,64}$/.test(id) ? id : randomUUID();
}

export type Exchange = ReturnType<typeof openExchange>;

/** `linger`: the most bytes of an unread body that are discarded after the answer. */
export function openExchange(req: IncomingMessage, res: ServerResponse, journal: Journal, linger: number) {
  const started = performance.now();
  let recorded = false;
  const exchange = {
    delivery: deliveryId(req),
    /** The peer's address. nginx connects from the real client's, so that no header has to be trusted. */
    source: req.socket.remoteAddress ?? null,
    hook: null as string | null,
    answer(status: number, reason: string, body: Headers, headers: Headers = {}): void {
      record(status, reason);
      if (res.headersSent || res.destroyed) return;
      const { text, headers: always } = rendered(body);
      // On a kept connection Node would read the rest of a rejected body before the next request.
      if (!req.complete) res.setHeader("Connection", "close");
      res.writeHead(status, { ...always, ...headers }).write(text);
      endGently(req, res, linger);
    },
    reject({ status, reason, headers }: Rejection): void {
      exchange.answer(status, reason, { status: STATUS_CODES[status] ?? "" }, headers);
    },
  };
  function record(status: number, reason: string): void {
    if (recorded) return;
    recorded = true;
    const { delivery, hook, source } = exchange;
    journal({ delivery, hook, source, status, reason, ms: Math.round((performance.now() - started) * 10) / 10 });
  }
  res.once("close", () => record(499, "the sender closed the connection before the answer"));
  return exchange;
}

/**
 * Ends a written answer once the sender has finished, at most `limit` bytes or 2 s later. An immediate end would reset
 * the connection while nginx still writes the body, and nginx would answer 502 in place of the receiver's 401.
 */
function endGently(req: IncomingMessage, res: ServerResponse, limit: number): void {
  const end = () => res.end();
  if (req.complete) return void end();
  let bytes = 0;
  const timer = setTimeout(end, 2_000);
  req.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limit) end();
  });
  req.once("end", end).once("close", end).resume();
  res.once("close", () => clearTimeout(timer));
}
