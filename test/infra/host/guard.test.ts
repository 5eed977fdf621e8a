/**
 * The prober against real sockets, and the guard around it with a fake systemctl. On a booted host the kernel's cgroup
 * filter drops each source that a socket does not admit; here an nft rule does.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sourceSets } from "../../../infra/config/derived.ts";
import { firewallLayer } from "../../../infra/host/firewall/firewall.ts";
import { guardLayer, mustReject } from "../../../infra/host/guard/guard.ts";
import { mark, routingLayer, routingTable } from "../../../infra/host/routing/routing.ts";
import { loopback, networks, v4, v6 } from "../../../infra/networks.ts";
import { example, exampleHost } from "../../fixtures.ts";
import { connect, inNamespace, needs, Root } from "./namespace.ts";

needs("unshare", "ip", "nft", "nginx", "perl");
const root = new Root();
/** With a third of the prober's time and of the guard's pauses, which are most of a test's; one row has the whole. */
const hurried = (text: string) => text.replace("(0.25, 1.3)", "(0.13, 0.4)").replace("|| sleep 1\n", "|| sleep 0.1\n");
const layers = [guardLayer(example), firewallLayer(example, exampleHost), routingLayer()];
for (const { path, text, mode } of layers.flatMap(({ files }) => files))
  root.write(path, root.moved(hurried(text)), Number.parseInt(mode, 8));
const [guard, prober, routing, egress] = ["guard", "prober", "routing", "egress"].map((name) =>
  root.at(`/usr/local/lib/pushgate/${name}`),
) as [string, string, string, string];
const asInstalled = layers[0]!.files.find(({ path }) => path.endsWith("/prober"))!.text;

type Set = ReturnType<typeof sourceSets>[0];
const [github, selfHosted] = sourceSets(example) as [Set, Set];
const unitOf = ({ name }: Set) => `pushgate-receiver-${name}.socket`;
type Lists = readonly (readonly string[])[];
const declared: Lists = [github.cidrs, selfHosted.cidrs];
const shown = (allow: Lists = declared) =>
  [github, selfHosted]
    .map(
      (set, index) => `Id=${unitOf(set)}
ActiveState=active
Listen=${loopback.v4}:${set.port} (Stream)
Listen=[${loopback.v6}]:${set.port} (Stream)
IPAddressAllow=${allow[index]!.join(" ")}
`,
    )
    .join("\n");
root.write("shown", shown());

/** What routing.sh places, which takes a hundred times as long. */
const listening = `ip -4 rule add pref 90 from ${loopback.v4} fwmark ${mark} iif lo lookup ${routingTable}
ip -6 rule add pref 90 from ${loopback.v6} fwmark ${mark} iif lo lookup ${routingTable}
ip -4 route add local default dev lo table ${routingTable}
ip -6 route add local default dev lo table ${routingTable}
${connect} ${[github, selfHosted].flatMap(({ port }) => [`listen,${loopback.v4},${port},${mark}`, `listen,${loopback.v6},${port},${mark}`]).join(" ")}`;

/** The lists in force, which need not be those of the units: each source that is not in its port's list is dropped. */
const enforced = (lists: Lists = declared) => {
  const rules = [github, selfHosted].flatMap(({ port }, index) =>
    [["ip", "ipv4", v4] as const, ["ip6", "ipv6", v6] as const].map(([word, protocol, family]) => {
      const mine = family(lists[index]!).join(", ");
      return `meta nfproto ${protocol} tcp dport ${port} ${mine && `${word} saddr != { ${mine} } `}drop`;
    }),
  );
  const chain = `chain input { type filter hook input priority 0; policy accept;\n${rules.join("\n")}\n}`;
  return `nft -f - <<'TABLE'\ntable inet kernel\ndelete table inet kernel\ntable inet kernel { ${chain}\n}\nTABLE\n`;
};
const insert = (rule: string) => `nft insert rule inet kernel input ${rule}`;

/** The lines that each script prints, one after the other in one namespace where both sockets listen. */
function printed(scripts: readonly string[]): string[][] {
  const { stdout, stderr } = inNamespace(`${listening}\n${scripts.join("\necho ====\n")}`, root.at("bin"));
  expect(stderr).toBe("");
  return stdout.split("====").map((text) => text.trim().split("\n"));
}

const run = ({ units = root.at("shown"), program = prober, by = "" } = {}) =>
  `code=0; ${by} '${program}' ${mustReject(example).join(" ")} <${units} || code=$?; echo "exit $code"`;
const lacking = (part: string, instead = "") => {
  const text = readFileSync(prober, "utf8");
  expect(text).toContain(part);
  return root.write(`lacking ${part}`, text.replace(part, instead), 0o755);
};
/** "+" before a source that connects and must not, "-" before an admitted one that cannot. */
const short = (lines: readonly string[]) =>
  lines
    .map((line) => line.replace(/connects and must not: \S+ from /, "+").replace(/cannot connect: \S+ from /, "-"))
    .map((line) => line.replace(/no admitted source connects: \S+/, "none"))
    .join(" ");

const below6 = "2a0a:a43f:ffff:ffff:ffff:ffff:ffff:ffff";
const last = "ffff:ffff:ffff:ffff:ffff:ffff";
const last4 = v4(github.cidrs).at(-1)!;
const more = (...cidrs: string[]): Lists => [[...github.cidrs, ...cidrs], selfHosted.cidrs];
const narrower = github.cidrs.map((cidr) => (cidr === last4 ? "192.30.252.0/23" : cidr));
const unbeside = lacking("beside($first, -1), beside($last, 1)", "()");
const unhurried = root.write("unhurried", asInstalled, 0o755);
const many: Lists = [Array.from({ length: 400 }, (_, i) => `10.${i >> 6}.${(i & 63) * 4}.0/24`), selfHosted.cidrs];
const unlooking = lacking(" && !$broadcast{$address}");
const caps = "-net_admin,-net_raw";
const own = more("10.77.0.0/24");
const ownNetwork =
  "ip link add own type veth peer name far\nip link set own up\nip address add 10.77.0.1/24 brd + dev own";
const oneInactive = shown().replace("=active", "=inactive");

/** `without`: a mutant that runs first. `force`: the lists in force. `units`: what systemctl shows. `setup`: shell. */
type Scene = { without?: string; force?: Lists; setup?: string } & Parameters<typeof run>[0];
const rows: readonly (readonly [what: string, scene: Scene, prints: string])[] = [
  ["the lists are in force", {}, "exit 0"],
  ["a range too many", { force: declared.map((cidrs) => [...cidrs, "127.0.0.0/8"]) }, "+127.0.0.1 +127.0.0.1 exit 5"],
  [
    "a list of none",
    { setup: insert(`tcp dport ${selfHosted.port} drop`) },
    "-198.51.100.0 -198.51.100.15 none exit 4",
  ],
  [
    "IPv6 dropped on loopback, and IPv4 still proven",
    { setup: insert("meta nfproto ipv6 drop") },
    `-2606:50c0:: -2606:50c0:${last} -2a0a:a440:: -2a0a:a447:${last} exit 3`,
  ],
  ["narrower by one bit", { force: [narrower, selfHosted.cidrs] }, "-192.30.255.255 exit 3"],
  ["an address above", { without: unbeside, force: more("192.31.0.0/32") }, "exit 0 +192.31.0.0 exit 5"],
  ["an address below", { without: unbeside, force: more(`${below6}/128`) }, `exit 0 +${below6} exit 5`],
  [
    "400 ranges, and one address too many",
    { units: shown(many), force: [[...many[0]!, "10.6.61.0/32"], selfHosted.cidrs], program: unhurried },
    "+10.6.61.0 exit 5",
  ],
  ["two adjacent ranges as one", { force: more("9.234.98.160/27") }, "exit 0"],
  ["a stopped socket, which is not probed", { units: oneInactive, force: [[], selfHosted.cidrs] }, "exit 0"],
  ["no socket", { units: oneInactive.replace("=active", "=inactive") }, "exit 1"],
  [
    "a prober that may not bind to foreign addresses",
    { by: `setpriv --bounding-set=${caps} --inh-caps=${caps}` },
    "could not look: transparent socket: Operation not permitted exit 2",
  ],
  [
    "the host's own network, from whose broadcast address no probe can come",
    { without: unlooking, units: shown(own), force: own, setup: ownNetwork },
    "-10.77.0.255 exit 3 exit 0",
  ],
  ["no IPv6", { setup: "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6" }, "exit 0"],
];

test("the prober prints what the lists of units and kernel differ in", () => {
  const scripts = rows.map(([, { without, force, units = shown(), setup, ...how }], i) => {
    const at = root.write(`shown-${i}`, units);
    const mutant = without ? run({ units: at, program: without }) : "";
    return [enforced(force), setup, mutant, run({ units: at, ...how })].join("\n");
  });
  const found = printed(scripts).map((lines, i) => [rows[i]![0], short(lines)]);
  expect(found).toEqual(rows.map(([what, , prints]) => [what, prints]));
});

test("without enforcement every foreign source is named, other sockets' too, and each beside a range", () => {
  const [lines] = printed([run()]);
  const opens = (set: Set, source: string) => `connects and must not: ${unitOf(set)} from ${source}`;
  const foreign = [...mustReject(example), "198.51.100.0", "192.31.0.0"].map((source) => opens(github, source));
  expect(lines).toEqual(expect.arrayContaining([...foreign, opens(selfHosted, "2606:50c0::")]));
  expect(lines!.at(-1)).toBe("exit 5");
  expect(lines!.join()).not.toMatch(/cannot connect|no admitted source/);
});

test("the prober needs nothing beyond perl-base", () => {
  const run = `BEGIN { @INC = grep { m{perl-base} } @INC } $0 = "prober"; do "${prober}"; die $@ if $@;`;
  const { stderr, status } = spawnSync("perl", ["-we", run], { input: "", encoding: "utf8" });
  expect({ stderr, status }).toEqual({ stderr: "", status: 1 });
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
  is-active\\ *) [ "\${3%.service}" != "$3" ] || grep -qsx "$3" open; exit ;;
  stop\\ pushgate-receiver*) : >open ;;
  start\\ *) nft list table inet pushgate_trial >trial 2>/dev/null; shift; printf '%s\\n' "$@" >open ;;
esac
`;

const both = `${unitOf(github)}\n${unitOf(selfHosted)}\n`;
const runtime = root.at("/run/pushgate-guard");
const rules = root.at("/etc/pushgate/firewall.nft");
const routes = root.write("routes", readFileSync(routing, "utf8"), 0o755);
root.write("/usr/local/lib/pushgate/routing", "#!/bin/sh\n", 0o755);
root.write("bin/systemctl", systemctl, 0o755);

const program = (path: string, text: string) => `printf '#!/bin/sh\\n${text}' >${path}; chmod +x ${path}; hash -r`;
const runBy = (path: string) => `
code=0; RUNTIME_DIRECTORY=${runtime} ${path} || code=$?
echo "exit $code, open: $(wc -l <open), trial: $(nft list tables | grep -c pushgate_trial)"\n`;
const guards = runBy(guard);
/** A host on which all is well, whatever was there before. */
const fit = `cd ${root.folder}; [ -e kept ] || { mkdir kept; cp -a usr etc bin kept; }
rm -rf usr etc bin ${runtime}; cp -a kept/. .; hash -r; nft flush ruleset; printf '${both}' >open
: >calls; : >admitting; : >disabled; : >began; printf 'pushgate.slice\n\npushgate.slice\n' >slices
nft -f ${rules}; ${enforced()}`;
const [good, closed] = ["exit 0, open: 2, trial: 0", "exit 1, open: 0, trial: 0"];
/** Of each program that there is here. */
const newer = ["/usr/sbin/nginx", "/usr/bin/node"]
  .filter(existsSync)
  .map((program) => expect.stringContaining(`because these files are newer: ${program} `));

const scenes: readonly (readonly [what: string, script: string, prints: readonly unknown[]])[] = [
  [
    "loads a missing table and adds a missing rule, and leaves other tables as they are",
    `cp ${routes} ${routing}; nft delete table inet pushgate; ip rule del pref 90; nft list table inet kernel >before
${guards} nft list table inet kernel | diff before -; cat ${runtime}/verdict`,
    [
      "the firewall's table was not as declared, loaded it again: absent",
      ...["placed the IPv4 rule at pref 90", "placed the IPv6 rule at pref 90", "proven", good, "proven"],
    ],
  ],
  [
    "closes nothing where its programs lost their execute bit, or the one of a rule that is in force is gone",
    `chmod 0644 ${prober} ${routing} ${root.at("/usr/local/lib/pushgate")}/firewall-drift
${guards} rm ${routing}; { ${guards} } 2>/dev/null
nft insert rule inet kernel input drop; { ${guards} } 2>/dev/null | grep -o 'fix: systemctl status pushgate-routing'`,
    ["proven", good, "proven", good, "fix: systemctl status pushgate-routing"],
  ],
  [
    "loads the egress table again, once, on a host that builds sites",
    `echo 'table inet pushgate_egress' >egress.nft
${program(egress, '[ "$1" != --print ] || exec cat egress.nft\\nnft -f egress.nft\\n')}
${guards} ${guards} nft list tables | grep egress; grep pushgate-build calls || :`,
    [
      "the egress table was not as declared, loaded it again: absent",
      ...["proven", good, "proven", good, "table inet pushgate_egress"],
    ],
  ],
  [
    "stops all builds where the egress table cannot be loaded, and no socket",
    `${program(egress, "echo no accounts >&2\\nexit 1\\n")}\n${guards} grep ' stop ' calls`,
    [
      "the egress table could not be loaded, stopped all builds: no accounts",
      ...["proven", good],
      expect.stringMatching(/^systemctl stop pushgate-build@\*\.service pushgate-generator-\*@\*\.service /),
    ],
  ],
  [
    "restarts nginx and the receiver once their program or a library is newer than their process, and not before",
    `date +@%s >began\n${guards} echo @1 >began\n${guards} grep -c try-restart calls`,
    ["proven", good, ...newer, "proven", good, `${newer.length}`],
  ],
  [
    "looks and loads again where the prober was killed and nft failed, once",
    `cp ${prober} real; nft delete table inet pushgate
${program(prober, '[ -e looked ] || { : >looked; exit 137; }\nexec perl real "$@"\n')}
${program(root.at("bin/nft"), '[ "$1" != --file ] || [ -e loaded ] || { : >loaded; exit 1; }\nPATH=${PATH#*:} exec nft "$@"\n')}
${guards} rm bin/nft; mv real ${prober}`,
    ["the firewall's table was not as declared, loaded it again: absent", "proven", good],
  ],
  [
    "stops sockets and receiver while the allowlist is not enforced, and opens what is enabled once it is",
    `nft delete table inet kernel; ${guards} cat ${runtime}/verdict; grep ' stop ' calls; { ${guards} } | tail -n 1
echo ${unitOf(selfHosted)} >disabled\n${enforced()}\n${guards} cat open; grep ' drop' trial`,
    [
      expect.stringMatching(/^closed: the allowlist does not hold \(connects and must not: .*\): the kernel does not /),
      ...[closed, expect.stringMatching(/^closed: .* fix: use a kernel with CONFIG_CGROUP_BPF, .* opens the sockets /)],
      `systemctl stop ${unitOf(github)} ${unitOf(selfHosted)} pushgate-receiver.service`,
      ...[closed, "the proof holds again, the receiver is open", "proven"],
      ...["exit 0, open: 1, trial: 0", unitOf(github)],
      // While a closed socket is tried again.
      `\t\toif "lo" tcp dport { ${github.port}, ${selfHosted.port} } meta skuid != 0 drop`,
    ],
  ],
  [
    "starts no socket that the operator stopped",
    `: >open\n${guards} grep -E 'systemctl (start|stop)' calls || :`,
    ["nothing to prove: no socket of the receiver is listening", "exit 0, open: 0, trial: 0"],
  ],
  [
    "reports that no source of one family can connect, and leaves the sockets open for the other",
    `${insert("meta nfproto ipv6 drop")}\n${guards}`,
    [
      expect.stringMatching(/^the allowlist holds, but not every admitted source can connect \(cannot connect: /),
      "exit 1, open: 2, trial: 0",
    ],
  ],
  [
    "adds a line for each change of its finding: time, code, finding, fix; and keeps the last 20",
    `{ ${guards} ${guards} printf 'table x {\n\t?' >${rules}; nft delete table inet pushgate
${guards} nft -f kept${rules.slice(root.folder.length)}; } >calls; cat ${runtime}/findings
for line in $(seq 30); do printf '%s\tx\ty\t\n' "$line"; done >${runtime}/findings
{ ${guards} } >calls; wc -l <${runtime}/findings`,
    [
      expect.stringMatching(/^\d{10}\tproven\tproven/),
      expect.stringMatching(/^\d{10}\tfirewall\tthe firewall's table .*: .*syntax error.*\tnft --check --file \S+$/),
      "20",
    ],
  ],
];

test("the guard does and prints what each state of the host needs", () => {
  const found = printed(scenes.map(([, script]) => `${fit}\n${script}`));
  for (const [i, [what, , prints]] of scenes.entries()) expect.soft(found[i], what).toEqual(prints);
});

const fails = "echo no reason\\nexit 2\\n";
// Each leaves the sockets without a proof, or without what the proof relies on.
const ends: readonly (readonly [why: string, broken: string, closed: string, branch: string, instead?: string])[] = [
  ["the prober cannot look", program(prober, fails), "could not be probed: no reason", "\n  *) close"],
  ["no admitted source can connect", enforced([[], []]), "no admitted source can connect, ", "\n  4) close"],
  [
    "the firewall's rules cannot be loaded",
    `nft delete table inet pushgate; echo 'table inet pushgate {' >${rules}`,
    "the firewall's table is not as declared and could not be loaded: ",
    "    close firewall ",
  ],
  [
    "a slice two levels above has a list",
    "echo -.slice >admitting; echo outer-inner.slice >slices",
    "-.slice admits 10.66.0.7/32, ",
    "\nparents\n",
    "\n",
  ],
  [
    "the trial has no table",
    `mkdir -p ${runtime}; mv open ${runtime}/closed; : >open
${program(root.at("bin/nft"), '[ "$*" != "-f -" ] || exit 1\\nPATH=${PATH#*:} exec nft "$@"\\n')}`,
    "the trial table cannot be",
    "|| close trial",
    "|| echo",
  ],
];

test("the guard closes the sockets where it has no proof; without one of these ends they stay open", () => {
  const text = readFileSync(guard, "utf8");
  const scripts = ends.map(([why, broken, , branch, instead = branch.replace("close", "finish 1")]) => {
    expect(text.split(branch), why).toHaveLength(2);
    const mutant = root.write(why, text.replace(branch, instead), 0o755);
    return `${fit}\n${broken}\n${guards} ${fit}\n${broken}\n{ ${runBy(`"${mutant}"`)} } 2>/dev/null`;
  });
  for (const [i, lines] of printed(scripts).entries()) {
    const [why, , says] = ends[i]!;
    expect
      .soft(
        lines.find((line) => line.startsWith("closed: ")),
        why,
      )
      .toContain(says);
    const exits = lines.filter((line) => line.startsWith("exit"));
    expect.soft(exits, why).toEqual([closed, expect.stringMatching(/^exit \d, open: 2, trial: 0$/)]);
  }
});

test("what every socket must reject is none of the hooks' sources", () => {
  const hook = { ...example.hooks[0]!, sources: ["192.0.2.0/24"] };
  const [edge, edge6] = [v4, v6].map((family) => family(networks.cloudflare.cidrs)[0]!.split("/")[0]);
  expect(mustReject({ hooks: [hook] })).toEqual(["127.0.0.1", edge, "2001:db8::1", "::1", edge6]);
});
