/**
 * The client certificate changes while a git host delivers, because the state and its key were lost; and the origin port
 * changes. nginx rejects no delivery because of what `up` does, although Cloudflare presents the former certificate for
 * seconds after nginx has the new CA. Without the former CA in nginx it would reject them.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { settledCa, units } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { succeeded } from "../../engine/program-stack.ts";
import type { ClientCertificate } from "../../fakes/cloudflare/zone.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { vaultKey } from "../../fakes/vault.ts";
import { deployedWorld } from "../deployed.ts";
import { actors } from "../lab/net.ts";
import { repeatWhile } from "../repeat-while.ts";
import { type Answer, hostEntry, hostnameOf } from "../world.ts";

const { world, host } = await deployedWorld("keyless");

const leaf = (): ClientCertificate => world.api.zone.origin_pulls.hostname_certificates.at(-1)!;

/** Delivers one push after another while `work` runs, and returns the answers. */
const pushing = <T>(work: () => Promise<T>) => repeatWhile(work, () => world.deliver(), 50);

/** Runs `up` while the fake Cloudflare delays the new client certificate by two seconds. */
function slowUp(): Promise<Run> {
  const busy = { status: 429, headers: { "retry-after": "2" } };
  world.api.faults.push({ method: "PUT", path: /origin_tls_client_auth\/hostnames$/, times: 1, ...busy });
  return world.stack.up();
}

const rejected = (answers: readonly Answer[]) => answers.filter(({ status }) => status !== 202);

/** nginx's status for a delivery from a Cloudflare address with this client certificate. */
const presents = async ({ certificate, private_key }: ClientCertificate): Promise<number> => {
  const sent = delivery({ host: hostnameOf(host), source: actors.github.v4[0] });
  const headers = { ...sent.headers, "CF-Connecting-IP": sent.source };
  const tls = { cert: certificate, key: private_key };
  return (await world.contact(host, actors.edge.v4[1], { ...sent, headers }, tls)).status;
};

test("nginx rejects no delivery while adopt and up replace a lost state, and preview is clean", async () => {
  const former = leaf();
  rmSync(join(world.stack.folder, "state", ".pulumi"), { recursive: true });
  const { done, seen: answers } = await pushing(async () => {
    succeeded(await world.stack.pulumi("stack", "init", "test", "--secrets-provider", vaultKey));
    const adopted = await world.stack.pushgate("adopt", "--yes");
    expect(adopted.stdout + adopted.stderr).toContain("8 adopted.");
    return succeeded(await slowUp());
  });
  expect(done.steps.filter(({ type, op }) => type.startsWith("cloudflare:") && op === "create")).toEqual([]);
  expect(answers.length).toBeGreaterThan(20);
  expect(rejected(answers)).toEqual([]);
  expect(await presents(leaf())).toBe(202);
  expect(await presents(former)).toBe(400);
  await world.stack.cleanPreview();
});

test("nginx rejects no delivery while the origin port changes, and then leaves the former one", async () => {
  world.stack.configure({ "pushgate:hosts": [hostEntry(host, { originPort: 8444 })] });
  const { done: up, seen: answers } = await pushing(() => world.stack.up());
  expect(up.code, up.stdout).toBe(0);
  expect(answers.length).toBeGreaterThan(20);
  expect(rejected(answers)).toEqual([]);
  // The former port, from an address of Cloudflare's, before and after what a timer does a minute later.
  const sent = delivery({ host: hostnameOf(host), headers: { "cf-connecting-ip": actors.github.v4[0] } });
  const former = async () => (await world.contact(host, actors.edge.v4[2], sent, world.client(), 1_000)).status;
  expect(await former()).toBe(202);
  await host.inside("systemctl start pushgate-moved.service");
  await expect.poll(former, { timeout: 30_000 }).toBe(0);
  expect(await world.deliver()).toMatchObject({ status: 202 });
  await world.stack.cleanPreview();
});

test("nginx rejects the git host until Cloudflare has changed, if nginx has only the new CA", async () => {
  await host.inside(`rm ${settledCa.path} ${settledCa.line} && systemctl reload ${units.nginx}`);
  world.stack.configure({ "pushgate:edge": { plan: "pro", generation: 3 } });
  const { done: up, seen: answers } = await pushing(slowUp);
  expect(up.code, up.stdout).toBe(0);
  const statuses = new Set(rejected(answers).map(({ status, servedBy }) => `${status} ${servedBy}`));
  expect([...statuses]).toEqual(["400 pushgate-proxy"]);
  expect(await world.deliver()).toMatchObject({ status: 202 });
});
