/**
 * Random requests, and what the receiver may answer to each by rules of their own: HMAC and limits are computed here
 * from the bytes that are sent, and share no line with the receiver.
 */
import { createHmac } from "node:crypto";
import { pushPayload } from "../fakes/deliveries.ts";
import { random, secrets } from "../fixtures.ts";

export type Made = {
  readonly bytes: Buffer;
  /** Whether one of the hook's secrets signs exactly the body, and all else is as GitHub sends it. */
  readonly valid: boolean;
  /** A push to the hook's branch: a valid one is accepted, any other is ignored. */
  readonly push: boolean;
  /** Broken HTTP: the server may close the connection, with or without an answer. */
  readonly broken: boolean;
};

const keys = [secrets.site.current, secrets.site.previous];
const other = "another-secret-0123456789-abcdefghij";
const signature = (key: string, body: Buffer) => createHmac("sha256", key).update(body).digest("hex");

export function generator(seed: number): () => Made {
  const next = random(seed);
  const below = (end: number) => Math.floor(next() * end);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)]!;
  const chance = (share: number) => next() < share;
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => below(256)));
  const template = JSON.stringify(pushPayload());
  const good = Buffer.from(
    template.length > 3_000 ? JSON.stringify({ ref: "refs/heads/main", pad: "x".repeat(900) }) : template,
  );

  const bodies: (() => { body: Buffer; push: boolean })[] = [
    () => ({ body: good, push: true }),
    () => ({
      body: Buffer.from(`{"ref":"refs/heads/main","after":${JSON.stringify(pick(["", null, "--x", "0".repeat(39)]))}}`),
      push: true,
    }),
    () => ({
      body: Buffer.from(JSON.stringify({ ref: `refs/heads/${pick(["next", "x/main", "MAIN", "main "])}` })),
      push: false,
    }),
    () => ({
      body: Buffer.from(
        pick(["", "null", "[]", "{", "{}", '"x"', '{"ref":[]}', '{"__proto__":{"ref":"refs/heads/main"}}']),
      ),
      push: false,
    }),
    () => ({ body: Buffer.from(`{"ref":"refs/tags/main","x":${"[".repeat(below(300))}`), push: false }),
    () => ({ body: noise(below(400)), push: false }),
  ];

  const signatures: ((body: Buffer) => string | undefined)[] = [
    (body) => `sha256=${signature(other, body)}`,
    (body) => `sha256=${signature(keys[0]!, Buffer.concat([body, Buffer.from(" ")]))}`,
    (body) =>
      `sha256=${signature(keys[0]!, body)
        .toUpperCase()
        .replace(/^[0-9]*$/, "A")}`,
    (body) => `sha256=${signature(keys[0]!, body).slice(1)}`,
    (body) => `sha256=${signature(keys[0]!, body)}, sha256=${signature(keys[0]!, body)}`,
    (body) => `sha1=${createHmac("sha1", keys[0]!).update(body).digest("hex")}`,
    (body) => signature(keys[0]!, body),
    (body) => `sha256=${signature("", body)}`,
    () => "sha256=",
    () => `sha256=${noise(32).toString("hex")}`,
    () =>
      noise(below(80))
        .toString("latin1")
        .replace(/[^!-~]/g, "x"),
    () => undefined,
  ];

  return () => {
    const { body, push } = pick(bodies)();
    const signed = chance(0.15);
    const given = signed ? `sha256=${signature(pick(keys), body)}` : pick(signatures)(body);
    const path = chance(0.9)
      ? "/webhook/site"
      : pick([
          "/",
          "/webhook/",
          "/webhook/site/",
          "/WEBHOOK/site",
          "/webhook/%73ite",
          "/webhook/site?x",
          "//webhook/site",
          "/webhook/../webhook/site",
          "http://a/webhook/site",
          "/webhook/docs2",
        ]);
    const method = chance(0.95) ? "POST" : pick(["GET", "PUT", "DELETE", "OPTIONS", "PATCH"]);
    const type = chance(0.93)
      ? "application/json"
      : pick(["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "application/json5"]);
    const encoding = chance(0.97) ? undefined : pick(["gzip", "br", "identity, gzip"]);
    const chunked = chance(0.1);
    const event = chance(0.9) ? "push" : pick(["ping", "issues", "push ", "", "x".repeat(300)]);
    const lines = [
      `${method} ${path} HTTP/1.1`,
      "host: hooks.example.org",
      `content-type: ${type}`,
      `x-github-event: ${event}`,
      `x-github-delivery: ${pick(["", "../../x", `f-${below(40)}`, "x".repeat(80), "a b"])}`,
      ...(given === undefined ? [] : [`x-hub-signature-256: ${given}`]),
      ...(encoding === undefined ? [] : [`content-encoding: ${encoding}`]),
      chunked ? "transfer-encoding: chunked" : `content-length: ${body.length}`,
    ];
    const asGitHub = method === "POST" && path === "/webhook/site" && type === "application/json" && !encoding;
    const wire = chunked
      ? Buffer.concat([
          ...(body.length > 0 ? [Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n")] : []),
          Buffer.from("0\r\n\r\n"),
        ])
      : body;
    const bytes = Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), wire]);
    const broken = chance(0.01);
    // One byte of the request's head becomes another.
    if (broken) bytes[below(bytes.length - body.length)] = below(256);
    // From what is sent: an altered byte may be one of the signature's, or change the case of its name.
    const sent = /\r\nx-hub-signature-256:[ \t]*([^\r\n]*?)[ \t]*\r\n/i.exec(bytes.toString("latin1"))?.[1];
    const matches = keys.some((key) => sent === `sha256=${signature(key, body)}`);
    // It may also make the path or the content type the right one.
    const valid = matches && (asGitHub || broken);
    return { bytes, valid, push: push && event.trim() === "push", broken };
  };
}
