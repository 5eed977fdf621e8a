/** The egress table in a real kernel: which addresses each build account reaches, and how fast others are rejected. */
import { expect, test } from "vitest";
import { sitesOf } from "../../../infra/config/derived.ts";
import { accountNames, egressLayer } from "../../../infra/host/egress/egress.ts";
import { firewallLayer } from "../../../infra/host/firewall/firewall.ts";
import { paths } from "../../../infra/host/paths.ts";
import { example, exampleHost, rebuilt } from "../../fixtures.ts";
import { cable, connect, inNamespace, needs, Root } from "./namespace.ts";

const layer = egressLayer(rebuilt);
const root = new Root();
/** A user namespace has no account but root, so root takes the place of the account in the file `who`. */
const users = `for name; do [ "$name" = "$(cat ${root.at("who")})" ] && uid=0 || uid=65534; echo "$name:x:$uid:"; done`;
root.write("bin/getent", `#!/bin/sh\nshift\n${users}\n`, 0o755);
for (const { path, text, mode } of [...layer.files, ...firewallLayer(example, exampleHost).files])
  root.write(path, root.moved(text, "/etc/resolv.conf"), Number.parseInt(mode, 8));
const resolvConf = root.at("/etc/resolv.conf");
const script = root.at("/usr/local/lib/pushgate/egress");
const drift = `${script} --print 2>/dev/null | ${root.at("/usr/local/lib/pushgate/firewall-drift")} pushgate_egress -`;
const own = "203.0.113.9";
const own6 = "2001:db8::9";
const git = "198.51.100.80";
const git6 = "2001:db8:5::80";
const office = "10.1.2.3";
const office6 = "fd12:3456::3";
const neighbour = "10.9.9.9";
const metadata = "169.254.169.254";
const metadata6 = "fd00:ec2::254";
const there = [git, office, neighbour, metadata, "168.63.129.16"];
const there6 = [git6, office6, metadata6];
const all = [...there, ...there6];
/** The host's own addresses; docs opens a range with the last one. */
const itself = [own, own6, "10.1.2.9"];
const everywhere = [...all, ...itself];
const ports = [443, 2222, 22, 53];
const toPorts = (at: readonly string[], ...own: readonly number[]) =>
  at.flatMap((to) => own.map((port) => `${to} ${port}`));

const listening = (at: readonly string[]) =>
  toPorts(at, ...ports)
    .map((to) => `listen,${to.replace(" ", ",")}`)
    .join(" ");

/** What each script prints on a host that has all other addresses at the other end of a cable. */
function host(scripts: readonly string[]): string[] {
  root.write("who", "pushgate-build-site");
  root.write("/etc/resolv.conf", `nameserver ${neighbour}\nnameserver ${git6}\n`);
  const { stdout, stderr } = inNamespace(
    `${cable({ v4: own, v6: own6 }, { v4: there, v6: there6 })}
ip address add ${itself[2]} dev lo
nsenter --target "$far" --net ${connect} ${listening(all)}
${connect} ${listening(itself)}
${scripts.join("\necho ====\n")}`,
    root.at("bin"),
  );
  expect(stderr).toBe("");
  return stdout.split("====");
}
const tcp = `${connect} ${everywhere.flatMap((to) => ports.map((port) => `${to.includes(":") ? own6 : own},${to},${port}`)).join(" ")}`;
/** Sends datagrams four times: the first ones may get lost while the kernel looks for the neighbour. */
const udp = `nsenter --target "$far" --net nft 'flush ruleset; table inet heard {
  set v4 { type ipv4_addr . inet_service; flags dynamic; size 99; }
  set v6 { type ipv6_addr . inet_service; flags dynamic; size 99; }
  chain input { type filter hook input priority 0; add @v4 { ip daddr . udp dport }; add @v6 { ip6 daddr . udp dport }; }
}'
perl -MIO::Socket::IP -e 'for (1 .. 4) { for my $to (qw(${all.join(" ")})) { for (${ports.join(", ")}) {
  my $s = IO::Socket::IP->new(PeerHost => $to, PeerPort => $_, Proto => "udp") or next; $s->send("x") } }
  select undef, undef, undef, 0.15 }'
nsenter --target "$far" --net nft list table inet heard`;
/** "address port", sorted, of what arrived at the other end. */
const arrived = (printed: string) =>
  [...printed.matchAll(/(?<=^\S+ )(\S+ \d+)(?= yes$)|([0-9a-f.:]+) \. (\d+)/gm)]
    .map(([, connected, to, port]) => connected ?? `${to} ${port}`)
    .sort();

needs("unshare", "ip", "nft", "perl");

const servers = [neighbour, git6];
const dns = toPorts(servers, 53);
const internet = [git, git6];
const open = [...internet, office, office6];
const ofDocs = [...toPorts(open, 443, 2222), ...dns];
const private_ = "s/ ip6? daddr != \\@private.//g";
const noFib = "s/^ {4}fib .*\\n//gm";
/** `change`: in Perl, of the table's text, for what happens without some of its words. */
const rows: [what: string, account: string, change: string, how: string, reaches: readonly string[]][] = [
  ["the name server, and the repository's port", "build-site", "", tcp, [...toPorts(internet, 443), ...dns]],
  ["without reject", "build-site", "s/^ {4}(meta l4proto tcp )?reject .*\\n//gm", tcp, toPorts(everywhere, ...ports)],
  ["without private ranges", "build-site", private_, tcp, [...toPorts(all, 443), ...dns]],
  [
    "without ports",
    "build-site",
    "s/ tcp dport \\{ 443 \\}//g",
    tcp,
    [...toPorts(internet, ...ports), `${neighbour} 53`],
  ],
  ["the site's own ranges", "build-docs", "", tcp, ofDocs],
  ["another site's, with its chain", "build-site", "s/jump pushgate-build-site/jump pushgate-build-docs/", tcp, ofDocs],
  // An opened range and the internet hold the host's own addresses.
  ["the host, in a range", "build-docs", noFib, tcp, [...toPorts([...open, ...itself], 443, 2222), ...dns]],
  ["the host, in public", "build-site", noFib, tcp, [...toPorts([...internet, own, own6], 443), ...dns]],
  ["nothing", "fetcher-docs", "", tcp, []],
  ["the reporter's ports", "report-docs", "", tcp, [...toPorts(open, 443), ...dns]],
  ["the host's cloud, without private ranges", "report-docs", private_, tcp, [...toPorts(all, 443), ...dns]],
  ["everything, with another account", "other", "", tcp, toPorts(everywhere, ...ports)],
  ["the name server's port by UDP", "build-site", "", udp, dns],
  ["all by UDP, without reject", "build-site", "s/^ {4}reject with icmpx .*\\n//gm", udp, toPorts(all, ...ports)],
  ["that port anywhere", "build-site", "s/ip6? daddr \\{[^}]*\\} udp dport/udp dport/g", udp, toPorts(all, 53)],
  ["all their ports", "build-site", "s/udp dport \\{ 53 \\}/meta l4proto udp/g", udp, toPorts(servers, ...ports)],
];
test("each account reaches its own addresses and ports alone, and more without one of the rules", () => {
  const found = host(
    rows.map(([, account, change, how]) => {
      // Root is the account here, and listens: what it answers is not the account's traffic.
      const printed = `${script} --print | sed 's/skuid [0-9]*/& ct direction original/' >printed`;
      const changed = `perl -0pe '${change}' printed >changed; ${change && "! cmp -s printed changed"}`;
      return `cd ${root.folder}; printf pushgate-${account} >who\n${printed}\n${changed}\nnft -f changed\n${how}`;
    }),
  );
  const sorted = rows.map(([what, , , , reaches]) => [what, [...new Set(reaches)].sort()]);
  expect(found.map((printed, i) => [rows[i]![0], arrived(printed)])).toEqual(sorted);
});

test("a rejected connection fails at once, on both address families and for UDP", () => {
  const [printed] = host([
    `${script}
perl -MIO::Socket::IP -MTime::HiRes=time -e '
for (["${metadata}", 443, "tcp"], ["${metadata6}", 443, "tcp"], ["${metadata}", 53, "udp"]) {
  my ($to, $port, $kind) = @$_; my $began = time;
  my $s = IO::Socket::IP->new(PeerHost => $to, PeerPort => $port, Proto => $kind, Timeout => 5);
  my $result = $s ? do { $s->send("x"); $s->recv(my $answer, 1); "$!" } : "$@";
  print "$kind ", (time - $began < 0.5 ? "at once" : "late"), "\\n" }'`,
  ]);
  expect(printed).toBe("tcp at once\ntcp at once\nudp at once");
});

test("the table admits the name servers of resolv.conf, and without one the host itself", () => {
  const left = (address: string, why: string) => `egress: ${resolvConf} names ${address}, which is left out: ${why}`;
  const printed = (resolv: string) => {
    root.write("/etc/resolv.conf", resolv);
    const { stdout, stderr } = inNamespace(`${script} --print`, root.at("bin"));
    return [stdout.match(/ip6? daddr \{[^}]*\}(?= udp dport)/g), stderr.split("\n")];
  };
  // Once for each account that reaches something.
  const admitted = (...lines: string[]) => Array(4).fill(lines).flat();
  expect(printed("search example.org\n")).toEqual([admitted("ip daddr { 127.0.0.1 }", "ip6 daddr { ::1 }"), [""]]);
  const twice = "nameserver 192.0.2.1 # first\n nameserver\t2001:db8::53\nnameserver 192.0.2.1\n";
  expect(printed(`${twice}#nameserver 192.0.2.9\nnameserver 1}accept\nnameserver fe80::1%eth0\n`)).toEqual([
    admitted("ip daddr { 192.0.2.1 }", "ip6 daddr { 2001:db8::53 }"),
    [left("1}accept", "it is not an IP address"), left("fe80::1%eth0", "nftables cannot match an address with a zone")],
  ]);
});

test("drift reports a change of the name server until the table is loaded again", () => {
  const change = `echo nameserver 192.0.2.2 >${resolvConf}`;
  const found = host([drift, `${script}\n${change}\n${drift} | cut -d ' ' -f 1-4`, `${script}\n${drift}`]);
  expect(found.map((text) => text.trim())).toEqual(["absent", "missing: ip daddr 192.0.2.2", "as declared"]);
});

test("without the accounts the program fails and prints what to run", () => {
  root.write("none/getent", "#!/bin/sh\nexit 2\n", 0o755);
  expect(inNamespace(script, root.at("none"))).toMatchObject({
    status: 1,
    stderr: expect.stringContaining("egress: the account pushgate-build-site is missing. Run npx pulumi up."),
  });
});

test("every account that the layer makes has a line that confines it, and a fact holds it", () => {
  const textOf = (path: string) => layer.files.find((one) => one.path === path)!.text;
  const accounts = [...textOf(paths.builderSysusers).matchAll(/^u (\S+) - /gm)].map(([, name]) => name!);
  const confined = [...textOf(paths.egress).matchAll(/^([\w-]+);/gm)].map(([, name]) => name!);
  const held = layer.facts.filter(({ read }) => read.startsWith(`accounts 'pushgate-`));
  const wanted = held.flatMap(({ want }) => want.split("\n").map((line) => line.split(" ")[0]!));
  expect(layer.script).toMatch(
    /^homes='pushgate-build-site:\/var\/lib\/pushgate-sites pushgate-generator-site:\/nonexistent /m,
  );
  const names = accountNames(sitesOf(rebuilt)).toSorted();
  for (const each of [accounts, confined, wanted]) expect(each.toSorted()).toEqual(names);
});
