/**
 * `up` and `state: absent` on a host with neighbours: a shop of the operator's own nginx on 443, Docker, ufw, fail2ban
 * and a policy route. They are unchanged and serve before, during and after both: the files of the operator's nginx byte
 * for byte, its process and its unit's state. The removal restores the host and loses no accepted delivery;
 * docs/decisions/006 explains its order. What it leaves at Cloudflare is in test/engine.
 */
import { expect, test } from "vitest";
import { paths } from "../../../infra/host/paths.ts";
import type { Run } from "../../engine/engine.ts";
import { delivery } from "../../fakes/deliveries.ts";
import { ending } from "../deployed.ts";
import { hostState } from "../host-state.ts";
import { bootHost } from "../lab/host.ts";
import { addNeighbours, neighbourhood } from "../lab/neighbours.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { repeatWhile } from "../repeat-while.ts";
import { type Answer, buildWorld, hostEntry, hostnameOf } from "../world.ts";

const host = await bootHost({ name: "leaver", release, variant: "packages" });
await addNeighbours(host);
// A file of the operator's that is not finished would be read at the next reload or restart of that nginx.
await host.writeFile("/etc/nginx/conf.d/half-done.conf", "server { listen\n");
const world = ending(await buildWorld([host]), host);
const before = { host: await hostState(host), neighbours: await neighbourhood(host) };
/** Layers, in the order of the first `up`. */
let arrived: string[];

/** Runs `up`, and looks at the neighbours twice per second meanwhile; throws if the shop does not answer. */
async function upBesideNeighbours(): Promise<Run> {
  const looked = () => neighbourhood(host);
  const { done: up, seen: looks } = await repeatWhile(() => world.stack.up(), looked, 500);
  expect(up.code, up.stdout).toBe(0);
  for (const look of [...looks, await looked()]) expect(look).toEqual(before.neighbours);
  return up;
}

test("up leaves the neighbours unchanged all the time, although the operator's configuration is broken", async () => {
  const up = await upBesideNeighbours();
  arrived = up.steps
    .filter(({ type, name }) => type.endsWith("Command") && name.startsWith("leaver-") && !name.endsWith("-file"))
    .map(({ name }) => name.replace("leaver-", ""))
    // No hook has a site here: layers that were never on the host are not removed.
    .filter((layer) => !["egress", "builder", "site"].includes(layer));
  expect(arrived).toEqual(expect.arrayContaining(["packages", "receiver", "proxy", "firewall", "guard"]));
  expect(Object.keys((await hostState(host)).etc)).not.toEqual(Object.keys(before.host.etc));
  await world.stack.cleanPreview();
});

test("the receiver accepts a delivery despite ufw's default drop, and no neighbour's log has it", async () => {
  const log = () => host.read("cat /var/log/nginx/*.log");
  const lines = await log();
  for (const source of [actors.github.v4[0], actors.github.v6[0]])
    expect(await world.deliver({ source })).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await log()).toBe(lines);
});

test("the removal takes the layers backwards, leaves the neighbours unchanged all the time, admits no stranger and keeps each accepted delivery", async () => {
  let accepted = (await world.spooled(host)).length;
  const strangers: Answer[] = [];
  const attack = delivery({ host: hostnameOf(host) });
  world.stack.configure({ "pushgate:hosts": [hostEntry(host, { state: "absent" })] });
  const { done: leaving } = await repeatWhile(upBesideNeighbours, async () => {
    const { status, servedBy } = await world.deliver();
    if (status === 202) accepted++;
    // A git host does not send again after a 2xx.
    expect(status < 200 || status >= 300 || servedBy === "pushgate-receiver").toBe(true);
    strangers.push(await world.contact(host, actors.stranger.v4[0], attack, undefined, 300));
    expect(await world.deliver({ source: actors.stranger.v4[0] })).not.toMatchObject({ servedBy: "pushgate-receiver" });
  });

  const updates = leaving.steps.filter(({ op, name }) => op === "update" && name.startsWith("leaver-"));
  expect(updates.map(({ name }) => name)).toEqual(arrived.toReversed().map((layer) => `leaver-${layer}`));
  const record = leaving.steps.findIndex(({ op, name }) => op === "delete" && name === `${hostnameOf(host)} A`);
  expect(record).toBeGreaterThan(leaving.steps.indexOf(updates.at(-1)!));
  expect(world.api.zone.dns_records).toEqual([]);
  // Each silence takes 0.3 s of a removal, which a fast computer may end in two.
  expect(strangers.length).toBeGreaterThan(3);
  // Connections to the origin port meet the firewall's silence, then nginx's 400, then a closed port.
  expect(strangers.filter(({ status }) => status !== 0 && status !== 400)).toEqual([]);

  expect(await world.spooled(host)).toHaveLength(accepted);
  const said = leaving.diagnostics.map(({ message }) => message).join("\n");
  expect(said).toContain(`kept ${paths.spool}: ${accepted} accepted deliveries`);
  expect(await host.read(`find ${paths.spool} -perm /077 -o ! -user root -o ! -group root`)).toBe("");
});

test("the host is as before the first up, and the audit is clean", async () => {
  const after = await hostState(host);
  expect(after.etc).toEqual(before.host.etc);
  expect(after.local).toEqual(before.host.local);
  for (const [command, output] of Object.entries(before.host.outputs))
    expect(after.outputs[command], command).toBe(output);
  // The spool of accepted deliveries remains, and the stamps that mark the host as removed.
  expect(before.host.named).toEqual([]);
  expect(after.named).toEqual([paths.state, paths.spool]);
  const stamps = await host.read(`find ${paths.state} -type f -printf '%P ' -exec cat {} \\;`);
  const left = stamps.split("\n").filter(Boolean);
  expect(left).toHaveLength(arrived.length);
  for (const stamp of left) expect(stamp).toMatch(/^stamps\/[a-z-]+ absent-[0-9.]+-[0-9a-f]{12}$/);
  await world.stack.cleanPreview();
});
