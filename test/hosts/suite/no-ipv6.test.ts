/** A host without IPv6: what it accepts, that its order of units holds at a boot, and the way back to IPv6. */
import { expect, test } from "vitest";
import { paths, units } from "../../../infra/host/paths.ts";
import { routingTable } from "../../../infra/host/routing/routing.ts";
import type { Run } from "../../engine/engine.ts";
import { succeeded } from "../../engine/program-stack.ts";
import { ending } from "../deployed.ts";
import { bootHost } from "../lab/host.ts";
import { actors } from "../lab/net.ts";
import { release } from "../release.ts";
import { buildWorld, hostnameOf } from "../world.ts";

const host = await bootHost({ name: "v4only", release, variant: "packages", noIpv6: true });
const world = ending(await buildWorld([host]), host);

const warnings = ({ diagnostics }: Run) =>
  diagnostics.filter(({ severity }) => severity === "warning").map(({ message }) => message);
const [v4, v6] = [actors.github.v4[0], actors.github.v6[0]];
const accepted = { status: 202, servedBy: "pushgate-receiver" };

test("up sets up a host without IPv6, with a warning of what it cannot accept", async () => {
  const told = warnings(succeeded(await world.stack.up())).filter((text) => text.includes("IPv6"));
  expect(told).toHaveLength(1);
  expect(told[0]).toMatch(/^v4only: no IPv6 on this host: .*lo\.disable_ipv6=0/);
  expect(await world.deliver({ source: v4 })).toMatchObject(accepted);
  // As the warning says: no socket of this host can see the address of such a sender.
  expect(told[0]).toContain("a push that reaches Cloudflare over IPv6 is answered 503");
  expect(await world.deliver({ source: v6 })).toMatchObject({ status: 503, servedBy: "pushgate-proxy" });
  expect(world.api.zone.dns_records.map(({ name, type }) => `${name} ${type}`)).toEqual([`${hostnameOf(host)} A`]);
});

test("a boot without IPv6 places no IPv6 rule; without its order the routing unit would run while IPv6 is still on", async () => {
  const slow = "/etc/systemd/system/systemd-sysctl.service.d";
  const after = "After=systemd-sysctl.service";
  const unit = `${paths.units}/${units.routing}`;
  const rules = () => host.read(`sysctl -n net.ipv6.conf.lo.disable_ipv6; ip -6 rule show table ${routingTable}`);
  const wait = (command: string) =>
    host.writeFile(`${slow}/slow.conf`, `[Service]\nExecStartPre=/bin/sh -c '${command}'\n`);
  await wait("sleep 1");
  await host.reboot();
  expect(await rules()).toBe("1");
  await host.inside(`grep -qx ${after} ${unit} && cp -p ${unit} /root/ && sed -i '/^${after}$/d' ${unit}`);
  await wait(`for _ in $$(seq 300); do systemctl is-active --quiet ${units.routing} && exit; sleep 0.1; done`);
  await host.reboot();
  expect(await rules()).toMatch(/^1\n.*lookup /);
  await host.inside(`rm -r ${slow} && mv /root/${units.routing} ${unit} && systemctl daemon-reload`);
});

test("up sets up IPv6 with the fix that the warning named", async () => {
  await host.inside("sysctl -qw net.ipv6.conf.lo.disable_ipv6=0");
  const back = succeeded(await world.stack.up());
  expect(warnings(back).join("\n")).not.toContain("no IPv6 on this host");
  for (const source of [v4, v6]) expect(await world.deliver({ source })).toMatchObject(accepted);
});
