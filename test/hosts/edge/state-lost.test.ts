/**
 * The client certificate changes under way: by a raised generation, and because the state was lost with its key. A git
 * host delivers all along and is never refused, though the edge presents the former certificate for seconds after the
 * machine was told of the next; without the second CA it is refused.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { settled } from "../../../infra/host/proxy/origin-server.ts";
import type { Run } from "../../engine/engine.ts";
import type { ClientCertificate } from "../../fakes/cloudflare/zone.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { deployedWorld } from "../deployed.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { repeatWhile } from "../repeat-while.ts";
import { type Answer, hostnameOf, type World } from "../world.ts";

let host: Host;
let world: World;

beforeAll(async () => {
  const deployed = await deployedWorld("keyless");
  world = deployed;
  [host] = deployed.hosts;
});
afterAll(async () => {
  await world?.close();
  await host?.kill();
});

const leaf = (): ClientCertificate => world.api.zone.origin_pulls.hostname_certificates.at(-1)!;
const generation = (value: number) => world.stack.configure({ "pushgate:edge": { plan: "pro", generation: value } });

/** What the git host was told while `work` went on, one push after the other. */
const pushing = <T>(work: () => Promise<T>) => repeatWhile(work, () => world.deliver(), 50);

/** `up`, with an edge that lets the machine wait two seconds until it takes the new certificate. */
function slowUp(): Promise<Run> {
  const busy = { status: 429, headers: { "retry-after": "2" } };
  world.api.faults.push({ method: "PUT", path: /origin_tls_client_auth\/hostnames$/, times: 1, ...busy });
  return world.stack.up();
}

const refused = (answers: readonly Answer[]) => answers.filter(({ status }) => status !== 202);

/** Straight to the proxy from the edge's addresses, as whoever holds this certificate could. */
const presents = async ({ certificate, private_key }: ClientCertificate): Promise<number> => {
  const sent = delivery({ host: hostnameOf(host), source: actors.github.v4[0] });
  const headers = { ...sent.headers, "CF-Connecting-IP": sent.source };
  const tls = { cert: certificate, key: private_key };
  return (await world.contact(host, actors.edge.v4[1], { ...sent, headers }, tls)).status;
};

test("another generation: nobody is refused, and the former certificate is good for nothing afterwards", async () => {
  const former = leaf();
  expect(await presents(former)).toBe(202);
  generation(2);
  const { done: up, seen: answers } = await pushing(slowUp);
  expect(up.code, up.stdout).toBe(0);
  expect(answers.length).toBeGreaterThan(20);
  expect(refused(answers)).toEqual([]);
  expect(leaf().id).not.toBe(former.id);
  expect(await presents(leaf())).toBe(202);
  expect(await presents(former)).toBe(400);
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
});

test("the state is lost: adopt, up, a clean preview, and nobody is refused meanwhile", async () => {
  const former = leaf();
  rmSync(join(world.stack.folder, "state", ".pulumi"), { recursive: true });
  const { done, seen: answers } = await pushing(async () => {
    const init = await world.stack.pulumi("stack", "init", "test", "--non-interactive");
    expect(init.code, init.stderr).toBe(0);
    const adopted = await world.stack.ops("adopt", "--yes");
    expect(adopted.stdout + adopted.stderr).toContain("8 adopted.");
    const up = await slowUp();
    expect(up.code, up.stdout).toBe(0);
    return up;
  });
  expect(done.steps.filter(({ type, op }) => type.startsWith("cloudflare:") && op === "create")).toEqual([]);
  expect(answers.length).toBeGreaterThan(20);
  expect(refused(answers)).toEqual([]);
  expect(await presents(leaf())).toBe(202);
  expect(await presents(former)).toBe(400);
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  // Five runs of the engine one after the other: a loaded machine needs longer than for another test.
}, 240_000);

test("taken away: with one CA only, the git host is refused until the edge has changed", async () => {
  await host.inside(`rm ${settled.conf} && systemctl reload nginx.service`);
  generation(3);
  const { done: up, seen: answers } = await pushing(slowUp);
  expect(up.code, up.stdout).toBe(0);
  const statuses = new Set(refused(answers).map(({ status, servedBy }) => `${status} ${servedBy}`));
  expect([...statuses]).toEqual(["400 pushgate-proxy"]);
  expect(await world.deliver()).toMatchObject({ status: 202 });
});
