/**
 * The prober against real sockets, and the guard around it with a fake systemctl. On a booted host the kernel's cgroup
 * filter drops each source that a socket does not admit; here an nft rule does.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import { firewallLayer } from "../../../infra/host/firewall/firewall.ts";
import { guardLayer, mustReject } from "../../../infra/host/guard/guard.ts";
import { mark, routingLayer } from "../../../infra/host/routing/routing.ts";
import { isV4, loopback, networks, v4, v6 } from "../../../infra/networks.ts";
import { example, exampleHost } from "../../fixtures.ts";
import { noNginx } from "./lab/origin.ts";
import { inNamespace, lintShell, missing, Root, verifyUnits } from "./namespace.ts";

const layer = guardLayer(example);
const root = new Root();
afterAll(() => root.remove());
/** With a third of the prober's time and of the guard's pauses, which are most of a test's; one test has the whole. */
const hurried = (text: string) => text.replace("(0.4, 1.3)", "(0.13, 0.4)").replace("|| sleep 1\n", "|| sleep 0.1\n");
for (const { path, text, mode } of [layer, firewallLayer(example, exampleHost), routingLayer()].flatMap(
  ({ files }) => files,
))
  root.write(path, root.moved(hurried(text)), Number.parseInt(mode, 8));
const asInstalled = layer.files.find(({ path }) => path.endsWith("/prober"))!.text;
const prober = hurried(asInstalled);
const installed = (name: string) => root.at(`/usr/local/lib/pushgate/${name}`);

const [github, selfHosted] = sourceSets(example) as [
  ReturnType<typeof sourceSets>[0],
  ReturnType<typeof sourceSets>[0],
];
const unitOf = ({ name }: { name: string }) => `pushgate-receiver-${name}.socket`;

/** What `systemctl show` prints of both sockets. */
const shown = (allow: readonly (readonly string[])[] = [github.cidrs, selfHosted.cidrs]) =>
  [github, selfHosted]
    .map(
      ({ port, ...set }, index) => `Id=${unitOf(set)}
ActiveState=active
Listen=${loopback.v4}:${port} (Stream)
Listen=[${loopback.v6}]:${port} (Stream)
IPAddressAllow=${allow[index]!.join(" ")}
`,
    )
    .join("\n");
root.write("shown", shown());

const connect = `perl ${new URL("connect.pl", import.meta.url).pathname}`;
const listening = `
${installed("routing")} >/dev/null
${connect} ${[github, selfHosted].flatMap(({ port }) => [`listen,${loopback.v4},${port},${mark}`, `listen,${loopback.v6},${port},${mark}`]).join(" ")}`;

/** The lists in force, which need not be those of the units: each source that is not in its port's list is dropped. */
const enforced = (lists: readonly (readonly string[])[] = [github.cidrs, selfHosted.cidrs]) => {
  const rule = (port: number, cidrs: readonly string[]) =>
    [4, 6].map((family) => {
      const mine = cidrs.filter((cidr) => cidr.includes(":") === (family === 6));
      const word = family === 4 ? "ip" : "ip6";
      const but = mine.length === 0 ? "" : `${word} saddr != { ${mine.join(", ")} } `;
      return `  meta nfproto ipv${family} tcp dport ${port} ${but}drop\n`;
    });
  return `nft -f - <<'TABLE'
table inet kernel
delete table inet kernel
table inet kernel { chain input { type filter hook input priority 0; policy accept;
${[github, selfHosted].flatMap(({ port }, index) => rule(port, lists[index]!)).join("")}
  }
}
TABLE
`;
};
const probeBy = (program: string) =>
  `code=0; ${program} ${mustReject(example).join(" ")} <${root.at("shown")} || code=$?; echo "exit $code"`;
const probe = probeBy(installed("prober"));
/** The same by a prober without one part of its text, which must be needed. */
const probeWithout = (part: string, instead = "") => {
  expect(prober).toContain(part);
  return probeBy(root.write("mutant", prober.replace(part, instead), 0o755));
};
type Named = Parameters<typeof unitOf>[0];
/** The prober's lines of a source that connects and must not, and of an admitted one that cannot. */
const opens = (set: Named, source: string) => `connects and must not: ${unitOf(set)} from ${source}`;
const cannotConnect = (set: Named, source: string) => `cannot connect: ${unitOf(set)} from ${source}`;
const reason = missing("unshare", "ip", "nft", "perl");

/** Runs a script, again where it took longer than `most` milliseconds: other tests that run beside this one add time. */
function timed(script: string, most: number): { readonly fast: boolean } & ReturnType<typeof inNamespace> {
  for (let round = 1; ; round++) {
    const started = performance.now();
    const ran = inNamespace(script);
    const fast = performance.now() - started < most;
    if (fast || round === 8) return { ...ran, fast };
  }
}

describe("prober in a namespace", () => {
  beforeEach(({ skip }) => skip(reason !== undefined, reason));

  test("an enforced allowlist is proven, in less than 1.5 s", () => {
    // The listeners' start is not the prober's.
    const whole = probeBy(root.write("prober", asInstalled, 0o755));
    const { stdout, stderr, fast } = timed(`${listening}\n${enforced()}\n${whole}`, 1_500 + 1_000);
    expect({ stdout, stderr, fast }).toEqual({ stdout: "exit 0", stderr: "", fast: true });
  });

  test("without enforcement every foreign source is named, other sockets' sources too", () => {
    const { stdout } = inNamespace(`${listening}\n${probe}`);
    const lines = stdout.split("\n");
    expect(lines.at(-1)).toBe("exit 5");
    const foreign = mustReject(example);
    for (const source of foreign) expect(stdout).toContain(opens(github, source));
    expect(lines).toContain(opens(github, "198.51.100.0"));
    expect(lines).toContain(opens(selfHosted, "2606:50c0::"));
    expect(stdout).not.toMatch(/cannot connect|no admitted source/);
  });

  test("without enforcement the addresses beside each range are named, unless the next range admits them", () => {
    const { stdout } = inNamespace(`${listening}\n${probe}`);
    const opened = stdout.split("\n").filter((line) => line.startsWith(opens(github, "")));
    const sources = opened.map((line) => line.split(" ").at(-1)!).filter(isV4);
    expect(sources.slice(mustReject(example).length / 2 + 1)).toEqual(
      ["9.234.98.159", "9.234.98.192", "9.234.106.47", "9.234.106.64"].concat(
        ["140.82.111.255", "140.82.128.0", "143.55.63.255", "143.55.80.0"],
        ["185.199.107.255", "185.199.112.0", "192.30.251.255", "192.31.0.0"],
      ),
    );
  });

  test("a range too many on both sockets is found", () => {
    const { stdout } = inNamespace(
      `${listening}\n${enforced([github, selfHosted].map(({ cidrs }) => [...cidrs, loopback.v4range]))}\n${probe}`,
    );
    expect(stdout.split("\n")).toEqual([opens(github, loopback.v4), opens(selfHosted, loopback.v4), "exit 5"]);
  });

  test("a list that admits no source proves nothing", () => {
    const { stdout } = inNamespace(
      `${listening}\n${enforced()}\nnft insert rule inet kernel input tcp dport ${selfHosted.port} drop\n${probe}`,
    );
    expect(stdout.split("\n")).toEqual([
      cannotConnect(selfHosted, "198.51.100.0"),
      cannotConnect(selfHosted, "198.51.100.15"),
      `no admitted source connects: ${unitOf(selfHosted)}`,
      "exit 4",
    ]);
  });

  const below6 = "2a0a:a43f:ffff:ffff:ffff:ffff:ffff:ffff";
  const cannot6 = (source: string) => cannotConnect(github, source);
  test("IPv6 dropped on loopback: its sources cannot connect, and IPv4 is still proven", () => {
    const { stdout } = inNamespace(
      `${listening}\n${enforced()}\nnft insert rule inet kernel input meta nfproto ipv6 drop\n${probe}`,
    );
    expect(stdout.split("\n")).toEqual([
      ...["2606:50c0::", "2606:50c0:ffff:ffff:ffff:ffff:ffff:ffff"].map(cannot6),
      ...["2a0a:a440::", "2a0a:a447:ffff:ffff:ffff:ffff:ffff:ffff"].map(cannot6),
      "exit 3",
    ]);
  });

  test("a range that the unit names and the kernel does not hold is named", () => {
    root.write("shown", shown([[...github.cidrs, "203.0.113.128/25"], selfHosted.cidrs]));
    const { stdout } = inNamespace(`${listening}\n${enforced()}\n${probe}`);
    root.write("shown", shown());
    expect(stdout.split("\n")).toEqual([
      cannotConnect(github, "203.0.113.128"),
      cannotConnect(github, "203.0.113.255"),
      "exit 3",
    ]);
  });

  /** The list in force on GitHub's socket with one range replaced by others; the unit's list is as declared. */
  const inForce = (range: string, ...others: readonly string[]) => {
    expect(github.cidrs).toContain(range);
    return enforced([[...github.cidrs.filter((cidr) => cidr !== range), ...others], selfHosted.cidrs]);
  };
  const [last4, last6] = [v4(github.cidrs).at(-1)!, v6(github.cidrs).at(-1)!];
  const wider: readonly (readonly [what: string, list: () => string, found: string])[] = [
    ["one address above a range", () => inForce(last4, last4, "192.31.0.0/32"), "connects and must not: 192.31.0.0"],
    ["one address below a range", () => inForce(last6, last6, `${below6}/128`), `connects and must not: ${below6}`],
    [
      "a range wider by one bit, below",
      () => inForce("140.82.112.0/20", "140.82.96.0/19"),
      "connects and must not: 140.82.111.255",
    ],
    ["a range wider by one bit, above", () => inForce(last6, "2a0a:a440::/28"), "connects and must not: 2a0a:a448::"],
  ];
  const narrower: typeof wider = [
    [
      "a range missing",
      () => inForce("185.199.108.0/22"),
      "cannot connect: 185.199.108.0, cannot connect: 185.199.111.255",
    ],
    ["a range narrower by one bit", () => inForce(last4, "192.30.252.0/23"), "cannot connect: 192.30.255.255"],
    ["two adjacent ranges as one", () => inForce("9.234.98.160/28", "9.234.98.160/27"), ""],
  ];
  const found = (text: string) =>
    text
      .split("\n")
      .slice(0, -1)
      .map((line) => line.replace(/ pushgate.* /, " "))
      .join(", ");

  test.each(wider)("in force: %s; without probes from beside the ranges it is not found", (_, list, expected) => {
    const blind = probeWithout("beside($first, -1), beside($last, 1)", "()");
    const { stdout } = inNamespace(`${listening}\n${list()}\n${blind}\n${probe}`);
    expect(found(stdout)).toBe(`exit 0, ${expected}`);
    expect(stdout).toMatch(/\nexit 5$/);
  });

  test.each(narrower)("in force: %s", (_, list, expected) => {
    const { stdout } = inNamespace(`${listening}\n${list()}\n${probe}`);
    expect(found(stdout)).toBe(expected);
    expect(stdout).toMatch(expected === "" ? /^exit 0$/ : /\nexit 3$/);
  });

  test("a range that is the host's own network is proven, although no probe can come from its broadcast address", () => {
    const lists = [[...github.cidrs, "10.77.0.0/24"], selfHosted.cidrs];
    root.write("shown", shown(lists));
    const own =
      "ip link add own type veth peer name far\nip link set own up\nip address add 10.77.0.1/24 brd + dev own";
    const naive = probeWithout(" && !$broadcast{$address}");
    const { stdout } = inNamespace(`${own}\n${listening}\n${enforced(lists)}\n${probe}\n${naive}`);
    root.write("shown", shown());
    expect(stdout).toBe(`exit 0\n${cannotConnect(github, "10.77.0.255")}\nexit 3`);
  });

  test.each([
    ["the longest published list", networks.bitbucketHooks.cidrs],
    ["a list of 400 ranges", Array.from({ length: 400 }, (_, i) => `10.${i >> 6}.${(i & 63) * 4}.0/24`)],
  ])("%s is proven in less than 4 s, and one address too many is found", (_, cidrs) => {
    const lists = [cidrs, selfHosted.cidrs];
    root.write("shown", shown(lists));
    const seen = [lists, [[...cidrs, "10.6.61.0/32", "13.52.5.112/32"], selfHosted.cidrs]].map((list) => {
      const { stdout, fast } = timed(`${listening}\n${enforced(list)}\n${probe}`, 4_000);
      return { found: stdout.replace(/ pushgate.* /, " "), fast };
    });
    root.write("shown", shown());
    expect(seen).toEqual([
      { found: "exit 0", fast: true },
      { found: expect.stringMatching(/^connects and must not: (10\.6\.61\.0|13\.52\.5\.112)\nexit 5$/), fast: true },
    ]);
  });

  test("a host without IPv6 is proven by IPv4", () => {
    const { stdout } = inNamespace(
      `${listening}\n${enforced()}\necho 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6\n${probe}`,
    );
    expect(stdout).toBe("exit 0");
  });

  test("a stopped socket is not probed; no socket at all has an exit status of its own", () => {
    root.write("shown", shown().replace("ActiveState=active", "ActiveState=inactive"));
    const one = inNamespace(`${listening}\nnft add table inet kernel\n${enforced()}\n${probe}`);
    root.write("shown", shown().replaceAll("ActiveState=active", "ActiveState=inactive"));
    const none = inNamespace(probe);
    root.write("shown", shown());
    expect([one.stdout, none.stdout]).toEqual(["exit 0", "exit 1"]);
  });

  test("a prober that may not bind to foreign addresses, or is given something else, proves nothing", () => {
    const caps = "-net_admin,-net_raw";
    const bound = probeBy(`setpriv --bounding-set=${caps} --inh-caps=${caps} ${installed("prober")}`);
    const misled = probe.replace(mustReject(example)[0]!, "github");
    const { stdout } = inNamespace(`${listening}\n${enforced()}\n${bound}\n${misled}`);
    expect(stdout.split("\n")).toEqual([
      ...["could not look: transparent socket: Operation not permitted", "exit 2"],
      ...["could not look: github is no address", "exit 2"],
    ]);
  });

  test("it needs nothing beyond perl-base", () => {
    const run = `BEGIN { @INC = grep { m{perl-base} } @INC } $0 = "prober"; do "${installed("prober")}"; die $@ if $@;`;
    const { stderr, status } = spawnSync("perl", ["-we", run], { input: "", encoding: "utf8" });
    expect({ stderr, status }).toEqual({ stderr: "", status: 1 });
  });
});

/** Writes down each call, and keeps the names of the open sockets in a file. */
const systemctl = (folder: string) => `#!/bin/sh
echo "systemctl $*" >>${folder}/calls
case "$1 $2" in
  'list-units --plain') cat ${folder}/open ;;
  'show -p')
    case $* in
      *IPIngressPackets*) echo '[no data]' ;;
      *-p\\ Slice*) if [ -s ${folder}/open ]; then printf 'pushgate.slice\\n\\npushgate.slice\\n'; fi ;;
      *IPAddressAllow\\ --value*-.slice) cat ${folder}/root-list ;;
      *IPAddressAllow\\ --value*) ;;
      *ActiveState*) if [ -s ${folder}/open ]; then cat ${folder}/shown; fi ;;
    esac ;;
  is-enabled\\ *) ! grep -qsx "$3" ${folder}/disabled; exit ;;
  stop\\ *) : >${folder}/open ;;
  start\\ *) shift; printf '%s\\n' "$@" >${folder}/open ;;
esac
`;

describe("guard in a namespace", () => {
  beforeEach(({ skip }) => {
    skip(reason !== undefined, reason);
    root.write("open", `${unitOf(github)}\n${unitOf(selfHosted)}\n`);
    root.write("calls", "");
    root.write("root-list", "");
    root.write("disabled", "");
    root.write("bin/systemctl", systemctl(root.folder), 0o755);
  });
  const runGuard = `
code=0; RUNTIME_DIRECTORY=${root.at("/run/pushgate-guard")} ${installed("guard")} || code=$?
echo "exit $code, open: $(wc -l <${root.at("open")}), trial: $(nft list tables | grep -c pushgate_trial)"`;
  const guarded = (script: string) =>
    inNamespace(`rm -rf ${root.at("/run/pushgate-guard")}\n${listening}\n${script}`, root.at("bin"));
  const verdict = () => readFileSync(root.at("/run/pushgate-guard/verdict"), "utf8").trim();

  test("a bare host gets table, rule and route, and the proof", () => {
    const { stdout, stderr } = guarded(`${enforced()}\n${runGuard}\n${runGuard}`);
    expect(stderr).toBe("");
    expect(stdout.split("\n")).toEqual([
      "the firewall's table was not as declared, loaded it again: absent",
      "proven",
      "exit 0, open: 2, trial: 0",
      "proven",
      "exit 0, open: 2, trial: 0",
    ]);
    expect(verdict()).toBe("proven");
  });

  test("a flushed ruleset and a deleted rule are put back, the neighbour's table is not touched", () => {
    const { stdout } = guarded(`
${enforced()}
{ ${runGuard}
} >&2
nft delete table inet pushgate
ip rule del pref 90
nft list table inet kernel >${root.at("before")}
${runGuard}
nft list table inet kernel | diff ${root.at("before")} -`);
    expect(stdout.split("\n")).toEqual([
      "the firewall's table was not as declared, loaded it again: absent",
      "placed the IPv4 rule at pref 90",
      "proven",
      "exit 0, open: 2, trial: 0",
    ]);
  });

  test("on a host that builds sites the egress table is loaded again; where it cannot be, builds are stopped", () => {
    const install = (table: string) =>
      root.write(
        "/usr/local/lib/pushgate/egress",
        `#!/bin/sh\nif [ "$1" = --print ]; then cat ${root.at("egress.nft")}; else ${table}; fi\n`,
        0o755,
      );
    root.write("egress.nft", "table inet pushgate_egress\n");
    const quiet = `{ ${runGuard}\n} | grep 'egress table'`;
    try {
      install(`nft -f ${root.at("egress.nft")}`);
      const { stdout } = guarded(`${enforced()}\n${quiet}\n{ ${quiet}\n} || nft list tables | grep egress`);
      expect(stdout.split("\n")).toEqual([
        "the egress table was not as declared, loaded it again: absent",
        "table inet pushgate_egress",
      ]);
      expect(readFileSync(root.at("calls"), "utf8")).not.toContain("pushgate-build");
      install("echo no accounts >&2; exit 1");
      expect(guarded(`${enforced()}\n${quiet}`).stdout).toBe(
        "the egress table could not be loaded, stopped all builds: no accounts",
      );
      const calls = readFileSync(root.at("calls"), "utf8");
      expect(calls).toContain("systemctl stop pushgate-build@*.service pushgate-generator-*@*.service");
      expect(calls).not.toContain(`stop ${unitOf(github)}`);
    } finally {
      rmSync(root.at("/usr/local/lib/pushgate/egress"));
    }
  });

  test("nginx restarts once its program or a library is newer than its process, and not before", ({ skip }) => {
    skip(noNginx !== undefined, noNginx);
    const calls = (began: string) => {
      const answers = systemctl(root.folder).replace(
        'case "$1 $2" in',
        `case "$1 $2" in\n  show\\ --timestamp*) ${began} ;;`,
      );
      root.write("bin/systemctl", answers, 0o755);
      root.write("calls", "");
      const { stdout } = guarded(`${enforced()}\n${runGuard}`);
      return [stdout.includes("because these files are newer: /"), readFileSync(root.at("calls"), "utf8")];
    };
    const restart = expect.stringContaining("systemctl --no-block try-restart pushgate-nginx.service");
    expect(calls("echo @1")).toEqual([true, restart]);
    expect(calls("date +@%s")).toEqual([false, expect.not.stringContaining("try-restart pushgate-nginx")]);
    // nginx is stopped.
    expect(calls("echo")).toEqual([false, expect.not.stringContaining("try-restart pushgate-nginx")]);
  });

  test("without enforcement the sockets and the receiver are stopped and nothing else, with cause and fix", () => {
    const { stdout } = guarded(`nft -f ${root.at("/etc/pushgate/firewall.nft")}\n${runGuard}`);
    expect(stdout).toMatch(
      /^closed: the allowlist does not hold \(connects and must not: .*\): the kernel does not enforce IPAddressAllow here; fix: use a kernel with CONFIG_CGROUP_BPF/,
    );
    expect(stdout).toMatch(/exit 1, open: 0, trial: 0$/);
    expect(verdict()).toMatch(/^closed: /);
    const stops = readFileSync(root.at("calls"), "utf8").match(/systemctl (stop|restart|kill|disable|mask).*/g);
    expect(stops).toEqual([`systemctl stop ${unitOf(github)} ${unitOf(selfHosted)} pushgate-receiver.service`]);
  });

  // Each leaves the sockets without a proof, or without what the proof relies on.
  describe("the guard closes the sockets, and opens them when the cause is gone:", () => {
    const rules = root.at("/etc/pushgate/firewall.nft");
    /** Replaces a file by an executable text; `back` undoes it. */
    const replaced = (path: string, text: string) =>
      `mv ${path} ${path}.away; printf '${text}' >${path}; chmod +x ${path}`;
    const back = (path: string) => `mv -f ${path}.away ${path}`;
    const fails = "#!/bin/sh\\necho no reason\\nexit 2\\n";
    const notProbed = /^ {2}\*\) close/m;
    test.each<[why: string, broken: string, repaired: string, closed: RegExp, branch: RegExp]>([
      [
        "the prober is missing",
        `mv ${installed("prober")} ${installed("prober")}.away`,
        back(installed("prober")),
        /^closed: the allowlist could not be probed: .*not found/,
        notProbed,
      ],
      [
        "the prober cannot look",
        replaced(installed("prober"), fails),
        back(installed("prober")),
        /^closed: the allowlist could not be probed: no reason/,
        notProbed,
      ],
      [
        "no admitted source can connect",
        enforced([[], []]),
        enforced(),
        /^closed: no admitted source can connect, so nothing is proven \(cannot connect: /,
        /^ {2}4\) close/m,
      ],
      [
        "the firewall's rules cannot be loaded",
        `nft delete table inet pushgate; ${replaced(rules, "table inet pushgate {")}`,
        `${back(rules)}; nft -f ${rules}`,
        /^closed: the firewall's table is not as declared and could not be loaded: .*syntax error/,
        /^ {4}close firewall /m,
      ],
      [
        "the routing rule cannot be added",
        replaced(installed("routing"), fails),
        back(installed("routing")),
        /^closed: the routing rule cannot be added; fix: systemctl status pushgate-routing\.service/m,
        /^"\$lib\/routing" \|\| close/m,
      ],
    ])("%s", (_, broken, repaired, closed, branch) => {
      const guard = readFileSync(installed("guard"), "utf8");
      expect(guard).toMatch(branch);
      const hollow = root.write(
        "hollow",
        guard.replace(branch, (line) => line.replace("close", "finish 1")),
        0o755,
      );
      const begin = `nft -f ${rules}\n${enforced()}\n${broken}`;
      const end = `${repaired}\n${runGuard}`;
      const [intact, without] = [
        `${begin}\n${runGuard}\n${end}`,
        `${begin}\n${runGuard.replace(installed("guard"), hollow)}\n${repaired}`,
      ].map((script) => {
        root.write("open", `${unitOf(github)}\n${unitOf(selfHosted)}\n`);
        return guarded(script).stdout.replace(/^(placed|no reason).*\n/gm, "");
      });
      // Without its branch the guard reports the same finding, and the sockets stay open.
      expect(without).toMatch(/exit 1, open: 2, trial: 0$/);
      expect(intact).toMatch(closed);
      expect(intact!.split("\n").slice(-4)).toEqual([
        "exit 1, open: 0, trial: 0",
        "the proof holds again, the receiver is open",
        "proven",
        "exit 0, open: 2, trial: 0",
      ]);
    });

    test("the table for a trial cannot be loaded; without this end they would be open to all before the proof", () => {
      const guard = readFileSync(installed("guard"), "utf8");
      const end = 'close trial "the trial table cannot be loaded"';
      expect(guard).toContain(end);
      const hollow = root.write("hollow", guard.replace(end, "echo"), 0o755);
      const nft = root.at("bin/nft");
      const noTrial = `printf '#!/bin/sh\\n[ "$*" != "-f -" ] || exit 1\\nPATH=\${PATH#*:} exec nft "$@"\\n' >${nft}; chmod +x ${nft}; hash -r`;
      const { stdout } = guarded(`
nft -f ${rules}
{ ${runGuard}
} >&2
${enforced()}
${noTrial}
${runGuard}
rm ${nft}; hash -r
cp ${root.at("/run/pushgate-guard/closed")} ${root.at("closed")}
${runGuard}
cp ${root.at("closed")} ${root.at("/run/pushgate-guard/")}; : >${root.at("open")}
${noTrial}
${runGuard.replace(installed("guard"), hollow)}`);
      rmSync(nft);
      const [first, ...then] = stdout.split("\n");
      expect(first).toMatch(/^closed: the trial table cannot be loaded; fix: /);
      expect(then.slice(0, 4)).toEqual([
        "exit 1, open: 0, trial: 0",
        "the proof holds again, the receiver is open",
        "proven",
        "exit 0, open: 2, trial: 0",
      ]);
      expect(then.at(-1)).toBe("exit 0, open: 2, trial: 0");
    });
  });

  test("each change of its finding is a line: time, code, finding, fix; a run that finds the same adds none", () => {
    const [rules, findings] = [root.at("/etc/pushgate/firewall.nft"), root.at("/run/pushgate-guard/findings")];
    const { stdout } = guarded(`nft -f ${rules}
{ ${enforced()}
${runGuard}
${runGuard}
mv ${rules} ${rules}.away; printf 'table x {\\n\\t?' >${rules}; nft delete table inet pushgate
${runGuard}
mv ${rules}.away ${rules}
${runGuard}
} >&2
cat ${findings}
for line in $(seq 30); do printf '%s\\tx\\ty\\t\\n' "$line"; done >${findings}
{ ${runGuard}
} >&2
wc -l <${findings}`);
    const lines = stdout.split("\n").map((line) => line.split("\t"));
    expect(lines.map(([, code]) => code)).toEqual(["proven", "firewall", "proven", undefined]);
    expect(lines[1]).toEqual([
      ...[expect.stringMatching(/^\d{10}$/), "firewall"],
      expect.stringMatching(/^the firewall's table is not as declared and could not be loaded: .*syntax error/),
      `nft --check --file ${rules}`,
    ]);
    expect(lines.at(-1)).toEqual(["20"]);
  });

  test("closed sockets stay closed while the cause lasts, and open when it is gone", () => {
    const { stdout } = guarded(`
nft -f ${root.at("/etc/pushgate/firewall.nft")}
{ ${runGuard}
} >&2
{ ${runGuard}
} | tail -n 1
${enforced()}
${runGuard}`);
    expect(stdout.split("\n")).toEqual([
      "exit 1, open: 0, trial: 0",
      "the proof holds again, the receiver is open",
      "proven",
      "exit 0, open: 2, trial: 0",
    ]);
  });

  test("any list of a slice above the sockets closes them, and its removal opens them", () => {
    const { stdout } = guarded(`
nft -f ${root.at("/etc/pushgate/firewall.nft")}
${enforced()}
echo 10.66.0.7/32 >${root.at("root-list")}
{ ${runGuard}
${runGuard}
}
: >${root.at("root-list")}
${runGuard}`);
    const [closed, ...then] = stdout.split("\n").filter((line) => !line.startsWith("placed"));
    expect(closed).toMatch(/^closed: -\.slice admits 10\.66\.0\.7\/32, .* fix: remove IPAddressAllow from -\.slice/);
    expect(then).toEqual([
      "exit 1, open: 0, trial: 0",
      closed,
      "exit 1, open: 0, trial: 0",
      "the proof holds again, the receiver is open",
      "proven",
      "exit 0, open: 2, trial: 0",
    ]);
  });

  test("a list of a slice between the sockets' own and the root slice closes them", () => {
    const between = systemctl(root.folder)
      .replace("pushgate.slice\\n\\npushgate.slice", "outer-inner.slice")
      .replace("*-.slice)", "*\\ outer.slice) echo 10.66.0.7/32 ;;\n      *IPAddressAllow\\ --value*-.slice)");
    expect(between).toContain("*IPAddressAllow\\ --value*\\ outer.slice) echo");
    root.write("bin/systemctl", between, 0o755);
    const { stdout } = guarded(`nft -f ${root.at("/etc/pushgate/firewall.nft")}\n${enforced()}\n${runGuard}`);
    expect(stdout).toMatch(/^closed: outer\.slice admits 10\.66\.0\.7\/32, /);
    expect(stdout).toMatch(/\nexit 1, open: 0, trial: 0$/);
  });

  test("a closed socket that the operator disabled meanwhile stays closed", () => {
    const { stdout } = guarded(`
nft -f ${root.at("/etc/pushgate/firewall.nft")}
{ ${runGuard}
} >&2
echo ${unitOf(selfHosted)} >${root.at("disabled")}
${enforced()}
${runGuard}`);
    expect(stdout.split("\n")).toEqual([
      "the proof holds again, the receiver is open",
      "proven",
      "exit 0, open: 1, trial: 0",
    ]);
    expect(readFileSync(root.at("open"), "utf8").trim()).toBe(unitOf(github));
  });

  test("while a closed socket is tried again, only root may connect to it", () => {
    // The fake's `start` lists the table in the middle of the trial.
    root.write(
      "bin/systemctl",
      systemctl(root.folder).replace("start\\ *) shift;", "start\\ *) nft list table inet pushgate_trial; shift;"),
      0o755,
    );
    const { stdout } = guarded(
      `nft -f ${root.at("/etc/pushgate/firewall.nft")}\n{ ${runGuard}\n} >&2\n${enforced()}\n${runGuard}`,
    );
    expect(stdout).toContain(`oif "lo" tcp dport { ${github.port}, ${selfHosted.port} } meta skuid != 0 drop`);
    expect(stdout).toMatch(/trial: 0$/);
  });

  test("a socket that the operator stopped stays stopped", () => {
    root.write("open", "");
    const { stdout } = guarded(`nft -f ${root.at("/etc/pushgate/firewall.nft")}\n${runGuard}`);
    expect(stdout).toBe("nothing to prove: no socket of the receiver is listening\nexit 0, open: 0, trial: 0");
    expect(readFileSync(root.at("calls"), "utf8")).not.toMatch(/systemctl (start|stop)/);
  });

  test("no source of one family can connect: reported, and open for the other", () => {
    const { stdout } = guarded(`
nft -f ${root.at("/etc/pushgate/firewall.nft")}
${enforced()}
nft insert rule inet kernel input meta nfproto ipv6 drop
${runGuard}`);
    expect(stdout).toMatch(/^the allowlist holds, but not every admitted source can connect \(cannot connect: /);
    expect(stdout).toMatch(/exit 1, open: 2, trial: 0$/);
  });
});

test("what every socket must reject is none of the hooks' sources", () => {
  const hook = { ...example.hooks[0]!, sources: ["192.0.2.0/24"] };
  const edge = networks.cloudflare.cidrs.map((cidr) => cidr.split("/")[0]!);
  expect(mustReject({ hooks: [hook] })).toEqual([
    "127.0.0.1",
    edge[0],
    "2001:db8::1",
    "::1",
    edge.find((first) => first.includes(":")),
  ]);
});

test("the shell is plain POSIX", ({ skip }) => {
  const reason = missing("shellcheck", "dash");
  skip(reason !== undefined, reason);
  // test/infra/shell.test.ts checks the layer's own.
  expect(lintShell(layer.files.find(({ path }) => path.endsWith("/guard"))!.text)).toBe("");
});

test("systemd-analyze verify reports nothing about the units", ({ skip }) => {
  const reason = missing("systemd-analyze");
  skip(reason !== undefined, reason);
  expect(verifyUnits(layer.files)).toBe("");
});
