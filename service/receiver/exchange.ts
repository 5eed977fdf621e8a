/**
 * One request and its one answer: the header that names us, a JSON object, and a line in the journal, whatever happens.
 * To a failed check the body says the status's name and no more; the reason is the journal's.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { endGently } from "./body.ts";
import { deliveryId } from "./delivery.ts";
import type { Journal } from "./journal.ts";
import type { Refusal } from "./refusal.ts";

/** Every answer carries it, so that a no without it is another layer's. */
export const servedBy = { "X-Served-By": "pushgate-receiver" } as const;

export class Exchange {
  readonly delivery: string;
  /** The peer's address. The proxy binds to the real client's, so no header is asked. */
  readonly source: string | undefined;
  hook: string | null = null;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #journal: Journal;
  readonly #linger: number;
  readonly #started = performance.now();
  #recorded = false;

  /** `linger`: bytes of an unread body that are read off after an answer. */
  constructor(req: IncomingMessage, res: ServerResponse, journal: Journal, linger: number) {
    this.delivery = deliveryId(first(req.headers["x-github-delivery"]));
    this.source = req.socket.remoteAddress;
    this.#req = req;
    this.#res = res;
    this.#journal = journal;
    this.#linger = linger;
    res.on("close", () => this.record(499, "the sender left before the answer"));
  }

  /** One line, the first time; an exchange ends once. */
  record(status: number, reason: string): void {
    if (this.#recorded) return;
    this.#recorded = true;
    const ms = Math.round((performance.now() - this.#started) * 10) / 10;
    const { delivery, hook, source = null } = this;
    this.#journal({ delivery, hook, source, status, reason, ms });
  }

  answer(status: number, body: Readonly<Record<string, string>>, headers: Readonly<Record<string, string>> = {}): void {
    if (this.#res.headersSent || this.#res.destroyed) return;
    const text = `${JSON.stringify(body)}\n`;
    // A sender that is refused before its body was read would otherwise have all of it read off on a kept connection.
    if (!this.#req.complete) this.#res.setHeader("Connection", "close");
    this.#res.writeHead(status, {
      ...servedBy,
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(text),
      ...headers,
    });
    this.#res.write(text);
    endGently(this.#req, this.#res, this.#linger);
  }

  refuse({ status, reason, headers }: Refusal): void {
    this.record(status, reason);
    this.answer(status, { status: STATUS_CODES[status] ?? "Refused" }, headers);
  }
}

/** A header's value; Node joins repeated ones of these names to one string. */
export const first = (value: string | string[] | undefined): string | undefined =>
  Array.isArray(value) ? value.join(", ") : value;
