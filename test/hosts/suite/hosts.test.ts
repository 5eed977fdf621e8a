/**
 * A second host, without IPv6, joins a first, and both accept deliveries. leave.test.ts removes a host, and
 * edge/documents.test.ts loses one.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { routingTable } from "../../../infra/host/routing/routing.ts";
import type { Run } from "../../engine/engine.ts";
import { deployedWorld } from "../deployed.ts";
import { bootHost, type Host } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { hostEntry, hostnameOf, type World } from "../world.ts";

let both: Host;
let v4only: Host;
let world: World;
let up: Run;

const warnings = ({ diagnostics }: Run) =>
  diagnostics.filter(({ severity }) => severity === "warning").map(({ message }) => message);

const deliverTo = (host: Pick<Host, "name">, source: string = actors.github.v4[0]) =>
  world.deliver({ host: hostnameOf(host), source });

beforeAll(async () => {
  v4only = await bootHost({ name: "v4only", release, variant: "packages", noIpv6: true });
  const deployed = await deployedWorld("both");
  world = deployed;
  [both] = deployed.hosts;
  world.stack.configure({ "pushgate:hosts": [hostEntry(both), hostEntry(v4only)] });
  up = await world.stack.up();
});

afterAll(async () => {
  await world?.close();
  await both?.kill();
  await v4only?.kill();
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

test("up sets up IPv6 with the fix that the warning named", async () => {
  await v4only.inside("sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
  const back = await world.stack.up();
  expect(back.code, back.stdout).toBe(0);
  expect(warnings(back).join("\n")).not.toContain("no IPv6 on this host");
  for (const source of [actors.github.v4[0], actors.github.v6[0]])
    expect(await deliverTo(v4only, source)).toMatchObject({ status: 202, servedBy: "pushgate-receiver" });
});
