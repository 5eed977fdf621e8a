/** Express as its users write a webhook: `express.raw`, then the check of the signature. */
import express, { type RequestHandler } from "express";
import { decide, host, longestBody, path, port, rejected, signed, wellFormed } from "./push.ts";

export const delivery: RequestHandler = async (req, res) => {
  const { "x-hub-signature-256": signature, "x-github-event": event, "x-github-delivery": id } = req.headers;
  if (!wellFormed(signature) || !signed(req.body, signature)) return void res.status(401).type("json").send(rejected);
  const [status, text] = await decide(event, id, req.body);
  res.status(status).type("json").send(text);
};

/** `before`: the layers in front of the route. */
export function serve(...before: RequestHandler[]): void {
  const app = express();
  for (const each of before) app.use(each);
  app.post(path, express.raw({ type: () => true, limit: longestBody }), delivery);
  app.listen(port, host);
}
