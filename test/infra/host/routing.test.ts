/** The rule and the route in a real kernel: with them a reply to a visitor arrives, without them it does not. */
import { expect, test } from "vitest";
import { mark, markMask, routingLayer, routingTable } from "../../../infra/host/routing/routing.ts";
import { loopback } from "../../../infra/networks.ts";
import { connect, inNamespace, needs, Root } from "./namespace.ts";

needs("unshare", "ip", "perl");

const layer = routingLayer();
const script = layer.files.find(({ path }) => path.endsWith("/routing"))!.text;
const root = new Root();
const routingScript = root.write("routing", script, 0o755);
// A namespace has no service manager.
const retire = `(${layer.script}\nsystemctl() { :; }\n${layer.retire})`;
const visitor4 = "192.30.252.7";
const visitor6 = "2a0a:a440::5";
const tried = [
  [visitor4, loopback.v4],
  [visitor6, loopback.v6],
  [loopback.v4, loopback.v4],
] as const;
const all = tried.map(([from]) => from);
const listen = (withMark = mark) =>
  `${connect} listen,${loopback.v4},9461,${withMark} listen,${loopback.v6},9461,${withMark}`;
const connections = `${connect} ${tried.map(([from, to]) => `${from},${to},9461`).join(" ")} | grep yes | cut -d ' ' -f 1`;
/** Another route for a reply, as on any real host. */
const defaultRoute = `
ip link add out type veth peer name far
ip link set far up
ip link set out up
ip address add 203.0.113.10/24 dev out
ip address add 2001:db8::10/64 dev out nodad
ip route add default via 203.0.113.1
ip -6 route add default via 2001:db8::1`;
// wg-quick's full tunnel: two rules without a pref, each of which lands before all others.
const tunnel = `
ip link add wg0 type veth peer name wg1
ip link set wg0 up
ip route add default dev wg0 table 51820
ip rule add not fwmark 51820 table 51820
ip rule add table main suppress_prefixlength 0`;
const facts = layer.facts
  .filter(({ name }) => !name.includes(".service"))
  .map(
    ({ name, read, want }) =>
      `found=$(${layer.script}\nneeds=${routingScript}\n${read}) || :\n[ "$found" = '${want}' ] || echo "${name}: $found"`,
  )
  .join("\n");
/** A former release's program, and its sockets' mark. */
const formerMark = 0xd3;
const former = root.write("former", script.replace(/^fwmark=.*/m, "fwmark=0xd3/0xff"), 0o755);
const forgetful = root.write("forgetful", script.replace("ss -Hltne", "true"), 0o755);
const marks = `ip rule show | sed -n 's/.* fwmark \\(.*\\) iif .*/\\1/p' | sort`;
const end = "ss -Hltnp | sed 's/.*pid=\\([0-9]*\\).*/\\1/' | sort -u | xargs kill";
const foreign = `ip rule show | grep -v 'lookup ${routingTable}' | diff ${root.at("before")} -`;
const quiet = `${routingScript} >/dev/null`;

test.each<[what: string, script: string, prints: readonly string[]]>([
  [
    "a reply arrives by IPv4 and IPv6, with another program's flag in the mark's other bits, and every fact holds",
    `${defaultRoute}\n${quiet}\n${routingScript}\n${listen(mark | 0x4000)}\n${connections}\n${facts}`,
    all,
  ],
  ...[
    ["rule", "ip rule del pref 90; ip -6 rule del pref 90", listen()] as const,
    ["route", `for family in -4 -6; do ip $family route flush table ${routingTable}; done`, listen()] as const,
    ["socket's mark", "", listen(0)] as const,
  ].map(([what, undo, listens]): [string, string, string[]] => [
    `without the ${what} the reply goes elsewhere and the visitor waits`,
    `${defaultRoute}\n${quiet}\n${undo}\n${listens}\n${connections}`,
    [loopback.v4],
  ]),
  [
    "a tunnel that was there first does not get the receiver's replies",
    `${tunnel}\n${quiet}\n${listen()}\n${connections}\n${facts}`,
    all,
  ],
  [
    "a tunnel that comes later takes the receiver's replies until the guard runs next",
    `${quiet}\n${tunnel}\n${listen()}\n${connections}\n${facts}
ip rule show | grep -v 'lookup ${routingTable}' >${root.at("before")}
${routingScript}\n${foreign}\n${connections}\n${facts}`,
    [
      ...[visitor6, loopback.v4, "route of a reply to an IPv4 visitor: elsewhere"],
      ...["placed the IPv4 rule at pref 87", ...all],
    ],
  ],
  [
    "the rule goes back to its place once the tunnel that it had moved before is gone",
    `${quiet}\n${tunnel}\n${routingScript}\nip rule del pref 88\nip rule del pref 89
${routingScript}\n${listen()}\n${connections}\n${facts}`,
    ["placed the IPv4 rule at pref 87", "placed the IPv4 rule at pref 90", ...all],
  ],
  [
    "foreign rules stay, old rules of pushgate go, and a removal leaves only the foreign ones",
    `ip rule add pref 90 fwmark 7 lookup main
ip rule add pref 100 from 203.0.113.0/24 lookup 100
ip rule show >${root.at("before")}
ip rule add pref 91 fwmark 1 lookup ${routingTable}
${routingScript}
ip rule show | grep -c 'lookup ${routingTable}'
${foreign}
${retire}
ip rule show | diff ${root.at("before")} -
ip route show table all | grep -c 'table ${routingTable}' || :`,
    [
      ...["placed the IPv4 route", "placed the IPv4 rule at pref 89"],
      ...["placed the IPv6 route", "placed the IPv6 rule at pref 90", "1", "0"],
    ],
  ],
  [
    "the rule of a former mark stays while a socket has it, and would go without the look, with the replies",
    `${defaultRoute}\n${former} >/dev/null\n${listen(formerMark)}\n${quiet}\n${marks}\n${connections}\n${facts}
${forgetful} >/dev/null\n${marks}\n${connections}`,
    ["0xd3/0xff", "0xe7/0xff", ...all, "0xe7/0xff", loopback.v4],
  ],
  [
    "the rule of a former mark goes after its socket",
    `${former} >/dev/null\n${listen(formerMark)}\n${quiet}\n${end}\n${quiet}\n${marks}\n${facts}`,
    ["0xe7/0xff"],
  ],
  [
    "a host without IPv6 gets the IPv4 rule and route, and every fact holds",
    `echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6\n${routingScript}\n${facts}`,
    ["placed the IPv4 route", "placed the IPv4 rule at pref 90"],
  ],
])("%s", (_, script, prints) => {
  const { stdout, stderr } = inNamespace(script);
  expect([stdout.split("\n"), stderr]).toEqual([prints, ""]);
  expect(mark & ~markMask).toBe(0);
});

// As systemd-sysctl does during the boot of a host without IPv6.
test("the program goes on where IPv6 is switched off while it runs, and fails where IPv6 is on", () => {
  const ipv6 = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
  root.write(
    "bin/ip",
    '#!/bin/sh\ncase "$*" in "$before"*) eval "$event" ;; esac\nPATH=${PATH#*:} exec ip "$@"\n',
    0o755,
  );
  const look = " || ! has_ipv6\n";
  expect(script).toContain(look);
  const unlooking = root.write("unlooking", script.replace(look, "\n"), 0o755);
  const runs = ["-6 route replace", "-6 rule add", "-6 route get"].flatMap((before) =>
    [
      [routingScript, `echo 1 >${ipv6}`],
      [unlooking, `echo 1 >${ipv6}`],
      [routingScript, "exit 2"],
    ].map(
      ([program, event]) =>
        `echo 0 >${ipv6}; ${retire} || :; code=0; before='${before}' event='${event}' ${program} >&2 || code=$?; echo $code`,
    ),
  );
  expect(inNamespace(runs.join("\n"), root.at("bin")).stdout.split("\n")).toEqual(
    Array(3).fill(["0", "1", "1"]).flat(),
  );
});
