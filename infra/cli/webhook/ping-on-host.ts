/** A signed ping of the host itself (decision 030). Standard input has it, as an older GitLab's holds the secret. */
import { randomUUID } from "node:crypto";
import { type GitHost, gitHosts } from "../../../service/git-hosts/index.ts";
import { runOnHost } from "../../apply/run-on-host.ts";
import { scriptBeside, word } from "../../apply/shell.ts";
import { settledHooks, sourceSets } from "../../config/derived.ts";
import { isV4 } from "../../networks.ts";
import type { Answer } from "../../trace/evidence.ts";
import { outcomes } from "../../trace/outcomes.ts";
import { type Traced, verdict } from "../../trace/verdict.ts";
import { UserError } from "../../user-error.ts";
import { type Options, ofStack, targets } from "../command.ts";
import { type Endpoint, nameOfEndpoint, wantedOf } from "../endpoints.ts";
import { readStack } from "../stack.ts";

/** A delivery that builds nothing; undefined where each delivery is a push. */
export function signedPing({ mark, deliveryHeader, payload, sign }: GitHost, secret: string, id: string) {
  if (payload === undefined) return undefined;
  const body = JSON.stringify({ zen: "a ping of pushgate" });
  const names = { [mark]: payload.ping, [payload.header]: payload.ping, [deliveryHeader]: id };
  return { headers: { ...names, ...sign(secret, id, body) }, body };
}

function requestOf(url: string, { headers, body }: NonNullable<ReturnType<typeof signedPing>>): string {
  const { host, pathname } = new URL(url);
  const length = String(Buffer.byteLength(body));
  const own = { host, "user-agent": "pushgate", "content-type": "application/json", "content-length": length };
  const lines = Object.entries({ ...own, connection: "close", ...headers }).map(([name, value]) => `${name}: ${value}`);
  return [`POST ${pathname} HTTP/1.1`, ...lines, "", body].join("\r\n");
}

export const pingScript = (request: string, source: string, port: number): string => `
perl /dev/fd/3 ${word(source)} ${port} 3<<'PERL' <<'REQUEST'
${scriptBeside(import.meta.url, "ping.pl")}PERL
${Buffer.from(request).toString("hex")}
REQUEST
`;

function answerOf(text: string): Answer | undefined {
  const [, status, head = "", body = ""] =
    /^HTTP\/1\.1 (\d{3})[^\r]*\r\n((?:[^\r]+\r\n)*)\r\n([\s\S]*)$/.exec(text) ?? [];
  if (status === undefined) return undefined;
  const headers = [...head.matchAll(/^([\w-]+): (.*)\r$/gm)].map(([, name = "", value]) => [name.toLowerCase(), value]);
  return { status: Number(status), headers: Object.fromEntries(headers), body };
}

export async function pingOnHost(endpoint: Endpoint, options: Options): Promise<Traced> {
  const { hook, host: name, url } = endpoint;
  const delivery = randomUUID();
  const ping = signedPing(gitHosts[hook.gitHost], wantedOf(endpoint).secret, delivery);
  if (ping === undefined)
    throw new UserError(
      `${nameOfEndpoint(endpoint)}: each delivery of ${hook.gitHost} is a push, so pushgate sends no ping. Send a test from the sender's page.`,
    );
  const { hosts, hooks } = await readStack(ofStack(options));
  const [host] = targets(hosts, { ...options, host: name });
  const sets = sourceSets({ hooks: settledHooks(hooks) });
  const { cidrs, port } = sets.find((set) => set.hooks.some((one) => one.name === hook.name))!;
  const [source = ""] = (cidrs.find(isV4) ?? cidrs[0] ?? "").split("/");
  const text = await runOnHost(host!, pingScript(requestOf(url, ping), source, port), 30);
  const [, connected, hex = ""] = /^(connected )?([0-9a-f]*)$/.exec(text.trim()) ?? [];
  const about = { hook: hook.name, host: name, delivery, kind: "ping" };
  // The socket should accept an address of the ranges.
  const unreachable = outcomes.filter(({ name }) => name === "unreachable socket");
  if (connected === undefined) return { ...about, certainty: "likely", outcomes: unreachable, causes: [] };
  const answer = answerOf(Buffer.from(hex, "hex").toString());
  const seen = answer === undefined ? {} : { answer };
  return { ...seen, ...about, ...verdict(seen) };
}
