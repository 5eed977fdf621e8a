/**
 * `npx pushgate hook --set`, `trace --ping`, `--since` and `--redeliver` on a real host, with the fake of GitHub's API for
 * webhooks, whose deliveries pass the fake Cloudflare.
 */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { units } from "../../../infra/host/paths.ts";
import { type Attempt, type RunningWebhookApi, startWebhookApi } from "../../fakes/webhook-api.ts";
import { secrets } from "../../fixtures.ts";
import { deployedWorld } from "../deployed.ts";
import * as fault from "../faults.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { hostnameOf, type World } from "../world.ts";

let host: Host;
let world: World;
let running: RunningWebhookApi;
/** Of the host, in the configuration. */
let name: string;

beforeAll(async () => {
  world = await deployedWorld("webhooks");
  host = world.hosts[0]!;
  running = await startWebhookApi((sent) => world.send({ ...sent, source: actors.github.v4[0] }));
  const { stackFile, env, configure } = world.stack;
  const { config } = parse(readFileSync(stackFile, "utf8")) as { config: Record<string, { name: string }[]> };
  const [site, ...others] = config["pushgate:hooks"]!;
  configure({ "pushgate:hooks": [{ ...site, repository: `${running.origin}/example/site.git` }, ...others] });
  name = config["pushgate:hosts"]![0]!.name;
  env.NODE_EXTRA_CA_CERTS = running.caFile;
  await fault.noGuard.make(world, host);
});

afterAll(async () => {
  await running?.close();
  await world?.close();
  await host?.kill();
});

/** With the git host's token. */
async function pushgate(...words: string[]) {
  const { env } = world.stack;
  env.GH_ENTERPRISE_TOKEN = running.api.token;
  const ran = await world.stack.pushgate(...words);
  env.GH_ENTERPRISE_TOKEN = undefined;
  return ran;
}
const url = () => `https://${hostnameOf(host)}/webhook/site`;
const statuses = (attempts: readonly Attempt[]) => attempts.map(({ got }) => got.status);

test("hook --set creates the webhook, and the git host's ping passes every layer", async () => {
  const { code, stdout, stderr } = await pushgate("hook", "site", "--set", "--yes");
  expect(stderr).toBe(`site on ${name}: creates the webhook to ${url()}\n`);
  expect(stdout).toContain(`site on ${name}: the webhook is set.`);
  expect(stdout).toMatch(
    /8 receiver +passed\ncertain: the receiver ignored the delivery[\s\S]*git host's page +200 .*pushgate-receiver/,
  );
  expect(code).toBe(0);
  expect(running.api.webhooks).toMatchObject([
    { url: url(), secret: secrets.site.current, events: ["push"], active: true },
  ]);
});

test("the host's own ping reaches its receiver without the token", async () => {
  const { code, stdout } = await world.stack.pushgate("trace", "--ping", "--hook", "site");
  expect(stdout).toContain("certain: the receiver ignored the delivery");
  expect(stdout).toContain("It proves nothing about DNS, Cloudflare, the firewall and nginx.");
  expect(code).toBe(0);
  // Of a self-hosted git host, whose socket has ranges of its own.
  expect((await world.stack.pushgate("trace", "--ping", "--hook", "docs")).code).toBe(0);
  await host.inside(`systemctl stop ${units.socket("github")} ${units.receiver}`);
  const deaf = await world.stack.pushgate("trace", "--ping", "--hook", "site");
  expect(deaf.stdout).toContain("likely: the source is inside of the ranges, and the receiver's socket did not accept");
  expect(deaf.code).toBe(1);
  await host.inside(`systemctl start ${units.socket("github")}`);
});

test("a webhook with another secret: its ping is rejected, and --set corrects it", async () => {
  running.api.webhooks[0]!.secret = "********";
  const { code, stdout } = await pushgate("trace", "--ping", "--hook", "site");
  expect(stdout).toContain("certain: the receiver found no signature, or one of another secret.");
  expect(code).toBe(1);
  expect((await pushgate("hook", "site", "--set", "--yes")).code).toBe(0);
});

test("failed deliveries are grouped by their layer, and sent again once, after the fix", async () => {
  await running.api.push();
  await host.inside(`systemctl stop ${units.nginxSocket} ${units.nginx}`);
  for (let i = 0; i < 3; i++) expect(statuses(await running.api.push())).toEqual([521]);
  const grouped = await pushgate("trace", "--since", "3d");
  expect(grouped.stdout).toMatch(/^3 deliveries failed of 4 in 3 days:\n\nrejected by 5 firewall: 3 deliveries\n/);
  expect(grouped.code).toBe(1);

  const refused = await pushgate("trace", "--since", "3d", "--redeliver", "--yes");
  expect(refused.stderr).toContain("nothing was delivered again: the ping did not arrive.");
  expect([refused.code, running.api.log.filter(({ redelivery }) => redelivery)]).toEqual([1, []]);

  await host.inside(`systemctl start ${units.nginx}`);
  const { code, stdout } = await pushgate("trace", "--since", "3d", "--redeliver", "--yes");
  expect(stdout).toMatch(
    /3 deliveries sent again:\n\ndelivered: 3 deliveries\n {2}certain: the receiver accepted the delivery\./,
  );
  expect(code).toBe(0);
  expect(statuses(running.api.log.filter(({ redelivery }) => redelivery))).toEqual([202, 202, 202]);
  expect((await pushgate("trace", "--since", "3d")).stdout).toMatch(/^0 deliveries failed of 4 in 3 days\n/);
});

test("40 deliveries are traced in one call", async () => {
  while (running.api.log.filter(({ kind }) => kind === "push").length < 40)
    expect((await running.api.push())[0]!.got.status).toBe(202);
  const { code, stdout, seconds } = await pushgate("trace", "--hook", "site", "--last", "40", "--json");
  console.log(`40 deliveries: ${seconds.toFixed(1)} s`);
  const found = JSON.parse(stdout) as { certainty: string }[];
  expect(found.filter(({ certainty }) => certainty === "certain")).toHaveLength(40);
  // Those that were sent while nginx was stopped are among them.
  expect(code).toBe(1);
});

test("the token and the secret are nowhere on the host", async () => {
  const { token } = running.api;
  expect(
    await host.read(`grep -rlF -e '${token}' /etc /var/log /var/lib/pushgate* /run/pushgate* 2>/dev/null || true`),
  ).toBe("");
  expect(await host.read(`journalctl --no-pager | grep -cF -e '${token}' -e '${secrets.site.current}' || true`)).toBe(
    "0",
  );
});
