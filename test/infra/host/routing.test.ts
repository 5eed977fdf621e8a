/** The rule and the route in a real kernel: with them a reply to a visitor arrives, without them it does not. */
import { afterAll, describe, expect, test } from "vitest";
import { mark, markMask, routingLayer, routingTable } from "../../../infra/host/routing/routing.ts";
import { loopback } from "../../../infra/networks.ts";
import { inNamespace, needs, Root } from "./namespace.ts";

needs("unshare", "ip", "perl");

const layer = routingLayer();
const script = layer.files.find(({ path }) => path.endsWith("/routing"))!.text;
const root = new Root();
afterAll(() => root.remove());
const routingScript = root.write("routing", script, 0o755);
// A namespace has no service manager.
const retire = `(${layer.script}\nsystemctl() { :; }\n${layer.retire})`;
const connect = `perl ${new URL("connect.pl", import.meta.url).pathname}`;

const visitor4 = "192.30.252.7";
const visitor6 = "2a0a:a440::5";
const listen = (withMark: number) => `
${connect} listen,${loopback.v4},9461,${withMark} listen,${loopback.v6},9461,${withMark}`;
const connections = `${connect} ${visitor4},${loopback.v4},9461 ${visitor6},${loopback.v6},9461 ${loopback.v4},${loopback.v4},9461`;
const answers = (v4: string, v6: string) =>
  [
    `${visitor4} ${loopback.v4} 9461 ${v4}`,
    `${visitor6} ${loopback.v6} 9461 ${v6}`,
    `${loopback.v4} ${loopback.v4} 9461 yes`,
  ].join("\n");
/** Another route for a reply, as on any real host. */
const defaultRoute = `
ip link add out type veth peer name far
ip link set far up
ip link set out up
ip address add 203.0.113.10/24 dev out
ip address add 2001:db8::10/64 dev out nodad
ip route add default via 203.0.113.1
ip -6 route add default via 2001:db8::1`;
const facts = layer.facts
  .filter(({ name }) => !name.includes(".service"))
  .map(
    ({ name, read, want }) =>
      `found=$(${layer.script}\n${read}) || :\n[ "$found" = '${want}' ] || echo "${name}: $found"`,
  )
  .join("\n");

describe("routing in a namespace", () => {
  test("a reply to a visitor arrives by IPv4 and IPv6, and every fact holds", () => {
    const { stdout, stderr } = inNamespace(
      `${defaultRoute}\n${routingScript}\n${routingScript}\n${listen(mark)}\n${connections}\n${facts}`,
    );
    expect(stderr).toBe("");
    expect(stdout.replace(/^placed .*\n/gm, "")).toBe(answers("yes", "yes"));
  });

  test("another program's flag in the mark's other bits changes nothing", () => {
    expect(mark & ~markMask).toBe(0);
    const { stdout } = inNamespace(`${routingScript} >&2\n${listen(mark | 0x4000)}\n${connections}`);
    expect(stdout).toBe(answers("yes", "yes"));
  });

  test.each([
    ["without the rule", routingScript, `ip rule del pref 90\nip -6 rule del pref 90`, mark],
    [
      "without the route",
      routingScript,
      `ip route flush table ${routingTable}\nip -6 route flush table ${routingTable}`,
      mark,
    ],
    ["without the socket's mark", routingScript, ":", 0],
    ["after removal", `${routingScript}\n${retire}`, ":", mark],
  ])("%s the reply goes elsewhere and the visitor waits", (_, set, undo, withMark) => {
    const { stdout } = inNamespace(`${defaultRoute}\n(${set}) >&2\n${undo}\n${listen(withMark)}\n${connections}`);
    expect(stdout).toBe(answers("no", "no"));
  });

  // wg-quick's full tunnel: two rules without a pref, each of which lands before all others.
  const tunnel = `
ip link add wg0 type veth peer name wg1
ip link set wg0 up
ip route add default dev wg0 table 51820
ip rule add not fwmark 51820 table 51820
ip rule add table main suppress_prefixlength 0`;

  test("a tunnel that was there first does not get the receiver's replies", () => {
    const { stdout } = inNamespace(`${tunnel}\n${routingScript} >&2\n${listen(mark)}\n${connections}\n${facts}`);
    expect(stdout).toBe(answers("yes", "yes"));
  });

  test("a tunnel that comes later takes the receiver's replies until the guard runs next", () => {
    const { stdout } = inNamespace(`${routingScript} >&2
${tunnel}
${listen(mark)}
${connections}
${facts}
ip rule show | grep -v 'lookup ${routingTable}' >${root.at("before")}
${routingScript}
ip rule show | grep -v 'lookup ${routingTable}' | diff ${root.at("before")} -
${connections}
${facts}`);
    expect(stdout).toBe(
      `${answers("no", "yes")}\nroute of a reply to an IPv4 visitor: elsewhere\nplaced the IPv4 rule at pref 87\n${answers("yes", "yes")}`,
    );
  });

  test("foreign rules stay, old rules of pushgate go, and a removal leaves only the foreign ones", () => {
    const { stdout } = inNamespace(`
ip rule add pref 90 fwmark 7 lookup main
ip rule add pref 100 from 203.0.113.0/24 lookup 100
ip rule show >${root.at("before")}
ip rule add pref 91 fwmark 1 lookup ${routingTable}
${routingScript}
ip rule show | grep -c 'lookup ${routingTable}'
ip rule show | grep -v 'lookup ${routingTable}' | diff ${root.at("before")} -
${retire}
ip rule show | diff ${root.at("before")} -
ip route show table all | grep -c 'table ${routingTable}' || :`);
    expect(stdout).toBe(
      "placed the IPv4 route\nplaced the IPv4 rule at pref 89\nplaced the IPv6 route\nplaced the IPv6 rule at pref 90\n1\n0",
    );
  });

  test("a host without IPv6 gets the IPv4 rule and route, and every fact holds", () => {
    const { status, stdout, stderr } = inNamespace(`
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
${routingScript}
${facts}`);
    expect({ status, stdout, stderr }).toEqual({
      status: 0,
      stdout: "placed the IPv4 route\nplaced the IPv4 rule at pref 90",
      stderr: "",
    });
  });

  describe("another program changes settings at the same time", () => {
    /** The exit status of the program with an `ip` that runs `event` before the call that begins with `call`. */
    const during = (text: string, call: string, event: string) => {
      root.write("during", text, 0o755);
      const wrapper = `case "$*" in '${call}'*) ${event} ;; esac\nPATH=\${PATH#*:} exec ip "$@"\n`;
      root.write("bin/ip", `#!/bin/sh\n${wrapper}`, 0o755);
      return inNamespace(root.at("during"), root.at("bin")).status;
    };
    const calls = ["-6 route replace", "-6 rule add", "-6 route get"];

    // As systemd-sysctl does during the boot of a host without IPv6.
    test.each(calls)("the program goes on without IPv6 right before ip %s, and fails where IPv6 is on", (call) => {
      const off = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6";
      const look = " || ! has_ipv6\n";
      expect(script).toContain(look);
      const unlooking = script.replace(look, "\n");
      expect([during(script, call, off), during(unlooking, call, off), during(script, call, "exit 2")]).toEqual([
        ...[0, 1, 1],
      ]);
    });
  });
});
