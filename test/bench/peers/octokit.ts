/** octokit's middleware on node:http, which reads the body before it looks at the signature. */
import { createServer } from "node:http";
import { createNodeMiddleware, Webhooks } from "@octokit/webhooks";
import { host, path, port, secret, store } from "./push.ts";

const webhooks = new Webhooks({ secret });
webhooks.on("push", ({ id, payload }: { id: string; payload: Parameters<typeof store>[1] }) => store(id, payload));
// It writes a line for each delivery with a wrong signature, as the receiver does.
createServer(createNodeMiddleware(webhooks, { path })).listen(port, host);
