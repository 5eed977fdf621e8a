/** The least that a correct server does, without a framework: the measure of all others. */
import { createServer, type ServerResponse } from "node:http";
import { decide, host, longestBody, path, port, rejected, signed, wellFormed } from "./push.ts";

function answer(res: ServerResponse, status: number, text: string): void {
  res.writeHead(status, { "Content-Type": "application/json", "Content-Length": text.length }).end(text);
}

createServer((req, res) => {
  const { "x-hub-signature-256": signature, "x-github-event": event, "x-github-delivery": delivery } = req.headers;
  if (req.method !== "POST" || req.url !== path) return answer(res, 404, "{}");
  const chunks: Buffer[] = [];
  let bytes = 0;
  req.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > longestBody) return answer(res, 413, "{}");
    chunks.push(chunk);
  });
  req.on("end", () => {
    const body = Buffer.concat(chunks);
    if (!wellFormed(signature) || !signed(body, signature)) return answer(res, 401, rejected);
    decide(event, delivery, body).then(
      ([status, text]) => answer(res, status, text),
      () => answer(res, 503, "{}"),
    );
  });
}).listen(port, host);
