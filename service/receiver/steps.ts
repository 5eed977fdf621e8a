/** The checks, each a middleware that passes on or throws a Refusal. `app.ts` puts them in order. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ErrorRequestHandler, RequestHandler } from "express";
import type { ReceiverHook, Secrets } from "../settings.ts";
import { Aborted, readBody } from "./body.ts";
import { type Decision, decide, type Payload, type Push, parsePayload } from "./delivery.ts";
import { Exchange, first } from "./exchange.ts";
import type { Journal } from "./journal.ts";
import { type Limits, sourceOf } from "./limits.ts";
import { Refusal, usesBudget } from "./refusal.ts";
import { isWellFormed, verify } from "./signature.ts";
import { type Spool, SpoolFull } from "./spool.ts";

/** What the steps before have found out. */
type Found = { exchange: Exchange; hook: ReceiverHook; body: Buffer; payload: Payload; push: Push };
type Step = RequestHandler<Record<string, string>, unknown, unknown, unknown, Found>;
type Recover = ErrorRequestHandler<Record<string, string>, unknown, unknown, unknown, Found>;

/** Seconds: a place is free again as soon as a request ends; a disk takes longer. */
const soon = { "Retry-After": "1" } as const;
const later = { "Retry-After": "30" } as const;

/** Names us on the answer and opens the journal's line. */
export const exchange =
  (journal: Journal, limit: number): Step =>
  (req, res, next) => {
    res.locals.exchange = new Exchange(req, res, journal, limit);
    next();
  };

/**
 * The request line's own bytes against the hooks' paths: nothing is decoded, folded or trimmed, so there is nothing to
 * trick. Express's own routes would take /WEBHOOK/site, /webhook/site/ and /webhook/%73ite.
 */
export const path = (hooks: readonly ReceiverHook[]): Step => {
  const byPath = new Map(hooks.map((hook) => [`/webhook/${hook.name}`, hook]));
  return (req, res, next) => {
    const hook = byPath.get(req.originalUrl);
    if (!hook) throw noHook(req.originalUrl);
    res.locals.hook = hook;
    res.locals.exchange.hook = hook.name;
    if (req.method !== "POST") throw new Refusal(405, `method ${req.method}`, { Allow: "POST" });
    next();
  };
};

/** Cut at "?": people put tokens into queries, and the journal is kept. */
const noHook = (url = "") => new Refusal(404, `no hook at ${url.split("?")[0]}`);

/** The same 404 for a request that reached no middleware. */
export const astray = (req: IncomingMessage, res: ServerResponse, journal: Journal): void =>
  new Exchange(req, res, journal, 0).refuse(noHook(req.url));

/** JSON as it is: a form signs other bytes than it carries, and a compressed body is larger than it looks. */
export const contentType: Step = (req, _res, next) => {
  const type = req.headers["content-type"] ?? "missing";
  if (!/^application\/json[\t ]*(;|$)/i.test(type))
    throw new Refusal(415, `content type ${type}: set application/json at the git host`);
  const encoding = req.headers["content-encoding"];
  if (encoding !== undefined && encoding.toLowerCase() !== "identity")
    throw new Refusal(415, `content encoding ${encoding}`);
  next();
};

export const declaredLength =
  (limit: number): Step =>
  (req, _res, next) => {
    const length = Number(req.headers["content-length"] ?? 0);
    if (length > limit) throw new Refusal(413, `${length} bytes declared, ${limit} allowed`);
    next();
  };

/** Whoever can't even pretend to know the secret is not worth a place. */
export const signatureHeader: Step = (req, _res, next) => {
  const header = first(req.headers["x-hub-signature-256"]);
  if (header === undefined) throw new Refusal(401, "no X-Hub-Signature-256: is a secret set at the git host?");
  if (!isWellFormed(header)) throw new Refusal(401, "X-Hub-Signature-256 is not one sha256= and 64 hex digits");
  next();
};

/** A chunked body may become as large as is allowed, so that much is reserved. */
export const place =
  (limits: Limits, limit: number): Step =>
  (req, res, next) => {
    const bytes = Number(req.headers["content-length"] ?? limit);
    const entered = limits.enter(sourceOf(res.locals.exchange.source), bytes);
    if (typeof entered === "string") throw new Refusal(429, entered, soon);
    res.once("close", entered);
    next();
  };

export const body =
  (limit: number): Step =>
  async (req, res, next) => {
    res.locals.body = await readBody(req, limit);
    next();
  };

export const signature =
  (secrets: Secrets): Step =>
  (req, res, next) => {
    const { hook, body } = res.locals;
    if (!verify(secrets.get(hook.name) ?? [], body, first(req.headers["x-hub-signature-256"])))
      throw new Refusal(401, "the signature does not match: the git host's secret differs, or the body was altered");
    next();
  };

export const jsonObject: Step = (_req, res, next) => {
  const payload = parsePayload(res.locals.body);
  if (!payload) throw new Refusal(400, "the body is not a JSON object");
  res.locals.payload = payload;
  next();
};

/** Ignored is 200: git hosts paint 4xx red, and GitLab switches such a hook off. */
export const eventAndBranch: Step = (req, res, next) => {
  const { exchange, hook, payload } = res.locals;
  const decision: Decision | undefined = decide(first(req.headers["x-github-event"]), payload, hook.branch);
  if (!decision) throw new Refusal(400, "a push without a ref");
  if ("push" in decision) {
    res.locals.push = decision.push;
    next();
    return;
  }
  exchange.record(200, `ignored: ${decision.ignored}`);
  exchange.answer(200, { status: "ignored", reason: decision.ignored });
};

export const spooled =
  (spool: Spool, now = () => new Date()): Step =>
  async (_req, res) => {
    const { exchange, hook, push } = res.locals;
    const { delivery } = exchange;
    try {
      await spool({ delivery, hook: hook.name, event: "push", ...push, received: now().toISOString() });
    } catch (error) {
      throw new Refusal(
        503,
        `not spooled: ${error instanceof SpoolFull ? "the spool is full" : describe(error)}`,
        later,
      );
    }
    exchange.record(202, "accepted");
    exchange.answer(202, { status: "accepted", delivery });
  };

/** Every no ends here. Over the budget a refusal is a 429, whatever it was: only refusals are ever limited. */
export const refusals =
  (limits: Limits): Recover =>
  (error: unknown, _req, res, _next) => {
    const { exchange } = res.locals;
    if (error instanceof Aborted) return;
    const refusal = error instanceof Refusal ? error : new Refusal(500, `unhandled ${describe(error)}`);
    const wait =
      usesBudget(refusal.status) && exchange.hook !== null
        ? limits.refused(sourceOf(exchange.source), exchange.hook)
        : 0;
    exchange.refuse(
      wait === 0
        ? refusal
        : new Refusal(429, `over the budget of refusals: ${refusal.reason}`, { "Retry-After": String(wait) }),
    );
  };

/** Code or name and the place, never the message: JSON.parse's quotes what it read. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const at = error.stack?.split("\n").find((line) => /^\s+at /.test(line));
  return `${(error as NodeJS.ErrnoException).code ?? error.name}${at ? ` ${at.trim()}` : ""}`;
}
