/**
 * One request, its one answer with X-Served-By, and its one line in the journal, without a body, a signature or a secret.
 * The sender of a rejected request learns the status and its name alone.
 */
import { randomUUID } from "node:crypto";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { gitHosts, verifiedGitHosts } from "../git-hosts/index.ts";
import { endGently } from "./body.ts";

type Texts = Readonly<Record<string, string>>;

/** A failed check; its reason is for the journal. Not an Error, because capturing a stack takes time. */
export class Rejection {
  readonly status: number;
  readonly reason: string;
  readonly headers: Texts;
  constructor(status: number, reason: string, headers: Texts = {}) {
    this.status = status;
    this.reason = reason;
    this.headers = headers;
  }
}

/** A line of `journalctl -o cat -u pushgate-receiver`. */
export type Entry = {
  readonly delivery: string | null;
  readonly hook: string | null;
  readonly source: string | null; // the address that the connection came from
  readonly status: number; // 499 where the sender left before the answer, as in nginx's log; 0 without an answer
  readonly reason: string;
  readonly ms: number; // from the request's headers to the answer
};
export type Journal = (entry: Entry) => void;

/** Controls, text directions and separators, which change or hide text on a terminal. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;
const printable = (text: string) => text.slice(0, 200).replace(unprintable, "");
export const line = (entry: Entry): string =>
  JSON.stringify(entry, (_, value) => (typeof value === "string" ? printable(value) : value));

/** An answer's text and its headers: an answer without this X-Served-By comes from another layer. */
export function rendered(body: Texts, headers: Texts) {
  const text = `${JSON.stringify(body)}\n`;
  const always = { "X-Served-By": "pushgate-receiver", "Content-Type": "application/json" };
  return { text, headers: { ...always, "Content-Length": String(Buffer.byteLength(text)), ...headers } };
}
export const nameOf = (status: number): Texts => ({ status: STATUS_CODES[status] ?? "" });

const deliveryHeaders = [...new Set(verifiedGitHosts.map((name) => gitHosts[name].deliveryHeader))];

/** The git host's id where it can be a file's name, else a random one. It proves nothing: no signature covers it. */
function deliveryId({ headers }: IncomingMessage): string {
  const id = deliveryHeaders.map((name) => headers[name]).find((value) => value !== undefined);
  return typeof id === "string" && /^[A-Za-z0-9-]{1,64}$/.test(id) ? id : randomUUID();
}

export type Exchange = ReturnType<typeof openExchange>;

/** `linger`: the most bytes of an unread body that are discarded after the answer. */
export function openExchange(req: IncomingMessage, res: ServerResponse, journal: Journal, linger: number) {
  const started = performance.now();
  let recorded = false;
  const record = (status: number, reason: string) => {
    const { delivery, hook, source } = exchange;
    const ms = Math.round((performance.now() - started) * 10) / 10;
    if (!recorded) journal({ delivery, hook, source, status, reason, ms });
    recorded = true;
  };
  const exchange = {
    delivery: deliveryId(req),
    /** The real client's address, because nginx connects from it: no header has to be trusted. */
    source: req.socket.remoteAddress ?? null,
    hook: null as string | null,
    answer(status: number, reason: string, body: Texts, more: Texts = {}): void {
      record(status, reason);
      if (res.headersSent || res.destroyed) return;
      const { text, headers } = rendered(body, more);
      // Without it Node would read all the rest of a rejected body, for the next request on the connection.
      if (!req.complete) res.setHeader("Connection", "close");
      res.writeHead(status, headers).write(text);
      void endGently(req, res, linger);
    },
    reject: ({ status, reason, headers }: Rejection) => exchange.answer(status, reason, nameOf(status), headers),
  };
  res.once("close", () => record(499, "the sender closed the connection before the answer"));
  return exchange;
}
