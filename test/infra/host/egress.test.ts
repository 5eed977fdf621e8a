/** The egress table in a real kernel: which addresses each build account reaches, and how fast others are rejected. */
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { egressLayer } from "../../../infra/host/egress/egress.ts";
import { firewallLayer } from "../../../infra/host/firewall/firewall.ts";
import { paths } from "../../../infra/host/paths.ts";
import { example, exampleHost, rebuilt } from "../../fixtures.ts";
import { cable, inNamespace, missing, Root, verifyUnits } from "./namespace.ts";

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
const reason = missing("unshare", "ip", "nft", "perl");

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
    .map((line) => line.split(" ").slice(1, 3).join(" "));
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
  return [...found.matchAll(/([0-9a-f.:]+) \. (\d+)/g)].map(([, to, port]) => `${to} ${port}`);
};
const every = [...there, ...there6].flatMap((to) => ports.map((port) => `${to} ${port}`));
const gitHosts = [git, git6, office, office6].flatMap((to) => [`${to} 443`, `${to} 2222`]);

describe("in a namespace", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));

  test("the builder reaches name server and repositories' ports, on the internet and in opened ranges", () => {
    expect(reached(script, `nameserver ${neighbour}\n`).sort()).toEqual([...gitHosts, `${neighbour} 53`].sort());
  });

  test("the reporter reaches name server and results' ports, and the host's cloud without the private ranges", () => {
    root.write("bin/id", asRoot.replace("pushgate-build-site", "pushgate-report-docs"), 0o755);
    try {
      const own = [git, git6, office, office6].map((to) => `${to} 443`);
      const resolv = `nameserver ${neighbour}\n`;
      expect(reached(script, resolv).sort()).toEqual([...own, `${neighbour} 53`].sort());
      const rules = inNamespace(`${script} --print`, root.at("bin")).stdout;
      root.write("broken.nft", `${rules.replaceAll(/ ip6? daddr != @private./g, "")}\n`);
      const all = [...there, ...there6].map((to) => `${to} 443`);
      expect(reached(`nft -f ${root.at("broken.nft")}`, resolv).sort()).toEqual([...all, `${neighbour} 53`].sort());
    } finally {
      root.write("bin/id", asRoot, 0o755);
    }
  });

  test("without the table the builder reaches everything", () => {
    expect(reached(":", "").sort()).toEqual(every.sort());
  });

  test("by UDP the builder reaches its name server's port 53 alone, and everything without one of the two lines", () => {
    const resolv = `nameserver ${neighbour}\nnameserver ${git6}\n`;
    const dns = [`${neighbour} 53`, `${git6} 53`].sort();
    expect(heard(script, resolv).sort()).toEqual(dns);
    const rules = inNamespace(`${script} --print`, root.at("bin")).stdout;
    const broken = (taken: string | RegExp, instead: string) => {
      expect(rules).toMatch(taken);
      root.write("broken.nft", `${rules.replaceAll(taken, instead)}\n`);
      return heard(`nft -f ${root.at("broken.nft")}`, resolv).sort();
    };
    expect(broken(/^ {4}reject with icmpx .*\n/gm, "")).toEqual(every.toSorted());
    expect(broken(/ip6? daddr \{[^}]*\} udp dport/g, "udp dport")).toEqual(
      every.filter((one) => one.endsWith(" 53")).sort(),
    );
    expect(broken(/udp dport \{ 53 \}/g, "meta l4proto udp")).toEqual(
      every.filter((one) => one.startsWith(`${neighbour} `) || one.startsWith(`${git6} `)).sort(),
    );
  });

  test.each([
    ["the reject rules", /^ {4}(meta l4proto tcp )?reject .*\n/gm, every],
    [
      "the private ranges",
      / ip6? daddr != @private./g,
      [...there, ...there6].flatMap((to) => [`${to} 443`, `${to} 2222`]),
    ],
    [
      "the ports",
      / tcp dport \{ 443, 2222 \}/g,
      [git, git6, office, office6].flatMap((to) => ports.map((port) => `${to} ${port}`)),
    ],
  ])("without %s the builder reaches more", (_, taken, more) => {
    root.write("/etc/resolv.conf", "");
    const rules = inNamespace(`${script} --print`, root.at("bin")).stdout;
    expect(rules).toMatch(taken);
    root.write("broken.nft", `${rules.replace(taken, "")}\n`);
    expect(reached(`nft -f ${root.at("broken.nft")}`, "").sort()).toEqual(more.toSorted());
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

  test("other accounts reach everything", () => {
    root.write("bin/id", "#!/bin/sh\ncase $2 in pushgate-build-*) echo 4711 ;; *) echo 4712 ;; esac\n", 0o755);
    try {
      expect(reached(script, "").sort()).toEqual(every.sort());
    } finally {
      root.write("bin/id", asRoot, 0o755);
    }
  });

  test.each<[string, string, string[], string]>([
    ["none, then the host itself", "search example.org\n", ["ip daddr { 127.0.0.1 }", "ip6 daddr { ::1 }"], ""],
    ["systemd's stub", "nameserver 127.0.0.53\noptions edns0\n", ["ip daddr { 127.0.0.53 }"], ""],
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

  test("drift reports what differs, also after a change of the name server, until the table is loaded again", () => {
    root.write("/etc/resolv.conf", "nameserver 192.0.2.1\n");
    const { stdout } = inNamespace(
      `${script}
${drift}
nft insert rule inet pushgate_egress builder accept
${drift}
${script}
nft flush chain inet pushgate_egress output
${drift} | cut -d ' ' -f 1
nft flush ruleset
${drift}
${script}
echo nameserver 192.0.2.2 >${root.at("/etc/resolv.conf")}
${drift} | cut -d ' ' -f 1-4
${script}
${drift}`,
      root.at("bin"),
    );
    expect(stdout.split("\n")).toEqual([
      "as declared",
      "added: accept (differs)",
      "missing:",
      "absent",
      "missing: ip daddr 192.0.2.2",
      "as declared",
    ]);
  });

  test("without the accounts the program fails and prints what to run", () => {
    root.write("bin/id", "#!/bin/sh\nexit 1\n", 0o755);
    try {
      const { status, stderr } = inNamespace(script, root.at("bin"));
      expect(status).toBe(1);
      expect(stderr).toContain("egress: the account pushgate-build-site is missing. Run npx pulumi up.");
    } finally {
      root.write("bin/id", asRoot, 0o755);
    }
  });
});

test("a builder that reads its repository over SSH reaches https too, for submodules, unless the site has them off", () => {
  const [, docs] = rebuilt.hooks;
  const opened = (submodules: boolean) => {
    const hooks = [{ ...docs!, site: { ...docs!.site!, submodules } }];
    const { text } = egressLayer({ ...rebuilt, hooks }).files.find(({ path }) => path.endsWith("egress.conf"))!;
    return /^ports=(.*)$/m.exec(text)?.[1];
  };
  expect([opened(true), opened(false)]).toEqual(["'443, 2222'", "'2222'"]);
});

test("Hugo's account has a name server and a port only where a site's build may read addresses", () => {
  const chain = (settings: typeof rebuilt) =>
    egressLayer(settings).files.find(({ path }) => path.endsWith("egress.conf"))!.text;
  expect(chain(rebuilt)).toContain("generator_ports='443'");
  const closed = { ...rebuilt, hooks: rebuilt.hooks.slice(0, 1) };
  expect(chain(closed)).toContain("generator_ports=''");
  expect(chain(closed)).toContain("ports='443'");
});

test("a reporter has the ports of the git host's API and of site.notify, and no others", () => {
  const ports = (repository: string, notify?: string, setsStatus?: true) => {
    const [hook] = rebuilt.hooks;
    const site = { ...hook!.site!, ...(notify !== undefined && { notify }) };
    const hooks = [{ ...hook!, repository, site, ...(setsStatus && { setsStatus }) }];
    const { files } = egressLayer({ ...rebuilt, hooks });
    const { text } = files.find(({ path }) => path.endsWith("egress.conf"))!;
    return [/^reporters=(.*)$/m.exec(text)?.[1], /^report_ports=(.*)$/m.exec(text)?.[1]];
  };
  const https = "https://git.example.net:3000/example/site.git";
  const ssh = "ssh://git@git.example.net:2222/example/site.git";
  const reporter = "'pushgate-report-site'";
  expect(ports(https)).toEqual(["''", "''"]);
  expect(ports(https, undefined, true)).toEqual([reporter, "'3000'"]);
  expect(ports(ssh, undefined, true)).toEqual([reporter, "'443'"]);
  expect(ports(ssh, "https://chat.example.org:8443/x")).toEqual([reporter, "'8443'"]);
  expect(ports(https, "https://chat.example.org/x", true)).toEqual([reporter, "'443, 3000'"]);
});

test("every account that the layer makes is in the list that confines it", () => {
  const textOf = (path: string) => layer.files.find((one) => one.path === path)!.text;
  const confined = (list: string) => new RegExp(`^${list}='(.*)'$`, "m").exec(textOf(paths.egress))?.[1]?.split(" ");
  const lists = {
    builders: ["pushgate-build-site", "pushgate-build-docs"],
    generators: ["pushgate-generator-site", "pushgate-generator-docs"],
    reporters: ["pushgate-report-docs"],
  };
  for (const [list, accounts] of Object.entries(lists)) expect(confined(list)).toEqual(accounts);
  const lines = textOf(paths.builderSysusers).split("\n");
  expect(lines.filter((line) => !line.startsWith("#"))).toEqual([
    'u pushgate-build-site - "pushgate builder of site" /var/lib/pushgate-sites',
    'u pushgate-generator-site - "pushgate generator of site" /nonexistent',
    'u pushgate-build-docs - "pushgate builder of docs" /var/lib/pushgate-sites',
    'u pushgate-generator-docs - "pushgate generator of docs" /nonexistent',
    'u pushgate-report-docs - "pushgate reporter of docs" /nonexistent',
    "",
  ]);
});

test("a fact for each site declares that its accounts are in their own groups only", () => {
  const found = layer.facts.filter(({ read }) => read.startsWith("groups_of "));
  expect(found).toEqual([
    {
      name: "groups of the build accounts of site",
      read: "groups_of 'pushgate-build-site' 'pushgate-generator-site'",
      want: "pushgate-build-site\npushgate-generator-site",
    },
    {
      name: "groups of the build accounts of docs",
      read: "groups_of 'pushgate-build-docs' 'pushgate-generator-docs' 'pushgate-report-docs'",
      want: "pushgate-build-docs\npushgate-generator-docs\npushgate-report-docs",
    },
  ]);
});

test("the unit waits for the file systems that hold what it reads", () => {
  const unit = layer.files.find(({ path }) => path.endsWith("/pushgate-egress.service"))!.text;
  expect(unit).toContain(`\nRequiresMountsFor=${paths.etc} ${paths.lib}\n`);
});

test("systemd-analyze finds no fault in the unit", ({ skip }) => {
  const why = missing("systemd-analyze");
  skip(why !== undefined, why);
  expect(verifyUnits(layer.files)).toBe("");
});
