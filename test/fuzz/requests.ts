/**
 * Random requests to hooks of each git host, and the statuses that are right for each, by rules of their own: signatures are
 * computed here from what is sent, and share no function with the receiver.
 */
import { type GitHostName, gitHostNames, gitHosts } from "../../service/git-hosts/index.ts";
import { deliveryOf, bytes as json, senders } from "../fakes/senders.ts";
import { random } from "../fixtures.ts";

export type Made = { readonly bytes: Buffer; readonly right: readonly number[] };

/** 429 is a rejection above the budget. A 400 would come from the body of a request that is not signed. */
const rejections = [401, 404, 405, 413, 415, 429];

/** Of each hook, which has the name of its git host. */
export const hookSecrets = Object.fromEntries(
  gitHostNames.map((gitHost) => {
    const text = `the-only-secret-of-the-hook-${gitHost}`;
    return [gitHost, [gitHosts[gitHost].keys ? `whsec_${Buffer.from(text).toString("base64")}` : text]] as const;
  }),
) as Readonly<Record<GitHostName, readonly [string]>>;

export function generator(seed: number): () => Made {
  const next = random(seed);
  const below = (end: number) => Math.floor(next() * end);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)]!;
  const mostly = <T>(share: number, usual: T, others: readonly T[]): T => (next() < share ? usual : pick(others));
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => below(256)));

  /** A body made of the git host's push. "object": JSON of no push to the branch; "none": no JSON object. */
  const bodies: ((push: string) => readonly [body: string | Buffer, is: "push" | "object" | "none"])[] = [
    (push) => [push, "push"],
    (push) => [push.replaceAll(`"${"1".repeat(40)}"`, JSON.stringify(pick(["", null, "--x", "0".repeat(39)]))), "push"],
    (push) => [push.replaceAll("main", pick(["next", "x/main", "MAIN", "main "])), "object"],
    () => [pick(["{}", '{"ref":[]}', '{"__proto__":{"ref":"refs/heads/main"}}']), "object"],
    () => [pick(["", "null", "[]", "{", '"x"']), "none"],
    () => [noise(below(400)), "none"],
  ];

  return () => {
    const gitHost = pick(gitHostNames);
    const { signatures, deliveryHeader, anyRepository, keys } = gitHosts[gitHost];
    const { header, prefix } = signatures[0]!;
    const [text, is] = pick(bodies)(json(senders[gitHost].push).toString());
    const body = Buffer.from(text);
    const id = pick(["", "../../x", `f-${below(40)}`, "x".repeat(80), "a b"]);
    // Of this moment, so that a long run does not become stale. 50 s from the tolerance: a busy computer sends it later.
    const off = mostly(0.7, 0, [-250, 250, -350, 350, -86_400, 0.5, Number.NaN]);
    const at = Math.floor(Date.now() / 1000) + off;
    const sign = (of: GitHostName, signed: Buffer, stamp = at, name = id) =>
      senders[gitHost].headers(signed, hookSecrets[of][0], stamp, name)[header]!;
    const good = sign(gitHost, body);
    const given = mostly<() => string | undefined>(0.15, () => good, [
      () => sign(pick(gitHostNames.filter((name) => name !== gitHost)), body),
      () => sign(gitHost, Buffer.concat([body, Buffer.from(" ")])),
      () => sign(gitHost, body, ...pick([[at - 60, id] as const, [at, `${id}x`] as const])),
      () => good.toUpperCase(),
      () => good.slice(1),
      () => good.slice(0, -24), // the length of SHA-1
      () => `${good}, ${good}`,
      () => `${sign(gitHost, noise(9))} ${good}`,
      () => good.slice(prefix.length),
      () => prefix,
      () => String.fromCharCode(...noise(below(80)).map((byte) => 33 + (byte % 94))),
      () => undefined,
    ])();

    const right = `/webhook/${gitHost}`;
    const path = mostly(0.9, right, ["/", `${right}/`, `${right}?x`, `/${right}`]);
    const method = mostly(0.95, "POST", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"]);
    const type = mostly(0.93, "application/json", ["text/plain", "application/jsonx", ""]);
    const encoding = mostly(0.97, undefined, ["gzip"]);
    const chunked = mostly(0.9, false, [true]);
    const own = senders[gitHost].headers(body, hookSecrets[gitHost][0], at, id);
    const headers = Object.entries({
      host: "hooks.example.org",
      ...deliveryOf(gitHost, { body, headers: own }).headers,
      [header]: given,
      [deliveryHeader]: id,
      "content-type": type,
      "content-encoding": encoding,
      "content-length": chunked ? undefined : body.length,
      "transfer-encoding": chunked ? "chunked" : undefined,
    }).flatMap(([name, value]) => (value === undefined ? [] : `${name}: ${value}\r\n`));
    const chunks = body.length > 0 ? [`${body.length.toString(16)}\r\n`, body, "\r\n"] : [];
    const wire = [
      `${method} ${path} HTTP/1.1\r\n${headers.join("")}\r\n`,
      ...(chunked ? [...chunks, "0\r\n\r\n"] : [body]),
    ];

    const isSigned = keys
      ? own["webhook-id"] !== "" && Number.isInteger(off) && Math.abs(off) <= 300 && given?.split(" ").includes(good)
      : given === good;
    const isValid = isSigned && path === right && method === "POST" && type === "application/json" && !encoding;
    const isPush = anyRepository ? is !== "none" : is === "push";
    const signed = isPush ? [202] : [200, 400, 429];
    return { bytes: Buffer.concat(wire.map((part) => Buffer.from(part))), right: isValid ? signed : rejections };
  };
}
