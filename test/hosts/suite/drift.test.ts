/**
 * Plain `pulumi preview` finds and prints manual changes on the host and at Cloudflare, and `up` repairs them in place.
 * Each round has several faults; its preview also proves that `up` repaired the round before completely.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { units } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { deployedName, deployedWorld } from "../deployed.ts";
import { custom, driftRounds, type EdgeFault, type Fault } from "../drift-rounds.ts";
import type { Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { until } from "../lab/process.ts";
import { repeatWhile } from "../repeat-while.ts";
import { hostnameOf, type World } from "../world.ts";

const name = deployedName;
const hostname = hostnameOf({ name });
let host: Host;
let world: World;

const leaf = () => world.api.zone.origin_pulls.hostname_certificates[0]!;

/** Sends a delivery as Cloudflare would for this visitor, but without its rules, which the rounds break too. */
function pastCloudflare(visitor: string) {
  const sent = delivery({ source: visitor, host: hostname, headers: { "cf-connecting-ip": visitor } });
  return world.contact(host, actors.edge.v4[0], sent, world.client());
}

const warnings = ({ diagnostics }: Run) =>
  diagnostics
    .filter(({ severity }) => severity === "warning")
    .map(({ message }) => message.replace(/^warning: /, ""))
    .filter((line) => line.startsWith(`${name}: `));

/** The start of the socket and nginx's master process: a repair must restart neither. */
const untouched = () =>
  host.read(`systemctl show -p ActiveEnterTimestampMonotonic pushgate-receiver-github.socket ${units.nginxSocket}`);

beforeAll(async () => {
  const deployed = await deployedWorld("drift");
  world = deployed;
  [host] = deployed.hosts;
});

afterAll(async () => {
  await world?.close();
  await host?.kill();
});

for (const { name: round, faults, edge, serves, opens } of driftRounds(hostname)) {
  test(`preview reports and up repairs: ${round}`, async () => {
    const before = await untouched();
    for (const { change } of faults) await host.inside(change);
    for (const { change } of edge) change(world.api.zone);
    // With a running guard the socket would be closed here.
    if (opens) expect(await pastCloudflare(actors.stranger.v4[0])).toMatchObject({ status: 202 });

    const preview = await world.stack.preview("--expect-no-changes");
    expect(preview.code, preview.stdout).toBe(7);
    const said = warnings(preview);
    for (const { layer, says } of faults)
      for (const words of says)
        expect(said.filter((line) => line.startsWith(`${name}: ${layer}: `)).join("\n")).toContain(words);
    const named = new Set(said.map((line) => line.split(": ")[1]));
    expect([...named].sort()).toEqual(layersOf(faults.filter(({ says }) => says.length > 0)));
    const steps = preview.steps.map(({ op, name: resource }) => `${op} ${resource}`).sort();
    expect(steps).toEqual(updates(faults, edge));

    // Four pushes per second from GitHub.
    const pushed = async () => (await pastCloudflare(actors.github.v4[1])).status;
    const { done: up, seen: statuses } = await repeatWhile(() => world.stack.up(), pushed, 250);
    expect(up.code, up.stdout).toBe(0);
    // The program itself restores the association of a client certificate (docs/decisions/022).
    const byProvider = edge.filter(({ resource }) => !resource.endsWith(" client certificate"));
    expect(up.steps.map(({ op, name: resource }) => `${op} ${resource}`).sort()).toEqual(updates(faults, byProvider));
    expect(world.api.zone.origin_pulls.hostnames).toMatchObject([{ hostname, cert_id: leaf().id, enabled: true }]);
    if (serves) expect(new Set(statuses)).toEqual(new Set([202]));
    expect(await untouched()).toBe(before);
    expect(await world.deliver()).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
    expect(await pastCloudflare(actors.stranger.v4[0])).toMatchObject({ status: 403, servedBy: "pushgate-proxy" });
  });
}

test("preview is clean after the last round, and another owner's rule is kept after pushgate's", async () => {
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(0);
  expect(custom(world.api.zone).map(({ ref }) => ref)).toEqual(["pushgate_delivery", "pushgate_rest", "another_owner"]);
});

test("preview fails if a host is unreachable", async () => {
  await host.inside("systemctl stop ssh.socket ssh.service 'session-*.scope'", { check: false });
  await until("ssh is closed", async () =>
    (await host.ssh("true", { check: false })).code === 255 ? true : undefined,
  );
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code, preview.stdout).toBe(1);
  const errors = preview.diagnostics.filter(({ severity }) => severity === "error").map(({ message }) => message);
  expect(errors.join("\n")).toContain(`${name}: the host is unreachable; nothing was changed`);
});

function layersOf(faults: readonly Fault[]): string[] {
  return [...new Set(faults.map(({ layer }) => layer))].sort();
}

/** The receiver's layer also sends the program's file again. */
function updates(faults: readonly Fault[], edge: readonly EdgeFault[]): string[] {
  const layers = layersOf(faults).flatMap((layer) =>
    layer === "receiver-program" ? ["receiver-program", "receiver-program-file"] : [layer],
  );
  return [...layers.map((layer) => `${name}-${layer}`), ...edge.map(({ resource }) => resource)]
    .map((resource) => `update ${resource}`)
    .sort();
}
