/** The egress table in a real kernel: which addresses each build account reaches, and how fast others are rejected. */
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Hook, Site } from "../../../infra/config/settings.ts";
import { egressLayer } from "../../../infra/host/egress/egress.ts";
import { firewallLayer } from "../../../infra/host/firewall/firewall.ts";
import { paths } from "../../../infra/host/paths.ts";
import { example, exampleHost, rebuilt } from "../../fixtures.ts";
import { cable, inNamespace, needs, Root } from "./namespace.ts";

const layer = egressLayer(rebuilt);
const root = new Root();
afterAll(() => root.remove());
/** A user namespace has no account but root, so root takes the builder's place. */
const asRoot = "#!/bin/sh\ncase $2 in pushgate-build-site) echo 0 ;; *) echo 65534 ;; esac\n";
root.write("bin/id", asRoot, 0o755);
for (const { path, text, mode } of [...layer.files, ...firewallLayer(example, exampleHost).files])
  root.write(path, root.moved(text, "/etc/resolv.conf"), Number.parseInt(mode, 8));
const script = root.at("/usr/local/lib/pushgate/egress");
const drift = `${script} --print 2>/dev/null | ${root.at("/usr/local/lib/pushgate/firewall-drift")} pushgate_egress -`;
const connect = `perl ${new URL("connect.pl", import.meta.url).pathname}`;
const own = "203.0.113.9";
const own6 = "2001:db8::9";
const git = "198.51.100.80";
const git6 = "2001:db8:5::80";
const office = "10.1.2.3";
const office6 = "fd12:3456::3";
const neighbour = "10.9.9.9";
const metadata = "169.254.169.254";
const metadata6 = "fd00:ec2::254";
const azure = "168.63.129.16";
const there = [git, office, neighbour, metadata, azure];
const there6 = [git6, office6, metadata6];
const ports = [443, 2222, 22, 53];

/** A host, and all other addresses at the other end of a cable. */
const host = (setup: string, resolv: string): string => {
  root.write("/etc/resolv.conf", resolv);
  const listeners = [...there, ...there6].flatMap((to) => ports.map((port) => `listen,${to},${port}`));
  const { stdout, stderr } = inNamespace(
    `
${cable({ v4: own, v6: own6 }, { v4: there, v6: there6 })}
nsenter --target "$far" --net ${connect} ${listeners.join(" ")}
${setup}`,
    root.at("bin"),
  );
  if (stderr !== "") throw new Error(stderr);
  return stdout;
};
const reached = (setup: string, resolv: string): string[] => {
  const tried = [
    ...there.flatMap((to) => ports.map((port) => `${own},${to},${port}`)),
    ...there6.flatMap((to) => ports.map((port) => `${own6},${to},${port}`)),
  ];
  return host(`${setup}\n${connect} ${tried.join(" ")}`, resolv)
    .split("\n")
    .filter((line) => line.endsWith(" yes"))
    .map((line) => line.split(" ").slice(1, 3).join(" "))
    .sort();
};
/**
 * "address port" of each datagram that arrives at the other end, from a socket of the build account. Each is sent four
 * times: the first ones may get lost while the kernel looks for the neighbour.
 */
const heard = (setup: string, resolv: string): string[] => {
  const sent = [...there, ...there6].flatMap((to) => ports.map((port) => `["${to}", ${port}]`));
  const found = host(
    `nsenter --target "$far" --net nft 'table inet heard {
  set v4 { type ipv4_addr . inet_service; flags dynamic; size 99; }
  set v6 { type ipv6_addr . inet_service; flags dynamic; size 99; }
  chain input { type filter hook input priority 0; add @v4 { ip daddr . udp dport }; add @v6 { ip6 daddr . udp dport }; }
}'
${setup}
perl -MIO::Socket::IP -e 'for (1 .. 4) { for (${sent.join(", ")}) {
  my $s = IO::Socket::IP->new(PeerHost => $_->[0], PeerPort => $_->[1], Proto => "udp") or next; $s->send("x") }
  select undef, undef, undef, 0.15 }'
nsenter --target "$far" --net nft list table inet heard`,
    resolv,
  );
  return [...found.matchAll(/([0-9a-f.:]+) \. (\d+)/g)].map(([, to, port]) => `${to} ${port}`).sort();
};
const every = [...there, ...there6].flatMap((to) => ports.map((port) => `${to} ${port}`)).sort();
const gitHosts = [git, git6, office, office6].flatMap((to) => [`${to} 443`, `${to} 2222`]);

const resolv = `nameserver ${neighbour}\n`;
const toOwnPorts = (at: readonly string[], ...own: readonly number[]) =>
  at.flatMap((to) => own.map((port) => `${to} ${port}`));
const dns = `${neighbour} 53`;
/** The table's text without some of its words, for `nft -f`. */
const broken = (taken: string | RegExp, instead = "") => {
  const rules = inNamespace(`${script} --print`, root.at("bin")).stdout;
  expect(rules).toMatch(taken);
  return `nft -f ${root.write("broken.nft", `${rules.replaceAll(taken, instead)}\n`)}`;
};

describe("in a namespace", () => {
  needs("unshare", "ip", "nft", "perl");
  afterEach(() => {
    root.write("bin/id", asRoot, 0o755);
  });

  test("the builder reaches name server and repositories' ports, on the internet and in opened ranges", () => {
    expect(reached(script, resolv)).toEqual([...gitHosts, dns].sort());
  });

  test("the reporter reaches name server and results' ports, and the host's cloud without the private ranges", () => {
    root.write("bin/id", asRoot.replace("pushgate-build-site", "pushgate-report-docs"), 0o755);
    expect(reached(script, resolv)).toEqual([...toOwnPorts([git, git6, office, office6], 443), dns].sort());
    const open = broken(/ ip6? daddr != @private./g);
    expect(reached(open, resolv)).toEqual([...toOwnPorts([...there, ...there6], 443), dns].sort());
  });

  test("other accounts reach everything", () => {
    root.write("bin/id", "#!/bin/sh\ncase $2 in pushgate-build-*) echo 4711 ;; *) echo 4712 ;; esac\n", 0o755);
    expect(reached(script, "")).toEqual(every);
  });

  test("by UDP the builder reaches its name server's port 53 alone, and everything without one of the two lines", () => {
    const both = `${resolv}nameserver ${git6}\n`;
    root.write("/etc/resolv.conf", both);
    const dns = (one: string) => one.endsWith(" 53");
    const servers = (one: string) => one.startsWith(`${neighbour} `) || one.startsWith(`${git6} `);
    expect(heard(script, both)).toEqual(every.filter((one) => dns(one) && servers(one)));
    expect(heard(broken(/^ {4}reject with icmpx .*\n/gm), both)).toEqual(every);
    expect(heard(broken(/ip6? daddr \{[^}]*\} udp dport/g, "udp dport"), both)).toEqual(every.filter(dns));
    expect(heard(broken(/udp dport \{ 53 \}/g, "meta l4proto udp"), both)).toEqual(every.filter(servers));
  });

  test.each([
    ["the reject rules", /^ {4}(meta l4proto tcp )?reject .*\n/gm, every],
    ["the private ranges", / ip6? daddr != @private./g, toOwnPorts([...there, ...there6], 443, 2222)],
    ["the ports", / tcp dport \{ 443, 2222 \}/g, toOwnPorts([git, git6, office, office6], ...ports)],
  ])("without %s the builder reaches more", (_, taken, more) => {
    root.write("/etc/resolv.conf", "");
    expect(reached(broken(taken), "")).toEqual(more.toSorted());
  });

  test("a rejected connection fails at once, on both address families and for UDP", () => {
    const stdout = host(
      `${script}
perl -MIO::Socket::IP -MTime::HiRes=time -e '
for (["${metadata}", 443, "tcp"], ["${metadata6}", 443, "tcp"], ["${metadata}", 53, "udp"]) {
  my ($to, $port, $kind) = @$_; my $began = time;
  my $s = IO::Socket::IP->new(PeerHost => $to, PeerPort => $port, Proto => $kind, Timeout => 5);
  my $result = $s ? do { $s->send("x"); $s->recv(my $answer, 1); "$!" } : "$@";
  print "$kind ", (time - $began < 0.5 ? "at once" : "late"), "\\n" }'`,
      "nameserver 127.0.0.53\n",
    );
    expect(stdout).toBe("tcp at once\ntcp at once\nudp at once");
  });

  test.each<[string, string, string[], string]>([
    ["none, then the host itself", "search example.org\n", ["ip daddr { 127.0.0.1 }", "ip6 daddr { ::1 }"], ""],
    [
      "both families, twice, with a comment",
      "nameserver 192.0.2.1 # first\n nameserver\t2001:db8::53\nnameserver 192.0.2.1\n#nameserver 192.0.2.9\n",
      ["ip daddr { 192.0.2.1 }", "ip6 daddr { 2001:db8::53 }"],
      "",
    ],
    [
      "a link's own",
      "nameserver fe80::1%eth0\nnameserver 192.0.2.1\n",
      ["ip daddr { 192.0.2.1 }"],
      "egress: RESOLV names fe80::1%eth0, which is left out: nftables cannot match an address with a zone",
    ],
    [
      "rules for a value",
      "nameserver 1}accept\nnameserver 192.0.2.1\n",
      ["ip daddr { 192.0.2.1 }"],
      "egress: RESOLV names 1}accept, which is left out: it is not an IP address",
    ],
  ])("the table admits the name servers of resolv.conf: %s", (_, resolv, lines, says) => {
    root.write("/etc/resolv.conf", resolv);
    const { stdout, stderr } = inNamespace(`${script} --print\n${script}`, root.at("bin"));
    const admitted = stdout.match(/ip6? daddr \{[^}]*\}(?= udp dport)/g);
    // Once for each kind of account.
    expect(admitted).toEqual([...lines, ...lines, ...lines]);
    expect(new Set(stderr.split("\n"))).toEqual(new Set([says.replace("RESOLV", root.at("/etc/resolv.conf"))]));
  });

  // firewall.test.ts has what else it finds.
  test("drift reports a change of the name server until the table is loaded again", () => {
    root.write("/etc/resolv.conf", "nameserver 192.0.2.1\n");
    const change = `echo nameserver 192.0.2.2 >${root.at("/etc/resolv.conf")}`;
    const { stdout } = inNamespace(
      `${drift}\n${script}\n${change}\n${drift} | cut -d ' ' -f 1-4\n${script}\n${drift}`,
      root.at("bin"),
    );
    expect(stdout.split("\n")).toEqual(["absent", "missing: ip daddr 192.0.2.2", "as declared"]);
  });

  test("without the accounts the program fails and prints what to run", () => {
    root.write("bin/id", "#!/bin/sh\nexit 1\n", 0o755);
    expect(inNamespace(script, root.at("bin"))).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("egress: the account pushgate-build-site is missing. Run npx pulumi up."),
    });
  });
});

describe("the configuration", () => {
  const [site, docs] = rebuilt.hooks as readonly [Hook, Hook];
  const textOf = (path: string, hooks: readonly Hook[] = rebuilt.hooks) =>
    egressLayer({ ...rebuilt, hooks }).files.find((one) => one.path === path)!.text;
  const listed = (name: string, ...hooks: readonly Hook[]) =>
    new RegExp(`^${name}='(.*)'$`, "m").exec(textOf(paths.egress, hooks))?.[1];
  const changed = (hook: Hook, change: Partial<Hook>, ofSite: Partial<Site> = {}): Hook => ({
    ...{ ...hook, ...change, site: { ...hook.site!, ...ofSite } },
  });
  const https = "https://git.example.net:3000/example/site.git";
  const ssh = "ssh://git@git.example.net:2222/example/site.git";
  const status = { setsStatus: true } as const;

  test.each<[what: string, name: string, hooks: Hook[], value: string]>([
    ["https for submodules beside SSH", "ports", [changed(docs, {}, { submodules: true })], "443, 2222"],
    ["SSH alone without submodules", "ports", [docs], "2222"],
    ["a generator that may read addresses", "generator_ports", [site, docs], "443"],
    ["a generator that may read none", "generator_ports", [site], ""],
    ["no report", "report_ports", [changed(site, { repository: https })], ""],
    ["no reporter", "reporters", [changed(site, { repository: https })], ""],
    ["the API's port", "report_ports", [changed(site, { repository: https, ...status })], "3000"],
    ["the API's port of an SSH address", "report_ports", [changed(site, { repository: ssh, ...status })], "443"],
    [
      "site.notify's port",
      "report_ports",
      [changed(site, { repository: ssh }, { notify: "https://chat.example.org:8443/x" })],
      "8443",
    ],
    [
      "both",
      "report_ports",
      [changed(site, { repository: https, ...status }, { notify: "https://chat.example.org/x" })],
      "443, 3000",
    ],
    ["each builder", "builders", [site, docs], "pushgate-build-site pushgate-build-docs"],
    ["each generator", "generators", [site, docs], "pushgate-generator-site pushgate-generator-docs"],
    ["the reporter that there is", "reporters", [site, docs], "pushgate-report-docs"],
  ])("has %s", (_, name, hooks, value) => {
    expect(listed(name, ...hooks)).toBe(value);
  });

  test("every account that the layer makes is in a list that confines it, and a fact holds its groups", () => {
    const accounts = [...textOf(paths.builderSysusers).matchAll(/^u (\S+) - /gm)].map(([, name]) => name!);
    const confined = ["builders", "generators", "reporters"].flatMap((name) => listed(name, site, docs)!.split(" "));
    expect(accounts.toSorted()).toEqual(confined.toSorted());
    const facts = layer.facts.filter(({ read }) => read.startsWith("groups_of "));
    expect(facts.map(({ name, read, want }) => [name, read, want.split("\n")])).toEqual(
      ["site", "docs"].map((hook) => {
        const own = accounts.filter((name) => name.endsWith(`-${hook}`));
        return [`groups of the build accounts of ${hook}`, `groups_of ${own.map((one) => `'${one}'`).join(" ")}`, own];
      }),
    );
  });
});
