/**
 * Deliveries of each git host through every layer of a host: pushes, what else a git host sends, and what an attacker
 * sends. Where Cloudflare would keep an attack from the host, the attacker connects to nginx as Cloudflare does, with the
 * zone's client certificate. The spool must then hold what was accepted, and nothing else.
 */
import { connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { nginxLogs } from "../../../infra/host/paths.ts";
import { type GitHostName, gitHostNames } from "../../../service/git-hosts/index.ts";
import type { Delivery } from "../../fakes/deliveries.ts";
import { bytes, deliveryOf, type Headers, senders } from "../../fakes/senders.ts";
import { answer, chunk, head } from "../../service/receiver/harness.ts";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { hostnameOf, originPort, type World } from "../world.ts";

const { github, gitlab, bitbucket, gitServers, edge } = actors;
/** An address that a git host sends from. The self-hosted ones share one. */
const sourceOf = (gitHost: GitHostName): string =>
  ({ github: github.v4[0], gitlab: gitlab.v4[0], bitbucket: bitbucket.v6[0] })[gitHost as string] ?? gitServers.v4[0];
const longest = 2 << 20; // nginx, without its line, has 1 MiB

/** Each hook has the name of its git host; "second" is another one of gitea's. */
const hooks = [...gitHostNames.map((gitHost) => [gitHost, gitHost] as const), ["second", "gitea"] as const];
const secondSecret = "the-secret-of-the-second-hook-0001";

let host: Host;
let world: World;

const sent = (gitHost: GitHostName, change: { headers?: Headers; body?: Buffer; source?: string } = {}): Delivery =>
  deliveryOf(gitHost, { host: hostnameOf(host), path: `/webhook/${gitHost}`, source: sourceOf(gitHost), ...change });

const asCloudflare = (delivery: Delivery): Delivery => ({
  ...delivery,
  headers: { ...delivery.headers, "cf-connecting-ip": delivery.source },
});
/** Sends it to nginx as Cloudflare would, and returns the status and the layer that answered. */
async function toNginx(delivery: Delivery): Promise<string> {
  const { status, servedBy } = await world.contact(host, edge.v4[0], asCloudflare(delivery), world.client());
  return `${status} ${servedBy}`;
}

/** All files below the spool, also those that are not yet whole. */
const spooled = async () =>
  (await host.read("find /var/spool/pushgate -type f -printf '%P\\n'")).split("\n").filter(Boolean);
beforeEach(() => host.inside("find /var/spool/pushgate -type f -delete"));

beforeAll(async () => {
  world = await deployedWorld("deliveries");
  host = world.hosts[0]!;
  world.stack.configure({
    "pushgate:limits": { bodyBytes: longest },
    "pushgate:hooks": hooks.map(([name, gitHost]) => ({
      ...{ name, gitHost, repository: "https://git.example.net/example/site.git", branch: "main" },
      ...(sourceOf(gitHost) === gitServers.v4[0] && { sources: [gitServers.v4[0]] }),
    })),
  });
  world.stack.configure({ "pushgate:secrets": undefined });
  await world.stack.setSecrets({
    "pushgate:secrets": Object.fromEntries(
      hooks.map(([name, gitHost]) => [name, { current: name === "second" ? secondSecret : senders[gitHost].secret }]),
    ),
  });
  const { code, stdout } = await world.stack.up();
  expect(code, stdout).toBe(0);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

describe.each(gitHostNames)("%s:", (gitHost) => {
  test("a push is accepted, under its id in nginx's log", async () => {
    expect(await world.send(sent(gitHost))).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
    const files = await spooled();
    expect(files).toEqual([expect.stringMatching(`^${gitHost}/[^/]+\\.json$`)]);
    const id = gitHost === "standard-webhooks" ? 'msg_[^"]*' : files[0]!.slice(gitHost.length + 1, -".json".length);
    const line = `"delivery":"${id}","hook":"${gitHost}"`;
    const count = async () => Number(await host.read(`grep -c '${line}' ${nginxLogs.access} || true`));
    // nginx writes the line after the answer.
    await until("nginx has logged the push", async () => (await count()) || undefined);
    expect(await count()).toBe(1);
  });

  test("a push from another git host's range is rejected by Cloudflare, and without Cloudflare by systemd", async () => {
    const source = gitHost === "github" ? gitlab.v4[0] : github.v4[0];
    expect(await world.send(sent(gitHost, { source }))).toMatchObject({ status: 403, servedBy: "" });
    expect(await toNginx(sent(gitHost, { source }))).toBe("403 pushgate-proxy");
    expect(await spooled()).toEqual([]);
  });
});

test("two hooks of one repository and branch: each push starts both, and the secret of one signs nothing for the other", async () => {
  const { push, headers, secret } = senders.gitea;
  const body = bytes(push);
  const answers = [];
  for (const path of ["/webhook/gitea", "/webhook/second"])
    for (const signs of [secret, secondSecret])
      answers.push(await toNginx({ ...sent("gitea", { headers: headers(body, signs), body }), path }));
  const [taken, rejected] = ["202 pushgate-receiver", "401 pushgate-receiver"];
  expect(answers).toEqual([taken, rejected, rejected, taken]);
  expect((await spooled()).map((file) => file.split("/")[0]).sort()).toEqual(["gitea", "second"]);
});

describe("through nginx, from GitHub's address:", () => {
  const padded = (length: number) => Buffer.from(`{"ref":"refs/heads/main","pad":"`.padEnd(length - 2, "x") + '"}');
  const signed = (body: Buffer, more: Headers = {}) =>
    asCloudflare(
      sent("github", { body, headers: { ...senders.github.headers(body, senders.github.secret), ...more } }),
    );
  const push = bytes(senders.github.push);
  /** Without a length. */
  const chunked = (delivery: Delivery) => {
    const { "content-length": _, ...headers } = delivery.headers;
    return head({ ...delivery, headers }, "transfer-encoding: chunked");
  };
  const whole = (delivery: Delivery) => [head(delivery), delivery.body];

  /** A connection as Cloudflare opens it. */
  function dial(): TLSSocket {
    const to = { host: host.address, port: originPort, localAddress: edge.v4[0], servername: hostnameOf(host) };
    return connect({ ...to, ...world.client(), rejectUnauthorized: false }).on("error", () => {});
  }

  /** Writes these bytes, and returns the status and the layer that answered, or "no answer". */
  async function raw(parts: readonly (string | Buffer)[]): Promise<string> {
    const socket = dial();
    const answered = answer(socket);
    for (const part of parts) socket.write(part);
    const { status, headers } = await answered.finally(() => socket.destroy());
    return status === 0 ? "no answer" : `${status} ${headers["x-served-by"] ?? "unnamed"}`;
  }

  const proxy = (status: number) => new RegExp(`^${status} (pushgate-proxy|unnamed)$`);

  test.each<[what: string, answer: RegExp, parts: () => readonly (string | Buffer)[]]>([
    ["a length and chunks", proxy(400), () => [head(signed(push), "transfer-encoding: chunked"), push]],
    ["two lengths", proxy(400), () => [head(signed(push), "content-length: 5"), push]],
    ["a length with a sign", proxy(400), () => whole(signed(push, { "content-length": `+${push.length}` }))],
    ["a chunk whose length is no number", proxy(400), () => [chunked(signed(push)), "zz\r\nnot a chunk\r\n"]],
    ["a space before a colon", proxy(400), () => [head(signed(push)).replace("content-type:", "content-type :"), push]],
    [
      "one byte over the limit, without a length",
      proxy(413),
      () => [chunked(signed(padded(longest + 1))), chunk(padded(longest + 1)), "0\r\n\r\n"],
    ],
  ])("%s is rejected", async (_, expected, parts) => {
    expect(await raw(parts())).toMatch(expected);
    expect(await spooled()).toEqual([]);
  });

  test("a body that is aborted in the middle is dropped, and the next push is accepted", async () => {
    const socket = dial();
    socket.write(head(signed(push)));
    socket.end(push.subarray(0, 100));
    await new Promise((resolve) => socket.resume().once("close", resolve));
    expect(await spooled()).toEqual([]);
    expect(await raw(whole(signed(push)))).toBe("202 pushgate-receiver");
    expect(await spooled()).toHaveLength(1);
  });
});
