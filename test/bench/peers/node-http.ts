/** The least that a correct server does, without a framework. */
import { createServer } from "node:http";
import { decide, longestBody, passed, path, rejected, signed } from "./push.ts";

createServer((req, res) => {
  const answer = (status: number, text: string): void => {
    res.writeHead(status, { "Content-Type": "application/json", "Content-Length": text.length }).end(text);
  };
  const { "x-hub-signature-256": signature, "x-github-event": event, "x-github-delivery": delivery } = req.headers;
  if (req.method !== "POST" || req.url !== path) return answer(404, "{}");
  const chunks: Buffer[] = [];
  let bytes = 0;
  req.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > longestBody) return answer(413, "{}");
    chunks.push(chunk);
  });
  req.on("end", () => {
    const body = Buffer.concat(chunks);
    if (!signed(body, signature)) return answer(401, rejected);
    decide(event, delivery, body).then(
      ([status, text]) => answer(status, text),
      () => answer(503, "{}"),
    );
  });
}).listen(passed);
