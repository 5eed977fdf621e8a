/** Express as its users write a webhook: `express.raw`, then the check of the signature. */
import express from "express";
import { decide, longestBody, passed, path, rejected, signed } from "./push.ts";

express()
  .post(path, express.raw({ type: () => true, limit: longestBody }), async (req, res) => {
    const { "x-hub-signature-256": signature, "x-github-event": event, "x-github-delivery": id } = req.headers;
    if (!signed(req.body, signature)) return void res.status(401).type("json").send(rejected);
    const [status, text] = await decide(event, id, req.body);
    res.status(status).type("json").send(text);
  })
  .listen(passed);
