/**
 * A second host, without IPv6, joins a first, and both accept deliveries. The second is lost, comes back, and is
 * removed with an empty spool, while the first keeps serving. leave.test.ts removes the last host of a zone.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { routingTable } from "../../../infra/host/routing/routing.ts";
import type { Run } from "../../engine/engine.ts";
import { deployedWorld } from "../deployed.ts";
import { type HostState, hostState } from "../host-state.ts";
import { bootHost, type Frozen, type Host, thaw } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { hostEntry, hostnameOf, type World } from "../world.ts";

let both: Host;
let v4only: Host;
let world: World;
let up: Run;
let gone: Frozen;
let before: HostState;

const warnings = ({ diagnostics }: Run) =>
  diagnostics.filter(({ severity }) => severity === "warning").map(({ message }) => message);

const states = (change: Readonly<Record<string, unknown>>) =>
  world.stack.configure({ "pushgate:hosts": [hostEntry(both), hostEntry(v4only, change)] });

const deliverTo = (host: Pick<Host, "name">, source: string = actors.github.v4[0]) =>
  world.deliver({ host: hostnameOf(host), source });

beforeAll(async () => {
  v4only = await bootHost({ name: "v4only", release, variant: "packages", noIpv6: true });
  const deployed = await deployedWorld("both");
  world = deployed;
  [both] = deployed.hosts;
  before = await hostState(v4only);
  states({});
  up = await world.stack.up();
});

afterAll(async () => {
  await world?.close();
  await both?.kill();
  await v4only?.kill().catch(() => {});
});

test("up sets up a host without IPv6, with a warning, and changes nothing of the other host", async () => {
  expect(up.code, up.stdout).toBe(0);
  expect(up.steps.filter(({ name }) => name.startsWith(`${both.name}-`))).toEqual([]);
  const told = warnings(up).filter((text) => text.includes("IPv6"));
  expect(told).toHaveLength(1);
  expect(told[0]).toMatch(/^v4only: no IPv6 on this host: .*lo\.disable_ipv6=0/);
  expect(await deliverTo(v4only)).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  // As the warning says: no socket of this host can see the address of such a sender.
  expect(told[0]).toContain("a push that reaches Cloudflare over IPv6 is answered 503");
  expect(await deliverTo(v4only, actors.github.v6[0])).toMatchObject({ status: 503, servedBy: "pushgate-proxy" });
  expect(world.api.zone.dns_records.map(({ name, type }) => `${name} ${type}`).sort()).toEqual([
    `${hostnameOf(both)} A`,
    `${hostnameOf(both)} AAAA`,
    `${hostnameOf(v4only)} A`,
  ]);
});

test("each host accepts the deliveries to its own hostname", async () => {
  for (const source of [actors.github.v4[0], actors.github.v6[0]])
    expect(await deliverTo(both, source)).toMatchObject({ status: 202 });
  expect(await world.spooled(both)).toHaveLength(2);
  expect(await world.spooled(v4only)).toHaveLength(1);
});

test("a boot without IPv6 places no IPv6 rule; without its order the routing unit would run while IPv6 is still on", async () => {
  const slow = "/etc/systemd/system/systemd-sysctl.service.d";
  const after = "After=systemd-sysctl.service";
  const unit = `${paths.units}/${units.routing}`;
  const rules = () => v4only.read(`sysctl -n net.ipv6.conf.lo.disable_ipv6; ip -6 rule show table ${routingTable}`);
  const wait = (command: string) =>
    v4only.writeFile(`${slow}/slow.conf`, `[Service]\nExecStartPre=/bin/sh -c '${command}'\n`);
  await wait("sleep 1");
  await v4only.reboot();
  expect(await rules()).toBe("1");
  await v4only.inside(`grep -qx ${after} ${unit} && cp -p ${unit} /root/ && sed -i '/^${after}$/d' ${unit}`);
  await wait(`for _ in $$(seq 300); do systemctl is-active --quiet ${units.routing} && exit; sleep 0.1; done`);
  await v4only.reboot();
  expect(await rules()).toMatch(/^1\n.*lookup /);
  await v4only.inside(`rm -r ${slow} && mv /root/${units.routing} ${unit} && systemctl daemon-reload`);
});

test("up prints a warning about a lost host, and no audit is clean until it is back", async () => {
  gone = await v4only.freeze();
  states({ state: "lost" });
  const told = "v4only is declared lost: it was not probed";
  const without = await world.stack.up();
  expect(without.code, without.stdout).toBe(0);
  expect(warnings(without).join("\n")).toContain(told);
  expect(await deliverTo(both)).toMatchObject({ status: 202 });
  expect((await deliverTo(v4only)).status).toBe(522);
  const preview = await world.stack.preview("--expect-no-changes");
  expect(preview.code).toBe(7);
  expect(preview.steps.map(({ op, name }) => `${op} ${name}`)).toEqual(["update v4only-lost"]);
  expect(warnings(preview).join("\n")).toContain(told);
});

test("up sets up the host that came back, with the fix that the warning named", async () => {
  v4only = await thaw(gone);
  await v4only.inside("sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
  states({});
  const back = await world.stack.up();
  expect(back.code, back.stdout).toBe(0);
  expect(warnings(back).join("\n")).not.toContain("no IPv6 on this host");
  for (const source of [actors.github.v4[0], actors.github.v6[0]])
    expect(await deliverTo(v4only, source)).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
  expect(await world.spooled(v4only)).toHaveLength(3);
});

test("up removes a host with an empty spool: its files and its DNS records are gone, and the other host serves", async () => {
  await v4only.inside(`find ${paths.spool} -type f -delete`);
  states({ state: "absent" });
  const leaving = await world.stack.up();
  expect(leaving.code, leaving.stdout).toBe(0);
  const { etc, local, named } = await hostState(v4only);
  expect({ etc, local }).toEqual({ etc: before.etc, local: before.local });
  expect(named).toEqual([paths.state]);
  expect(JSON.stringify(world.api.zone)).not.toContain(hostnameOf(v4only));
  expect(leaving.steps.filter(({ name }) => name.startsWith(`${both.name}-`))).toEqual([]);
  expect(await deliverTo(both)).toMatchObject({ status: 202 });
});
