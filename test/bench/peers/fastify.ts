/** Fastify, which hands the body over as bytes. */
import fastify from "fastify";
import { decide, host, longestBody, path, port, rejected, signed, wellFormed } from "./push.ts";

type Request = { readonly headers: NodeJS.Dict<string>; readonly body: Buffer };
type Reply = { code(status: number): Reply; type(name: string): Reply; send(text: string): Reply };

const app = fastify({ bodyLimit: longestBody });
app.removeAllContentTypeParsers();
app.addContentTypeParser("*", { parseAs: "buffer" }, (_: unknown, body: Buffer, done: (...args: unknown[]) => void) =>
  done(null, body),
);
app.route({
  method: "POST",
  url: path,
  handler: async (req: Request, reply: Reply) => {
    const { "x-hub-signature-256": signature, "x-github-event": event, "x-github-delivery": id } = req.headers;
    reply.type("application/json");
    if (!wellFormed(signature) || !signed(req.body, signature)) return reply.code(401).send(rejected);
    const [status, text] = await decide(event, id, req.body);
    return reply.code(status).send(text);
  },
});
void app.listen({ port, host });
