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
import { mark, routingLayer, routingTable } from "../../../infra/host/routing/routing.ts";
import { isV4, loopback, networks, v4, v6 } from "../../../infra/networks.ts";
import { example, exampleHost } from "../../fixtures.ts";
import { inNamespace, lintShell, missing, needs, Root } from "./namespace.ts";

needs("unshare", "ip", "nft", "perl");
const layer = guardLayer(example);
const root = new Root();
afterAll(() => root.remove());
/** With a third of the prober's time and of the guard's pauses, which are most of a test's; one test has the whole. */
const hurried = (text: string) => text.replace("(0.25, 1.3)", "(0.13, 0.4)").replace("|| sleep 1\n", "|| sleep 0.1\n");
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

/** For each socket its ranges. */
type Lists = readonly (readonly string[])[];
const declared: Lists = [github.cidrs, selfHosted.cidrs];
/** What `systemctl show` prints of both sockets. */
const shown = (allow: Lists = declared) =>
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
/** What routing.sh places, which takes a hundred times as long. */
const rulesAndRoutes = [
  ["-4", loopback.v4],
  ["-6", loopback.v6],
].map(
  ([family, from]) => `ip ${family} rule add pref 90 from ${from} fwmark ${mark} iif lo lookup ${routingTable}
ip ${family} route add local default dev lo table ${routingTable}`,
);
const listening = `${rulesAndRoutes.join("\n")}
${connect} ${[github, selfHosted].flatMap(({ port }) => [`listen,${loopback.v4},${port},${mark}`, `listen,${loopback.v6},${port},${mark}`]).join(" ")}`;

/** The lists in force, which need not be those of the units: each source that is not in its port's list is dropped. */
const enforced = (lists: Lists = declared) => {
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
/** A prober's run. `instead` replaces `part` of its text. */
const probing = ({ units = root.at("shown"), part = "", instead = "", by = "", reject = mustReject(example) } = {}) => {
  expect(prober).toContain(part);
  const program = part === "" ? installed("prober") : root.write(part, prober.replace(part, instead), 0o755);
  return `code=0; ${by} '${program}' ${reject.join(" ")} <${units} || code=$?; echo "exit $code"`;
};
const probe = probing();
type Named = Parameters<typeof unitOf>[0];
/** The line of a source that connects and must not. */
const opens = (set: Named, source: string) => `connects and must not: ${unitOf(set)} from ${source}`;

/** What each script prints, one after the other in one namespace where both sockets listen. */
function printed(scripts: readonly string[], extra?: string): string[] {
  const { stdout, stderr } = inNamespace(`${listening}\n${scripts.join("\necho ====\n")}`, extra);
  expect(stderr).toBe("");
  return stdout.split("====").map((text) => text.trim());
}

describe("prober", () => {
  const below6 = "2a0a:a43f:ffff:ffff:ffff:ffff:ffff:ffff";
  const [last4, last6] = [v4(github.cidrs).at(-1)!, v6(github.cidrs).at(-1)!];
  /** The declared lists with one range of GitHub's replaced by others. */
  const but = (range: string, ...others: readonly string[]): Lists => {
    expect(github.cidrs).toContain(range);
    return [[...github.cidrs.filter((cidr) => cidr !== range), ...others], selfHosted.cidrs];
  };
  const insert = (rule: string) => `nft insert rule inet kernel input ${rule}`;
  const last = "ffff:ffff:ffff:ffff:ffff:ffff";
  /** A source that is found, and not without probes from beside the ranges. */
  const beside = { part: "beside($first, -1), beside($last, 1)", instead: "()" };
  const caps = "-net_admin,-net_raw";
  const own = [[...github.cidrs, "10.77.0.0/24"], selfHosted.cidrs];
  const ownNetwork =
    "ip link add own type veth peer name far\nip link set own up\nip address add 10.77.0.1/24 brd + dev own";
  const inactive = (times: number) =>
    Array.from({ length: times }).reduce<string>((text) => text.replace("=active", "=inactive"), shown());

  /** `without`: runs a mutant first. `force`: the lists in force. `units`: what systemctl shows. `setup`: shell before the probe. */
  type Scene = { without?: object; force?: Lists; units?: string; setup?: string; with?: object };
  const rows: readonly (readonly [what: string, scene: Scene, prints: string])[] = [
    ["the lists are in force", {}, "exit 0"],
    ["a range too many", { force: declared.map((cidrs) => [...cidrs, "127.0.0.0/8"]) }, "+127.0.0.1 +127.0.0.1 exit 5"],
    [
      "a list that admits none",
      { setup: insert(`tcp dport ${selfHosted.port} drop`) },
      "-198.51.100.0 -198.51.100.15 none exit 4",
    ],
    [
      "IPv6 dropped on loopback, and IPv4 still proven",
      { setup: insert("meta nfproto ipv6 drop") },
      `-2606:50c0:: -2606:50c0:${last} -2a0a:a440:: -2a0a:a447:${last} exit 3`,
    ],
    [
      "a range that the unit names and the kernel does not hold",
      { units: shown([[...github.cidrs, "203.0.113.128/25"], selfHosted.cidrs]) },
      "-203.0.113.128 -203.0.113.255 exit 3",
    ],
    ["an address above", { without: beside, force: but(last4, last4, "192.31.0.0/32") }, "exit 0 +192.31.0.0 exit 5"],
    ["an address below", { without: beside, force: but(last6, last6, `${below6}/128`) }, `exit 0 +${below6} exit 5`],
    [
      "a bit, below",
      { without: beside, force: but("140.82.112.0/20", "140.82.96.0/19") },
      "exit 0 +140.82.111.255 exit 5",
    ],
    ["a bit, above", { without: beside, force: but(last6, "2a0a:a440::/28") }, "exit 0 +2a0a:a448:: exit 5"],
    ["a range missing", { force: but("185.199.108.0/22") }, "-185.199.108.0 -185.199.111.255 exit 3"],
    ["narrower by one bit", { force: but(last4, "192.30.252.0/23") }, "-192.30.255.255 exit 3"],
    ["two adjacent ranges as one", { force: but("9.234.98.160/28", "9.234.98.160/27") }, "exit 0"],
    ["a stopped socket, which is not probed", { units: inactive(1), force: [[], selfHosted.cidrs] }, "exit 0"],
    ["no socket", { units: inactive(2) }, "exit 1"],
    [
      "a prober that may not bind to foreign addresses",
      { with: { by: `setpriv --bounding-set=${caps} --inh-caps=${caps}` } },
      "could not look: transparent socket: Operation not permitted exit 2",
    ],
    ["a source that is no address", { with: { reject: ["github"] } }, "could not look: github is no address exit 2"],
    [
      "a range that is the host's own network, from whose broadcast address no probe can come",
      { without: { part: " && !$broadcast{$address}" }, units: shown(own), force: own, setup: ownNetwork },
      "-10.77.0.255 exit 3 exit 0",
    ],
    ["no IPv6", { setup: "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6" }, "exit 0"],
  ];
  /** "+" before a source that connects and must not, "-" before an admitted one that cannot. */
  const short = (text: string) =>
    text
      .replaceAll(/connects and must not: \S+ from /g, "+")
      .replaceAll(/cannot connect: \S+ from /g, "-")
      .replaceAll(/no admitted source connects: \S+/g, "none")
      .replaceAll("\n", " ");

  test("prints what the lists of units and kernel differ in", () => {
    const scripts = rows.map(([, scene], i) => {
      const units = root.write(`shown-${i}`, scene.units ?? shown());
      const mutant = scene.without ? probing({ units, ...scene.without }) : "";
      return [enforced(scene.force), scene.setup, mutant, probing({ units, ...scene.with })].join("\n");
    });
    const found = printed(scripts).map((text, i) => [rows[i]![0], short(text)]);
    expect(found).toEqual(rows.map(([what, , prints]) => [what, prints]));
  });

  test("without enforcement every foreign source is named, other sockets' too, and each beside a range", () => {
    const [text] = printed([probe]);
    const lines = text!.split("\n");
    expect(lines.at(-1)).toBe("exit 5");
    const foreign = mustReject(example);
    for (const source of [...foreign, "198.51.100.0"]) expect(lines).toContain(opens(github, source));
    expect(lines).toContain(opens(selfHosted, "2606:50c0::"));
    expect(text).not.toMatch(/cannot connect|no admitted source/);
    const opened = lines.filter((line) => line.startsWith(opens(github, "")));
    const sources = opened.map((line) => line.split(" ").at(-1)!).filter(isV4);
    // Not between two ranges that are adjacent.
    expect(sources.slice(foreign.length / 2 + 1)).toEqual(
      ["9.234.98.159", "9.234.98.192", "9.234.106.47", "9.234.106.64"].concat(
        ["140.82.111.255", "140.82.128.0", "143.55.63.255", "143.55.80.0"],
        ["185.199.107.255", "185.199.112.0", "192.30.251.255", "192.31.0.0"],
      ),
    );
  });

  const many = Array.from({ length: 400 }, (_, i) => `10.${i >> 6}.${(i & 63) * 4}.0/24`);
  test.each<[string, Lists, Lists, number, RegExp]>([
    ["the declared ranges take less than 1.5 s", declared, declared, 1_500, /^exit 0$/],
    [
      "400 ranges take less than 4 s, and one address too many is found",
      [many, selfHosted.cidrs],
      [[...many, "10.6.61.0/32"], selfHosted.cidrs],
      4_000,
      /^connects and must not: .* from 10\.6\.61\.0\nexit 5$/,
    ],
  ])("%s", (_, units, force, most, prints) => {
    root.write("unhurried", asInstalled, 0o755);
    const script = `${enforced(force)}\n${probe.replace(installed("prober"), root.at("unhurried"))}`;
    root.write("shown", shown(units));
    // Again where other tests that run beside this one added time. The listeners' start is not the prober's.
    let took: number;
    let round = 0;
    do {
      const started = performance.now();
      expect(printed([script])[0]).toMatch(prints);
      took = performance.now() - started - 1_000;
    } while (took > most && ++round < 8);
    root.write("shown", shown());
    expect(took).toBeLessThan(most);
  });

  test("needs nothing beyond perl-base", () => {
    const run = `BEGIN { @INC = grep { m{perl-base} } @INC } $0 = "prober"; do "${installed("prober")}"; die $@ if $@;`;
    const { stderr, status } = spawnSync("perl", ["-we", run], { input: "", encoding: "utf8" });
    expect({ stderr, status }).toEqual({ stderr: "", status: 1 });
  });
});

/** Writes down each call, and keeps the names of the open sockets in a file. */
const systemctl = `#!/bin/sh
cd ${root.folder}
echo "systemctl $*" >>calls
case "$1 $2" in
  show\\ --timestamp*) cat began ;;
  'list-units --plain') cat open ;;
  'show -p')
    case $* in
      *IPIngressPackets*) echo '[no data]' ;;
      *-p\\ Slice*) if [ -s open ]; then cat slices; fi ;;
      *IPAddressAllow\\ --value*) ! grep -qsx -- "\${*##* }" admitting || echo 10.66.0.7/32 ;;
      *ActiveState*) if [ -s open ]; then cat shown; fi ;;
    esac ;;
  is-enabled\\ *) ! grep -qsx "$3" disabled; exit ;;
  stop\\ *) : >open ;;
  start\\ *) nft list table inet pushgate_trial >trial 2>/dev/null; shift; printf '%s\\n' "$@" >open ;;
esac
`;

describe("guard", () => {
  const both = `${unitOf(github)}\n${unitOf(selfHosted)}\n`;
  const run = root.at("/run/pushgate-guard");
  const rules = root.at("/etc/pushgate/firewall.nft");
  const [open, closedBefore] = [root.at("open"), `mkdir -p ${run}; printf '${both}' >${run}/closed`];
  const routing = readFileSync(installed("routing"), "utf8");
  beforeEach(() => {
    root.write("bin/systemctl", systemctl, 0o755);
    root.write("/usr/local/lib/pushgate/routing", "#!/bin/sh\n", 0o755);
  });
  const runBy = (program: string) => `
code=0; RUNTIME_DIRECTORY=${run} ${program} || code=$?
echo "exit $code, open: $(wc -l <${open}), trial: $(nft list tables | grep -c pushgate_trial)"`;
  const runGuard = runBy(installed("guard"));
  const reset = `rm -rf ${run}; nft flush ruleset; printf '${both}' >${open}; cd ${root.folder}
: >calls; : >admitting; : >disabled; : >began; printf 'pushgate.slice\n\npushgate.slice\n' >slices`;
  const fit = `${reset}; nft -f ${rules}; ${enforced()}`;
  const guarded = (script: string, start = fit) => printed([`${start}\n${script}`], root.at("bin"))[0]!.split("\n");
  const calls = () => readFileSync(root.at("calls"), "utf8");
  const good = "exit 0, open: 2, trial: 0";

  test("loads a missing table and adds a missing rule, and leaves other tables as they are", () => {
    root.write("/usr/local/lib/pushgate/routing", routing, 0o755);
    const script = `ip rule del pref 90
nft list table inet kernel >before
${runGuard}
nft list table inet kernel | diff before -
cat ${run}/verdict`;
    expect(guarded(script, `${reset}; ${enforced()}`)).toEqual([
      "the firewall's table was not as declared, loaded it again: absent",
      ...["placed the IPv4 rule at pref 90", "placed the IPv6 rule at pref 90", "proven", good, "proven"],
    ]);
  });

  test("loads the egress table again on a host that builds sites; where it cannot, it stops all builds", () => {
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
      expect(guarded(`${quiet}\n{ ${quiet}\n} || nft list tables | grep egress`)).toEqual([
        "the egress table was not as declared, loaded it again: absent",
        "table inet pushgate_egress",
      ]);
      expect(calls()).not.toContain("pushgate-build");
      install("echo no accounts >&2; exit 1");
      expect(guarded(quiet)).toEqual(["the egress table could not be loaded, stopped all builds: no accounts"]);
      expect(calls()).toContain("systemctl stop pushgate-build@*.service pushgate-generator-*@*.service");
      expect(calls()).not.toContain(`stop ${unitOf(github)}`);
    } finally {
      rmSync(root.at("/usr/local/lib/pushgate/egress"));
    }
  });

  test("restarts nginx once its program or a library is newer than its process, and not before", ({ skip }) => {
    const reason = missing("nginx");
    skip(reason !== undefined, reason);
    const [newer, same] = ["echo @1", "date +@%s"].map((began) => {
      const printed = guarded(`${began} >began\n${runGuard}`).join();
      return [printed.includes("because these files are newer: /"), /try-restart pushgate-nginx/.test(calls())];
    });
    expect([newer, same]).toEqual([
      [true, true],
      [false, false],
    ]);
  });

  test("stops sockets and receiver while the allowlist is not enforced, and opens what is enabled once it is", () => {
    const [closed, ...then] = guarded(
      `${runGuard}\ncat ${run}/verdict\ngrep -v ' show ' calls\n{ ${runGuard}\n} | tail -n 1
echo ${unitOf(selfHosted)} >disabled\n${enforced()}\n${runGuard}\ncat open trial`,
      `${reset}; nft -f ${rules}`,
    );
    expect(closed).toMatch(
      /^closed: the allowlist does not hold \(connects and must not: .*\): the kernel does not enforce IPAddressAllow here; fix: use a kernel with CONFIG_CGROUP_BPF/,
    );
    expect(then.slice(0, 9)).toEqual([
      ...["exit 1, open: 0, trial: 0", closed, expect.stringMatching(/^systemctl list-units /)],
      `systemctl stop ${unitOf(github)} ${unitOf(selfHosted)} pushgate-receiver.service`,
      ...["exit 1, open: 0, trial: 0", "the proof holds again, the receiver is open", "proven"],
      ...["exit 0, open: 1, trial: 0", unitOf(github)],
    ]);
    // While a closed socket is tried again.
    expect(then.join()).toContain(`oif "lo" tcp dport { ${github.port}, ${selfHosted.port} } meta skuid != 0 drop`);
  });

  /** Replaces a file by an executable text until `back`. */
  const replaced = (path: string, text: string) =>
    `mv ${path} ${path}.away; printf '${text}' >${path}; chmod +x ${path}`;
  const back = (path: string) => `[ ! -e ${path}.away ] || mv -f ${path}.away ${path}`;
  const fails = "#!/bin/sh\\necho no reason\\nexit 2\\n";
  const between = "echo outer-inner.slice >slices";
  const nft = root.at("bin/nft");
  const noTrial = `printf '#!/bin/sh\\n[ "$*" != "-f -" ] || exit 1\\nPATH=\${PATH#*:} exec nft "$@"\\n' >${nft}; chmod +x ${nft}; hash -r`;

  // Each leaves the sockets without a proof, or without what the proof relies on.
  test.each<[why: string, broken: string, closed: string, branch: string, instead?: string]>([
    ["the prober cannot look", replaced(installed("prober"), fails), "could not be probed: no reason", "\n  *) close"],
    ["no admitted source can connect", enforced([[], []]), "no admitted source can connect, ", "\n  4) close"],
    [
      "the firewall's rules cannot be loaded",
      `nft delete table inet pushgate; ${replaced(rules, "table inet pushgate {")}`,
      "the firewall's table is not as declared and could not be loaded: ",
      "    close firewall ",
    ],
    [
      "no rule can be added",
      replaced(installed("routing"), fails),
      "the routing rule cannot be added",
      "|| close routing",
    ],
    ["the root slice has a list", "echo -.slice >admitting", "-.slice admits 10.66.0.7/32, ", "\nparents\n", "\n"],
    ["a slice between has one", `echo outer.slice >admitting; ${between}`, "outer.slice admits ", "\nparents\n", "\n"],
    ["the trial has no table", `${closedBefore}; ${noTrial}`, "the trial table cannot be", "|| close trial", "|| echo"],
  ])("closes the sockets where %s; without this end they stay open", (_, broken, closed, branch, instead) => {
    const guard = readFileSync(installed("guard"), "utf8");
    expect(guard.split(branch)).toHaveLength(2);
    const mutant = guard.replace(branch, instead ?? branch.replace("close", "finish 1"));
    root.write("hollow", mutant, 0o755);
    const undo = `rm -f ${nft}; hash -r; ${[installed("prober"), installed("routing"), rules].map(back).join("; ")}`;
    const printed = guarded(
      `${broken}\n${runGuard}\n${undo}\n${fit}\n${broken}\n{ ${runBy(root.at("hollow"))}\n} 2>/dev/null\n${undo}`,
    ).filter((line) => !/^(placed|no reason)/.test(line));
    expect(printed.find((line) => line.startsWith("closed: "))).toContain(closed);
    const ends = printed.filter((line) => line.startsWith("exit"));
    expect(ends).toEqual(["exit 1, open: 0, trial: 0", expect.stringMatching(/^exit \d, open: 2, trial: 0$/)]);
  });

  test("adds a line for each change of its finding: time, code, finding, fix; and keeps the last 20", () => {
    const findings = `${run}/findings`;
    const printed = guarded(`{ ${runGuard}
${runGuard}
mv ${rules} ${rules}.away; printf 'table x {\n\t?' >${rules}; nft delete table inet pushgate
${runGuard}
mv ${rules}.away ${rules}; } >calls
cat ${findings}
for line in $(seq 30); do printf '%s\tx\ty\t\n' "$line"; done >${findings}
{ ${runGuard}; } >calls
wc -l <${findings}`);
    const lines = printed.map((line) => line.split("\t"));
    expect(lines.map(([, code]) => code)).toEqual(["proven", "firewall", undefined]);
    expect(lines[1]).toEqual([
      ...[expect.stringMatching(/^\d{10}$/), "firewall"],
      expect.stringMatching(/^the firewall's table is not as declared and could not be loaded: .*syntax error/),
      `nft --check --file ${rules}`,
    ]);
    expect(lines.at(-1)).toEqual(["20"]);
  });

  test("starts no socket that the operator stopped", () => {
    expect(guarded(`: >open\n${runGuard}`)).toEqual([
      "nothing to prove: no socket of the receiver is listening",
      "exit 0, open: 0, trial: 0",
    ]);
    expect(calls()).not.toMatch(/systemctl (start|stop)/);
  });

  test("reports that no source of one family can connect, and leaves the sockets open for the other", () => {
    expect(guarded(`nft insert rule inet kernel input meta nfproto ipv6 drop\n${runGuard}`)).toEqual([
      expect.stringMatching(/^the allowlist holds, but not every admitted source can connect \(cannot connect: /),
      "exit 1, open: 2, trial: 0",
    ]);
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
  // test/infra/shell.slow.test.ts checks the layer's own.
  expect(lintShell(layer.files.find(({ path }) => path.endsWith("/guard"))!.text)).toBe("");
});
