/** The requests of the comparison: one push of 6.6 KB, signed by GitHub's rules, and what a server must not store. */
import { randomBytes } from "node:crypto";
import { delivery, pushPayload } from "../fakes/deliveries.ts";
import { head } from "../service/receiver/harness.ts";

/** What a request is, and what the table calls it. */
export const kinds = {
  accepted: "accepted",
  ignored: "ignored (ping)",
  wrong: "wrong signature",
  malformed: "malformed signature",
} as const;
export type Kind = keyof typeof kinds;

/** 6.6 KB with a commit of its own, so that no server knows a delivery again. */
function body(): Buffer {
  const payload = { ...pushPayload(), after: randomBytes(20).toString("hex"), pad: "" };
  const pad = "x".repeat(Math.max(0, 6_600 - JSON.stringify(payload).length));
  return Buffer.from(JSON.stringify({ ...payload, pad }));
}

const changes = {
  accepted: {},
  ignored: { event: "ping" },
  wrong: { secret: "another-secret-0123456789-abcdefghij" },
  malformed: { signature: "sha256=not-hexadecimal" },
} as const;

/** The number of different bodies; a round of accepted deliveries sends each once. */
export const bodies = { accepted: 600, ignored: 64, wrong: 64, malformed: 64 } as const;

let sent = 0;

/** Returns the next request, each with a delivery id of its own. Its bytes are valid until the body's next turn. */
export function requests(kind: Kind): () => Buffer {
  const all = Array.from({ length: bodies[kind] }, () => {
    const made = delivery({ body: body(), ...changes[kind] });
    const start = Buffer.from(head(made));
    const mark = "x-github-delivery: ";
    return { bytes: Buffer.concat([start, made.body]), at: start.indexOf(mark) + mark.length };
  });
  let next = 0;
  return () => {
    const { bytes, at } = all[next++ % all.length]!;
    bytes.write(String(sent++).padStart(36, "0"), at, "latin1");
    return bytes;
  };
}
