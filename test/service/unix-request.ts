/** A request to a unix socket, without a Host header. */
import { type IncomingHttpHeaders, request } from "node:http";
import type { Delivery } from "../fakes/deliveries.ts";

type Answer = { readonly status: number | undefined; readonly text: string; readonly headers: IncomingHttpHeaders };

/** GET /metrics, where `sent` does not say otherwise. */
export const askedAt = (socketPath: string, sent: Partial<Delivery> = {}) =>
  new Promise<Answer>((resolve, reject) => {
    const { method, path = "/metrics", headers, body } = sent;
    request({ socketPath, method, path, headers, setHost: false }, async (answer) => {
      const text = Buffer.concat(await answer.toArray()).toString();
      resolve({ status: answer.statusCode, text, headers: answer.headers });
    })
      .on("error", reject)
      .end(body);
  });
