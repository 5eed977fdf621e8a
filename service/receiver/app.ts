/**
 * The order of middleware is the order of trust: the cheapest refusal first, nothing read before it must be, nothing
 * parsed before it is signed. Never 403: a 403 is always another layer's. Take a line away and a test says what was lost.
 */
import type { RequestListener } from "node:http";
import express, { type Request, type Response } from "express";
import type { ReceiverSettings, Secrets } from "../settings.ts";
import type { Journal } from "./journal.ts";
import type { Limits } from "./limits.ts";
import type { Spool } from "./spool.ts";
import * as step from "./steps.ts";

export type Parts = {
  readonly settings: Pick<ReceiverSettings, "hooks" | "limits">;
  readonly secrets: Secrets;
  readonly limits: Limits;
  readonly spool: Spool;
  readonly journal: Journal;
};

export function createApp({ settings, secrets, limits, spool, journal }: Parts): RequestListener {
  const { bodyBytes } = settings.limits;
  const app = express();
  app.disable("x-powered-by");
  app.use(step.exchange(journal, bodyBytes));
  app.use(step.path(settings.hooks)); // 404, 405
  app.use(step.contentType); // 415
  app.use(step.declaredLength(bodyBytes)); // 413
  app.use(step.signatureHeader); // 401
  app.use(step.place(limits, bodyBytes)); // 429
  app.use(step.body(bodyBytes)); // 413
  app.use(step.signature(secrets)); // 401
  app.use(step.jsonObject); // 400
  app.use(step.eventAndBranch); // 200, 400
  app.use(step.spooled(spool)); // 202, 503
  app.use(step.refusals(limits)); // what the lines above throw, 429, 500
  // Express parses the request's target before it asks any line above; what it can't parse ("http://?") comes here.
  return (req, res) => app(req as Request, res as Response, () => step.astray(req, res, journal));
}
