/** A push of each git host that publishes its ranges, and of one that does not, through every layer of a host. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { GitHostName } from "../../../service/git-hosts/index.ts";
import { deliveryOf, senders } from "../../fakes/senders.ts";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { hostnameOf, type World } from "../world.ts";

/** Git host -> its hook, and an address that it sends from. Self-hosted ones send from an address of `sources`. */
const hooks = {
  gitlab: ["lab", actors.gitlab.v4[0]],
  bitbucket: ["bucket", actors.bitbucket.v6[0]],
  gogs: ["gogs", actors.gitServers.v4[0]],
} as const satisfies Partial<Record<GitHostName, readonly [hook: string, source: string]>>;
const rows = Object.entries(hooks) as [keyof typeof hooks, readonly [string, string]][];

let host: Host;
let world: World;

const push = (gitHost: keyof typeof hooks, source: string = hooks[gitHost][1], secret = senders[gitHost].secret) =>
  world.send(deliveryOf(gitHost, { host: hostnameOf(host), path: `/webhook/${hooks[gitHost][0]}`, source, secret }));

beforeAll(async () => {
  world = await deployedWorld("githosts");
  host = world.hosts[0]!;
  world.stack.configure({
    "pushgate:hooks": rows.map(([gitHost, [name, source]]) => ({
      ...{ name, gitHost, repository: "https://git.example.net/example/site.git", branch: "main" },
      ...(gitHost === "gogs" && { sources: [source] }),
    })),
  });
  world.stack.configure({ "pushgate:secrets": undefined });
  await world.stack.setSecrets({
    "pushgate:secrets": Object.fromEntries(
      rows.map(([gitHost, [name]]) => [name, { current: senders[gitHost].secret }]),
    ),
  });
  const { code, stdout } = await world.stack.up();
  expect(code, stdout).toBe(0);
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

test.each(rows)(
  "a push of %s is accepted from its own ranges, under its id in nginx's log",
  async (gitHost, [hook]) => {
    expect(await push(gitHost)).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
    expect(await world.spooled(host, hook)).toHaveLength(1);
    const [id] = await world.spooled(host, hook);
    const line = `"delivery":"${id!.replace(/\.json$/, "")}","hook":"${hook}"`;
    const count = async () => Number(await host.read(`grep -c '${line}' /var/log/nginx/pushgate.log || true`));
    // nginx writes the line after the answer.
    await until("nginx has logged the push", async () => (await count()) || undefined);
    expect(await count()).toBe(1);
  },
);

test.each(rows)("a push of %s that another secret signs is rejected by the receiver", async (gitHost) => {
  const wrong = senders[gitHost].secret.replace(/7|B|s/, "8");
  expect(await push(gitHost, undefined, wrong)).toMatchObject({ status: 401, servedBy: "pushgate-receiver" });
});

test.each(rows)("a push of %s from another git host's range is rejected by Cloudflare", async (gitHost) => {
  expect(await push(gitHost, actors.github.v4[0])).toMatchObject({ status: 403, servedBy: "" });
});
