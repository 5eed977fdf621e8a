/**
 * The receiver's checks. The order of middleware is the order of trust: the cheapest rejection comes first, the receiver
 * reads a body only after its headers and parses it only after its signature. Its answers are never 403, so that a 403
 * always comes from another layer.
 */
import type { RequestListener } from "node:http";
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from "express";
import { type Dialect, gitHosts, type Payload, type Push } from "../git-hosts/index.ts";
import type { ReceiverHook, ReceiverSettings, Secrets } from "../settings.ts";
import { type Exchange, type Journal, openExchange, Rejection } from "./answer.ts";
import { parsePayload, readBody } from "./body.ts";
import { type Limits, sourceOf } from "./limits.ts";
import { type Spool, SpoolFull } from "./spool.ts";

export type Parts = {
  readonly settings: Pick<ReceiverSettings, "hooks" | "limits">;
  readonly secrets: Secrets;
  readonly limits: Limits;
  readonly spool: Spool;
  readonly journal: Journal;
};

/** Results of earlier checks, in `res.locals`. */
type Found = { exchange: Exchange; hook: ReceiverHook; dialect: Dialect; body: Buffer; payload: Payload; push: Push };
type Check = RequestHandler<Record<string, string>, unknown, unknown, unknown, Found>;
type Recovery = ErrorRequestHandler<Record<string, string>, unknown, unknown, unknown, Found>;

export function createApp({ settings, secrets, limits, spool, journal }: Parts): RequestListener {
  const { bodyBytes } = settings.limits;
  const hooks = new Map(settings.hooks.map((hook) => [`/webhook/${hook.name}`, hook]));
  // Without the query, which can hold a token.
  const noHook = (url = "") => new Rejection(404, `no hook at ${url.split("?")[0]}`);

  const exchange: Check = (req, res, next) => {
    res.locals.exchange = openExchange(req, res, journal, bodyBytes);
    next();
  };

  /** Compares the request line's bytes: Express's routes also match /WEBHOOK/site, /webhook/site/ and /webhook/%73ite. */
  const path: Check = (req, res, next) => {
    const hook = hooks.get(req.originalUrl);
    if (!hook) throw noHook(req.originalUrl);
    res.locals.hook = hook;
    res.locals.dialect = gitHosts[hook.gitHost].dialect!; // settings.ts admits no other git host
    res.locals.exchange.hook = hook.name;
    if (req.method !== "POST") throw new Rejection(405, `the method is ${req.method}, not POST`, { Allow: "POST" });
    next();
  };

  /** A form signs other bytes than it carries, and a compressed body can become larger than its declared length. */
  const contentType: Check = ({ headers }, _res, next) => {
    const type = headers["content-type"] ?? "missing";
    if (!/^application\/json[\t ]*(;|$)/i.test(type))
      throw new Rejection(415, `the content type is ${type}. Set application/json at the git host.`);
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding.toLowerCase() !== "identity") throw new Rejection(415, `the content encoding is ${encoding}`);
    next();
  };

  const declaredLength: Check = ({ headers }, _res, next) => {
    const length = Number(headers["content-length"] ?? 0);
    if (length > bodyBytes) throw new Rejection(413, `${length} bytes are declared, ${bodyBytes} allowed`);
    next();
  };

  /** Rejects a missing or malformed signature before memory is reserved for the body. */
  const signatureHeader: Check = (req, res, next) => {
    const fault = res.locals.dialect.signatureFault(req.headers);
    if (fault !== undefined) throw new Rejection(401, fault);
    next();
  };

  /** Reserves the declared length, or the limit for a chunked body, which can become as large. */
  const place: Check = (req, res, next) => {
    const bytes = Number(req.headers["content-length"] ?? bodyBytes);
    const entered = limits.enter(sourceOf(res.locals.exchange.source), bytes);
    if (typeof entered === "string") throw new Rejection(429, entered, { "Retry-After": "1" });
    res.once("close", entered);
    next();
  };

  const body: Check = async (req, res, next) => {
    res.locals.body = await readBody(req, bodyBytes);
    next();
  };

  const signature: Check = (req, res, next) => {
    const { dialect, hook, body } = res.locals;
    if (!dialect.verify(secrets.get(hook.name) ?? [], body, req.headers))
      throw new Rejection(401, "the signature does not match: the git host's secret differs, or the body was altered");
    next();
  };

  const jsonObject: Check = (_req, res, next) => {
    const payload = parsePayload(res.locals.body);
    if (!payload) throw new Rejection(400, "the body is not a JSON object");
    res.locals.payload = payload;
    next();
  };

  /** An ignored delivery is a 200: git hosts report a 4xx as a failure, and GitLab disables a hook that fails. */
  const eventAndBranch: Check = (req, res, next) => {
    const { exchange, dialect, hook, payload } = res.locals;
    const decision = dialect.decide(req.headers, payload, hook.branch);
    if (!decision) throw new Rejection(400, "the push names no ref");
    if ("ignored" in decision) {
      const { ignored } = decision;
      return exchange.answer(200, `ignored: ${ignored}`, { status: "ignored", reason: ignored });
    }
    res.locals.push = decision.push;
    next();
  };

  const spooled: Check = async (_req, res) => {
    const { exchange, hook, push } = res.locals;
    const { delivery } = exchange;
    try {
      await spool({ delivery, hook: hook.name, event: "push", ...push, received: new Date().toISOString() });
    } catch (error) {
      const why = error instanceof SpoolFull ? "the spool is full" : describe(error);
      throw new Rejection(503, `not spooled: ${why}`, { "Retry-After": "30" });
    }
    exchange.answer(202, "accepted", { status: "accepted", delivery });
  };

  /** A sender's fault uses its budget: a 429 does not, else it would prolong itself, and a 5xx is this host's fault. */
  const rejections: Recovery = (error: unknown, req, res, _next) => {
    const { exchange } = res.locals;
    const failure = error instanceof Rejection ? error : new Rejection(500, `unhandled ${describe(error)}`);
    if (failure !== error && req.destroyed && !req.complete) return; // the sender left, and the journal has its 499
    const { status, reason } = failure;
    const charged = exchange.hook !== null && status < 500 && status !== 429;
    const wait = charged ? limits.rejected(sourceOf(exchange.source), exchange.hook!) : 0;
    if (wait === 0) return exchange.reject(failure);
    exchange.reject(
      new Rejection(429, `the source exceeded refusalsPerMinute: ${reason}`, { "Retry-After": String(wait) }),
    );
  };

  const app = express();
  app.disable("x-powered-by");
  app.use(exchange);
  app.use(path); // 404, 405
  app.use(contentType); // 415
  app.use(declaredLength); // 413
  app.use(signatureHeader); // 401
  app.use(place); // 429
  app.use(body); // 413
  app.use(signature); // 401
  app.use(jsonObject); // 400
  app.use(eventAndBranch); // 200, 400
  app.use(spooled); // 202, 503
  app.use(rejections); // what the lines above throw, 429, 500
  // Express calls no middleware for a target that it cannot parse, such as "http://?".
  return (req, res) =>
    app(req as Request, res as Response, () => openExchange(req, res, journal, 0).reject(noHook(req.url)));
}

/** An error's code or name and its place, never its message: that of JSON.parse quotes what it parsed. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const at = error.stack?.split("\n").find((line) => /^\s+at /.test(line));
  return `${(error as NodeJS.ErrnoException).code ?? error.name}${at ? ` ${at.trim()}` : ""}`;
}
