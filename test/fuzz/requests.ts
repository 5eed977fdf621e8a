/**
 * Random requests to hooks of each git host, and what the receiver may answer to each by rules of their own: signatures
 * and limits are computed here from the bytes that are sent, and share no function with the receiver.
 */
import { type GitHostName, gitHostNames, gitHosts } from "../../service/git-hosts/index.ts";
import { deliveryOf, bytes as json, senders } from "../fakes/senders.ts";
import { random } from "../fixtures.ts";

export type Made = {
  readonly bytes: Buffer;
  /** Whether one of the hook's secrets signs exactly the body, now, and all else is as the git host sends it. */
  readonly valid: boolean;
  /** A push to the hook's branch: a valid one is accepted, any other is ignored. */
  readonly push: boolean;
  /** Broken HTTP: the server may close the connection, with or without an answer. */
  readonly broken: boolean;
};

const whsec = "whsec_";
const token = "x-gitlab-token";
/** Two of each hook, which has the name of its git host. GitLab's second is a token, which it sends as it is. */
export const hookSecrets: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  gitHostNames.map((gitHost) => {
    const texts = ["first", "second"].map((which) => `the-${which}-secret-of-the-hook-${gitHost}`);
    const { keys } = gitHosts[gitHost];
    const isKey = [keys !== undefined, keys === "all"];
    return [gitHost, texts.map((text, i) => (isKey[i] ? `${whsec}${Buffer.from(text).toString("base64")}` : text))];
  }),
);

/** Whether these headers hold one of the hook's tokens, or a signature of the body that is not stale. */
function isSigned(gitHost: GitHostName, body: Buffer, headerOf: (name: string) => string): boolean {
  const { keys, signatures } = gitHosts[gitHost];
  const { header } = signatures[0]!;
  const [id, at] = [headerOf("webhook-id"), headerOf("webhook-timestamp")];
  const isFresh = id !== "" && /^\d+$/.test(at) && Math.abs(Date.now() / 1000 - Number(at)) <= 300;
  return hookSecrets[gitHost]!.some((secret) => {
    if (keys === "some" && !secret.startsWith(whsec)) return headerOf(token) === secret;
    const expected = senders[gitHost].headers(body, secret, Number(at), id)[header]!;
    if (keys === undefined) return headerOf(header) === expected;
    // Not as text: the last digit of base64 has bits without a meaning.
    const mac = (text: string) => Buffer.from(text.slice(3), "base64");
    const given = headerOf(header).split(" ");
    return isFresh && given.some((each) => each.startsWith("v1,") && mac(each).equals(mac(expected)));
  });
}

export function generator(seed: number): () => Made {
  const next = random(seed);
  const below = (end: number) => Math.floor(next() * end);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)]!;
  const chance = (share: number) => next() < share;
  const noise = (length: number) => Buffer.from(Array.from({ length }, () => below(256)));
  const pushes = new Map(gitHostNames.map((gitHost) => [gitHost, json(senders[gitHost].push).toString()]));

  /** A body made of the git host's push. "object": JSON of no push to the branch; "none": no JSON object. */
  const bodies: ((push: string) => readonly [body: string | Buffer, is: "push" | "object" | "none"])[] = [
    (push) => [push, "push"],
    (push) => [push.replaceAll(`"${"1".repeat(40)}"`, JSON.stringify(pick(["", null, "--x", "0".repeat(39)]))), "push"],
    (push) => [push.replaceAll("main", pick(["next", "x/main", "MAIN", "main "])), "object"],
    () => [pick(["{}", '{"ref":[]}', '{"__proto__":{"ref":"refs/heads/main"}}']), "object"],
    () => [pick(["", "null", "[]", "{", '"x"']), "none"],
    () => [`{"ref":"refs/tags/main","x":${"[".repeat(below(300))}`, "none"],
    () => [noise(below(400)), "none"],
  ];

  return () => {
    const gitHost = pick(gitHostNames);
    const { signatures, deliveryHeader, anyRepository } = gitHosts[gitHost];
    const [text, is] = pick(bodies)(pushes.get(gitHost)!);
    const body = Buffer.from(text);
    const id = pick(["", "../../x", `f-${below(40)}`, "x".repeat(80), "a b"]);
    // Of this moment, so that a long run does not become stale. 50 s from the tolerance: a busy computer sends it later.
    const off = chance(0.7) ? 0 : pick([-250, 250, -350, 350, -86_400, 0.5, Number.NaN]);
    const at = Math.floor(Date.now() / 1000) + off;

    const right = `/webhook/${gitHost}`;
    const path = chance(0.9)
      ? right
      : pick([
          "/",
          "/webhook/",
          `${right}/`,
          `/WEBHOOK/${gitHost}`,
          `/webhook/%${gitHost.charCodeAt(0).toString(16)}${gitHost.slice(1)}`,
          `${right}?x`,
          `/${right}`,
          `/webhook/..${right}`,
          `http://a${right}`,
          `${right}2`,
          `/webhook/${pick(gitHostNames)}`,
        ]);
    // No secret of the hook at that path, if it is another one: the delivery would be valid.
    const strangers = gitHostNames.filter((name) => path !== `/webhook/${name}`);

    const { header, prefix } = pick(signatures);
    const sign = (body: Buffer, secret: string, ...stamp: readonly [number, string]) =>
      header === token ? secret : senders[gitHost].headers(body, secret, ...stamp)[header]!;
    const secret = pick(hookSecrets[gitHost]!);
    const own = senders[gitHost].headers(body, secret, at, id);
    const good = header === token ? secret : own[header]!;
    const given = chance(0.15)
      ? good
      : pick<() => string | undefined>([
          () => sign(body, pick(hookSecrets[pick(strangers)]!), at, id),
          () => sign(Buffer.concat([body, Buffer.from(" ")]), secret, at, id),
          () => sign(body, secret, ...pick([[at - 60, id] as const, [at, `${id}x`] as const])),
          () => sign(body, "", at, id),
          () => good.toUpperCase(),
          () => good.slice(1),
          () => good.slice(0, -24), // the length of SHA-1
          () => `${good}, ${good}`,
          () => `${sign(noise(9), secret, at, id)} ${good}`,
          () => good.slice(prefix.length),
          () => prefix,
          () => String.fromCharCode(...noise(below(80)).map((byte) => 33 + (byte % 94))),
          () => undefined,
        ])();

    const method = chance(0.95) ? "POST" : pick(["GET", "PUT", "DELETE", "OPTIONS", "PATCH"]);
    const type = chance(0.93)
      ? "application/json"
      : pick(["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "", "application/json5"]);
    const encoding = chance(0.97) ? undefined : pick(["gzip", "br", "identity, gzip"]);
    const chunked = chance(0.1);
    const events = Object.keys(own).filter((name) => /event(-key)?$/.test(name));
    const usual = own[events[0]!] ?? "";
    const event = chance(0.9) ? usual : pick(["ping", "issues", `${usual} `, "", "x".repeat(300)]);
    const headers = Object.entries({
      host: "hooks.example.org",
      ...deliveryOf(gitHost, { body, headers: own }).headers,
      ...Object.fromEntries(events.map((name) => [name, event])),
      ...Object.fromEntries(signatures.map(({ header }) => [header, undefined])),
      [header]: given,
      [deliveryHeader]: id,
      "content-type": type,
      "content-encoding": encoding,
      "content-length": chunked ? undefined : body.length,
      "transfer-encoding": chunked ? "chunked" : undefined,
    }).flatMap(([name, value]) => (value === undefined ? [] : `${name}: ${value}\r\n`));
    const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${headers.join("")}\r\n`, "latin1");
    const broken = chance(0.01);
    // One byte of the request's head becomes another.
    if (broken) head[below(head.length)] = below(256);
    // From what is sent: an altered byte may be one of the signature's, or change the case of its name.
    const sent = head.toString("latin1");
    const headerOf = (name: string) => new RegExp(`\r\n${name}:[ \t]*([^\r\n]*?)[ \t]*\r\n`, "i").exec(sent)?.[1] ?? "";
    const asGitHost = method === "POST" && path === right && type === "application/json" && !encoding;
    // An altered byte may also make the path or the content type the right one.
    const valid = (asGitHost || broken) && isSigned(gitHost, body, headerOf);
    const wire = !chunked
      ? [body]
      : [...(body.length > 0 ? [`${body.length.toString(16)}\r\n`, body, "\r\n"] : []), "0\r\n\r\n"];
    return {
      bytes: Buffer.concat([head, ...wire.map((part) => Buffer.from(part))]),
      valid,
      push: anyRepository ? is !== "none" : is === "push" && event.trim() === usual,
      broken,
    };
  };
}
