/**
 * The receiver's checks, in the order of trust: the cheap ones first, and none parses a body before its signature is
 * verified. No answer is a 403, so that each 403 comes from another layer.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import express from "express";
import { webhookPath } from "../contract.ts";
import { type GitHost, gitHosts, otherSender } from "../git-hosts/index.ts";
import { decide, type Pushes } from "../git-hosts/payload.ts";
import type { Journal } from "../journal.ts";
import { type Exchange, type Headers, openExchange } from "./answer.ts";
import { readBody } from "./body.ts";
import { type Limiter, sourceOf } from "./limiter.ts";
import type { ReceiverHook, ReceiverSettings, Secrets } from "./settings.ts";
import { type Spool, SpoolFault } from "./spool.ts";

export type Parts = {
  readonly settings: Pick<ReceiverSettings, "hooks">;
  readonly secrets: Secrets;
  readonly limiter: Limiter;
  readonly spool: Spool;
  readonly journal: Journal;
};

type Checked = { exchange: Exchange; hook: ReceiverHook; gitHost: GitHost; body: Buffer; pushes: Pushes };
type Response = ServerResponse & { locals: Checked };
type Check = (req: IncomingMessage, res: Response, next: (error?: unknown) => void) => unknown;

const longestWait = 2_000; // ms that a request waits for a place: other customers of its git host send from its address
const mismatch = "the signature does not match: the git host's secret differs, or the body was altered";

export function createApp({ settings, secrets, limiter, spool, journal }: Parts): RequestListener {
  const { longestBody } = limiter;
  const hooks = new Map(settings.hooks.map((hook) => [webhookPath(hook.name), hook]));

  /** Uses the sender's budget. Not a 429, which would prolong itself, and no 5xx, which is the host's fault. */
  const reject = (res: Response, status: number, reason: string, more?: Headers): void => {
    const { exchange } = res.locals;
    const charged = exchange.hook !== null && status < 500 && status !== 429;
    const wait = charged ? limiter.rejected(sourceOf(exchange.source), exchange.hook!) : 0;
    exchange.overBudget = wait > 0;
    if (wait === 0) exchange.reject(status, reason, more);
    else exchange.reject(429, `the source exceeded rejectionsPerMinute: ${reason}`, ["Retry-After", String(wait)]);
  };

  /** Compares the request line's bytes: Express's routes also match /WEBHOOK/site, /webhook/site/ and /webhook/%73ite. */
  const path: Check = (req, res, next) => {
    const { url = "" } = req;
    const hook = hooks.get(url);
    if (!hook) return reject(res, 404, `no hook at ${url.replace(/\?.*/s, " with a query")}`); // which can hold a token
    res.locals.hook = hook;
    res.locals.gitHost = gitHosts[hook.gitHost];
    res.locals.exchange.hook = hook.name;
    if (req.method !== "POST") return reject(res, 405, `the method is ${req.method}, not POST`, ["Allow", "POST"]);
    next();
  };

  const headers: Check = ({ headers }, res, next) => {
    // A form's signature may cover other bytes than the body, and a compressed body grows beyond its declared length.
    const type = headers["content-type"] ?? "missing";
    if (!/^application\/json[\t ]*(;|$)/i.test(type))
      return reject(res, 415, `the content type is ${type}. Set application/json at the git host.`);
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding.toLowerCase() !== "identity") return reject(res, 415, `the content encoding is ${encoding}`);
    const length = Number(headers["content-length"] ?? 0);
    if (length > longestBody) return reject(res, 413, `${length} bytes are declared, ${longestBody} allowed`);
    const { gitHost, hook } = res.locals;
    const fault = gitHost.signatureFault(headers);
    if (fault !== undefined) return reject(res, 401, otherSender(headers, hook.gitHost) ?? fault);
    next();
  };

  /** Reserves the declared length, for a chunked body the limit. Without room, the request waits. */
  const place: Check = (req, res, next) => {
    const { exchange } = res.locals;
    const entered = limiter.enter(sourceOf(exchange.source), Number(req.headers["content-length"] ?? longestBody));
    if (typeof entered !== "string") exchange.free = entered;
    else if (performance.now() - exchange.started > longestWait) return reject(res, 429, entered, ["Retry-After", "1"]);
    else return void setTimeout(() => res.destroyed || place(req, res, next), 5);
    next();
  };

  const signedBody: Check = (req, res, next) => {
    const verified = (body: Buffer | undefined) => {
      const { gitHost, hook, exchange } = res.locals;
      if (!body) return reject(res, 413, `the body is larger than ${longestBody} bytes`);
      // With each secret, so that the time does not depend on which one matches.
      const all = secrets.get(hook.name) ?? [];
      const matches = all.map((secret) => gitHost.verify(secret, body, req.headers));
      if (!matches.includes(true)) return reject(res, 401, gitHost.mismatch?.(all[0]!, req.headers) ?? mismatch);
      res.locals.body = body;
      if (!matches[0]) exchange.signed = ", signed with the previous secret";
      next();
    };
    readBody(req, longestBody).then(verified).catch(next);
  };

  /** An ignored delivery is a 200: git hosts report a 4xx as a failure, and GitLab disables a hook that fails. */
  const branch: Check = (req, res, next) => {
    const { exchange, gitHost, hook, body } = res.locals;
    const decision = decide(gitHost.payload, req.headers, body, hook.branch, hook.previews?.branches);
    if ("fault" in decision) return reject(res, 400, decision.fault);
    if ("ignored" in decision)
      return exchange.answer(200, `ignored: ${decision.ignored}`, { status: "ignored", reason: decision.ignored });
    res.locals.pushes = decision;
    next();
  };

  const spooled: Check = async (_req, res) => {
    const { exchange, hook, pushes } = res.locals;
    const { delivery } = exchange;
    const received = { delivery, event: "push", received: new Date().toISOString() } as const;
    try {
      if (pushes.push) await spool({ hook: hook.name, ...received, ...pushes.push });
      if (pushes.preview) await spool({ hook: hook.previews!.hook, ...received, ...pushes.preview });
    } catch (error) {
      const why = error instanceof SpoolFault ? error.message : describe(error);
      return reject(res, 503, `not spooled: ${why}`, ["Retry-After", "30"]);
    }
    exchange.answer(202, "accepted", { status: "accepted", delivery });
  };

  // A router, which is an app without prototypes for requests and answers: they cost Node 20 twice the time of all else.
  const app = express.Router();
  app.use(place); // 429
  app.use(signedBody); // 413, 401
  app.use(branch); // 400, 200
  app.use(spooled); // 202, 503
  // The checks use nothing of what Express would add to Node's requests and answers.
  const checks = app as unknown as (...args: Parameters<Check>) => void;
  return (req, res) => {
    const locals = { exchange: openExchange(req, res, journal, longestBody) };
    const response = Object.assign(res, { locals }) as Response;
    const fail = (error: unknown): void => {
      const { status, message } = error as Error & { status?: number }; // a status: server.ts ended the body
      reject(response, status ?? 500, status ? message : `unhandled ${describe(error)}`);
    };
    // Before Express, whose layers cost as much as these checks: no flood is cheaper to send. 404, 405, 415, 413, 401
    try {
      path(req, response, () => headers(req, response, () => checks(req, response, fail)));
    } catch (error) {
      fail(error);
    }
  };
}

/** An error's code or name, and its place. Not its message: that of JSON.parse quotes what it parsed. */
function describe(error: unknown): string {
  const { code, name, stack } = error as NodeJS.ErrnoException;
  return [code ?? name, ...(stack?.match(/^ +at .*/m) ?? [])].map((part) => part.trim()).join(" ");
}
