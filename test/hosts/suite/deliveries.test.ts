/** A push of each git host through every layer of a host. The spool must then hold what was accepted, and nothing else. */
import { readFileSync } from "node:fs";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { parse } from "yaml";
import { nginxLogs, units } from "../../../infra/host/paths.ts";
import { type GitHostName, gitHostNames } from "../../../service/git-hosts/index.ts";
import { publicDomains } from "../../../service/git-hosts/repository.ts";
import { succeeded } from "../../engine/program-stack.ts";
import type { Delivery } from "../../fakes/deliveries.ts";
import { deliveryOf, senders } from "../../fakes/senders.ts";
import { deployedWorld } from "../deployed.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { repeatWhile } from "../repeat-while.ts";
import { hostnameOf } from "../world.ts";

const { github, gitlab, bitbucket, gitServers, edge } = actors;
/** An address that a git host sends from. The self-hosted ones share one. */
const sourceOf = (gitHost: GitHostName): string =>
  ({ github: github.v4[0], gitlab: gitlab.v4[0], bitbucket: bitbucket.v6[0] })[gitHost as string] ?? gitServers.v4[0];

const domains: Partial<Record<GitHostName, string>> = publicDomains;

const { world, host } = await deployedWorld("deliveries");

/** All files below the spool, also those that are not yet whole. */
const spooled = async () =>
  (await host.read("find /var/spool/pushgate -type f -printf '%P\\n'")).split("\n").filter(Boolean);
beforeEach(() => host.inside("find /var/spool/pushgate -type f -delete"));

beforeAll(async () => {
  world.stack.configure({
    "pushgate:hooks": gitHostNames.map((gitHost) => ({
      ...{ name: gitHost, gitHost, branch: "main" },
      repository: `https://${domains[gitHost] ?? "git.example.net"}/example/site.git`,
      ...(sourceOf(gitHost) === gitServers.v4[0] && { sources: [gitServers.v4[0]] }),
    })),
    "pushgate:secrets": undefined,
  });
  await world.stack.setSecrets({
    "pushgate:secrets": Object.fromEntries(
      gitHostNames.map((gitHost) => [gitHost, { current: senders[gitHost].secret }]),
    ),
  });
  succeeded(await world.stack.up());
});

/** Sends it to nginx as Cloudflare would, and returns the status and the layer that answered. */
async function toNginx(sent: Delivery): Promise<string> {
  const headers = { ...sent.headers, "cf-connecting-ip": sent.source };
  const { status, servedBy } = await world.contact(host, edge.v4[0], { ...sent, headers }, world.client());
  return `${status} ${servedBy}`;
}

// All hooks have the same branch.
test.each(gitHostNames)("a push of %s is accepted for its hook alone, from its ranges alone", async (gitHost) => {
  const path = `/webhook/${gitHost}`;
  const sent = deliveryOf(gitHost, { host: hostnameOf(host), path, source: sourceOf(gitHost) });
  expect(await toNginx({ ...sent, source: gitHost === "github" ? gitlab.v4[0] : github.v4[0] })).toBe(
    "403 pushgate-proxy",
  );
  expect(await world.send(sent)).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  const files = await spooled();
  expect(files).toEqual([expect.stringMatching(`^${gitHost}/[^/]+\\.json$`)]);
  const id = gitHost === "standard-webhooks" ? 'msg_[^"]*' : files[0]!.slice(gitHost.length + 1, -".json".length);
  const count = `grep -c '"delivery":"${id}","hook":"${gitHost}"' ${nginxLogs.access} || true`;
  // Of the rejected one, too; nginx writes the line after the answer.
  await until("nginx has logged both", async () => Number(await host.read(count)) === 2 || undefined);
});

test.each<[what: string, left: string[], sources: string[]]>([
  ["the first hook of its source set leaves", ["forgejo"], [gitServers.v4[0]]],
  ["its source set gets another range, and so another socket", [], [gitServers.v4[0], gitServers.v4[1]]],
])("a hook misses no delivery while %s", async (_, left, sources) => {
  type Declared = { readonly name: string; readonly sources?: readonly string[] };
  const hooks: Declared[] = parse(readFileSync(world.stack.stackFile, "utf8")).config["pushgate:hooks"];
  const others = hooks.filter(({ name }) => !left.includes(name));
  world.stack.configure({ "pushgate:hooks": others.map((hook) => (hook.sources ? { ...hook, sources } : hook)) });
  for (const name of left)
    await world.stack.pulumi("config", "rm", "--path", `pushgate:secrets.${name}`, "--stack", "test");
  const sockets = async () =>
    (await host.read(`systemctl list-units --plain --no-legend '${units.socket("*")}'`)).match(/^\S+/gm);
  const before = await sockets();
  const { done: up, seen } = await repeatWhile(
    () => world.stack.up(),
    () => world.send(deliveryOf("gitea", { host: hostnameOf(host), path: "/webhook/gitea", source: gitServers.v4[0] })),
    20,
  );
  expect(up.code, up.stdout).toBe(0);
  expect(seen.filter(({ status }) => status !== 202)).toEqual([]);
  const after = await sockets();
  expect(after).toHaveLength(before!.length);
  expect(after!.filter((unit) => !before!.includes(unit))).toHaveLength(sources.length - 1);
  await world.stack.cleanPreview();
});
