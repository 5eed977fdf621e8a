/** preflight for a probe's answer of each kind: faults that stop an up, and warnings. */
import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { type HostReport, parseProbe, type SeenFact, type SeenLayer } from "../../../infra/apply/report.ts";
import { version } from "../../../infra/apply/version.ts";
import { sourceSets } from "../../../infra/config/derived.ts";
import { units } from "../../../infra/host/paths.ts";
import { fitFaults, preflight, questionsOf } from "../../../infra/host/preflight.ts";
import { scheduleQuestion } from "../../../infra/host/site/site.ts";
import { example, exampleHost, rebuilt, serving } from "../../fixtures.ts";
import { ShellHost } from "../apply/shell-host.ts";
import { bareHost } from "../evaluate.ts";
import { missing } from "./namespace.ts";

const yes = (output: string): SeenFact => ({ output, status: 0 });
const no: SeenFact = { output: "", status: 1 };
const notInstalled: SeenFact = { output: "sh: 1: not found", status: 127 };
/** What the probe reports in place of a version. */
const running = yes("running");
const disk = (...kibibytes: readonly number[]) => yes(kibibytes.map((free) => `x 1 1 ${free} 1% /`).join("\n"));
const layer = (name: string, outputs: readonly string[]): SeenLayer => ({
  ...{ name, applied: [], files: {}, owned: [] },
  facts: outputs.map(yes),
});

const good = parseProbe(
  bareHost({ nft: "nftables v1.0.6 (Lester Gooch #5)", nginx: "nginx version: nginx/1.22.1", nodejs: "v18.20.4" }),
  ["request", "folders", "schedules"],
);
const report = (answers: HostReport["system"] = {}, more: Partial<HostReport> = {}): HostReport => ({
  ...{ ...good, ...more },
  ...{ system: { ...good.system, ...answers }, layers: { ...good.layers, ...more.layers } },
});

const host = exampleHost;
const { address6: _, ...withoutIpv6 } = host;
const port = host.originPort;
const check = (answers?: HostReport["system"], more?: Partial<HostReport>, change: Partial<typeof host> = {}) =>
  preflight({ ...host, ...change }, report(answers, more), example);
const stampedBy = (...versions: string[]) => {
  const stamped = versions.map((by) => [by, { ...layer(by, []), stamp: `${by}-0123456789ab` }]);
  return check({}, { layers: Object.fromEntries(stamped) });
};
type Row = readonly [what: string, found: ReturnType<typeof check>, says: RegExp];

const beside = (port: number, process: string, unit = "", ...more: string[]) =>
  check({}, { listeners: [process, ...more].map((process) => ({ port, process, unit })) });
const receiverPort = sourceSets(example)[0]!.port;

test.each<Row>([
  ["no root", check({ uid: yes("1000") }, {}, { sudo: false }), /is not root\. Log in as root/],
  ["sudo to another account", check({ uid: yes("1000") }, {}, { sudo: true }), /sudo does not make .* root/],
  ["no systemd", check({ pid1: yes("sh") }), /^process 1 is sh; pushgate needs systemd/],
  ["an old systemd", check({ systemd: yes("systemd 247 (247.3-7)") }), /systemd 247 found; .* 252/],
  ["no apt", check({ apt: no, os: no }), /^an unknown distribution has no apt-get/],
  ["an old nft", check({ nft: yes("nftables v0.9.8 (E.D.S.)") }), /nftables 0.9.8 found; .* 1.0.6/],
  ["an old nginx", check({ nginx: yes("nginx version: nginx/1.18.0 (Ubuntu)") }), /nginx 1.18.0 found; .* 1.22/],
  ["another nginx", check({ nginx: yes("nginx version: openresty/1.27.1") }), /^nginx of an unknown version/],
  ["an old node", check({ nodejs: yes("v16.20.2") }), /^nodejs 16\.20\.2 found; .* 18 or/],
  ["no cgroup v2", check({ cgroup: yes("tmpfs"), bpf: yes("unknown") }), /^no unified cgroup hierarchy found, so the/],
  ["no BPF", check({ bpf: yes("absent") }), /cannot enforce a packet filter/],
  ["nft not permitted", check({ nftables: no }), /^nft is not permitted .* \(exit 1\)/],
  ["ip rule not permitted", check({ iprule: no }), /^ip rule is not permitted/],
  ["SSH's port", check({}, { sshPort: port }), /the origin port \d+ is the SSH port.*lock you out/],
  ["SSH's port, through sudo", beside(port, "sshd"), /is the SSH port/],
  ["a port of a program", beside(port, "java"), /origin port \d+ is in use by java\. Set `originPort`/],
  ...[`80\n${port}`, `{ 80, ${port} }`, `80-${port}`, `${port}-65535`].map(
    (ports): Row => ["a port of a container", check({ dnat: yes(ports) }), /a container publishes the origin port/],
  ),
  ["a port of two programs", beside(port, "java", "", "caddy", "java"), /is in use by java, caddy\. Set/],
  ["the receiver's port", beside(receiverPort, "mongod"), /the receiver's for \w+, is in use by mongod/],
  ...["my-pushgate-receiver-github.socket", "pushgate-receiver-github.socket.service"].map(
    (unit): Row => [`the receiver's port, of ${unit}`, beside(receiverPort, "node", unit), /is in use by node/],
  ),
  ["no sendmail", preflight(host, report(), rebuilt), /\/usr\/sbin\/sendmail is missing\. Run apt install nullmailer/],
  ["a full /var", check({ free: disk(900_000, 900_000, 10_240) }), /\/var has 10 MiB free; pushgate needs 50/],
  ["a full /etc", check({ free: disk(900_000, 10_240, 900_000) }), /^\/etc has 10 MiB free; pushgate needs 50/],
  ["no room to install", check({ nginx: notInstalled, free: disk(102_400) }), /\/ has 100 MiB free; .* needs 400/],
])("preflight quotes what it found and says what to do: %s", (_, { faults }, says) => {
  expect(faults).toEqual([expect.stringMatching(says)]);
});

test.each<readonly [what: string, found: ReturnType<typeof check>]>([
  ["a fit host", check()],
  ...[units.nginxSocket, units.nginx].map((unit) => [`port of ${unit}`, beside(port, "systemd", unit)] as const),
  // "?node": a receiver that systemd has not executed yet. Without a unit: a person has stopped the socket.
  ...["systemd", "node", "MainThread", "?node"].map(
    (of) => [`receiver's port of ${of}`, beside(receiverPort, of)] as const,
  ),
  ["receiver's port of its socket", beside(receiverPort, "?", "pushgate-receiver-github.socket")],
  ["a tool that the probe did not try", check({ iprule: undefined })],
  ["newer versions, of more digits", check({ os: yes("debian 13"), nft: yes("nftables v1.0.10") })],
  ["no room to install, where both services run", check({ nginx: running, nodejs: running, free: disk(102_400) })],
  ["just enough room, in /etc without packages", check({ nginx: notInstalled, free: disk(409_600, 51_200, 409_600) })],
  ["an earlier version's host", stampedBy("0.0.9", version)],
  ["packages still to come", check({ nft: notInstalled, nftables: notInstalled })],
])("preflight accepts: %s", (_, found) => {
  expect(found).toEqual({ faults: [], warnings: [] });
});

test.each<Row>([
  ["an untested distribution", check({ os: yes("ubuntu 24.04") }), /^ubuntu 24\.04 .* \(debian 12, debian 13\)\.$/],
  ["a forged line", check({ os: yes("x\npushgate: run y") }), /^x\?pushgate: run y is not/],
  ["enforcement that could not be seen", check({ bpf: notInstalled }), /The guard proves it/],
  ["a later version's host", stampedBy("2.9.0", "2.10.0", version), /^pushgate 2\.10\.0 applied .*: `up` goes back\./],
  ["no IPv6", check({ ipv6: no }), /^no IPv6 on this host: .* 503\. Leave `address6` \(2001:db8::10\) out, or /],
  ["no IPv6, undeclared", preflight(withoutIpv6, report({ ipv6: no }), example), /^no IPv6 .* 503\. Set net\.ipv6/],
])("preflight only warns of %s", (_, { faults, warnings }, says) => {
  expect(faults).toEqual([]);
  expect(warnings.join()).toMatch(says);
});

test.each<[question: string, outputs: string[], says: string[]]>([
  ["folders", ["fit", "fit", "fit", "fit"], []],
  [
    "folders",
    ["a folder. Run mv.", "fit", "fit", "fit"],
    ["hooks[0].site.webRoot is /var/www/site, a folder. Run mv."],
  ],
  ["folders", ["fit", "fit", "no folder.", "fit"], ["hooks[1].site.content is /home/docs/content, no folder."]],
  ["folders", ["fit", "fit", "fit", "no group."], ["hooks[1].site.writers is docs, no group."]],
  ["schedules", ["Tue 2026-11-24 06:00:00 UTC"], []],
  ["schedules", [""], ['systemd cannot read the schedule "Mon..Fri 06:00".']],
  ["schedules", ["never"], ['the schedule "Mon..Fri 06:00" never comes again.']],
])("preflight judges all that a host answers about %s: %j", (name, outputs, says) => {
  const layers = { [name]: layer(name, outputs) };
  expect(preflight(host, report({ sendmail: yes("there") }, { layers }), rebuilt)).toEqual({
    ...{ faults: says.map((text) => expect.stringContaining(text)), warnings: [] },
  });
});

test.for([
  ["Mon..Fri 06:00", /^(Mon|Tue|Wed|Thu|Fri) \d{4}-/],
  ["2020-01-01", /^never$/],
  ["06:00 Europe/Nowhere", /^$/],
  ["'; touch /pwned", /^$/],
] as const)("systemd says of the schedule %s what preflight reads", ([schedule, says], { skip }) => {
  const tool = missing("systemd-analyze");
  skip(tool !== undefined, tool);
  const [fact] = scheduleQuestion(serving(example, { schedule })).facts;
  expect(spawnSync("sh", ["-c", fact!.read], { encoding: "utf8" }).stdout.trim()).toMatch(says);
});

test("preflight warns once for all sites of cgroup controllers that a build's limits need and the host lacks", () => {
  const warnings = (controllers: SeenFact, settings = rebuilt) =>
    preflight(host, report({ controllers }), settings).warnings;
  // No hook has a site, or the probe could not read them.
  for (const found of [warnings(yes("hugetlb"), example), warnings(no)]) expect(found).toEqual([]);
  const rows: [controllers: string, says: RegExp][] = [
    ["cpuset cpu io pids", /for memory, so of `site\.limits` `memoryMiB` applies to .* On a Raspberry Pi /],
    ["cpuset cpu io memory", /for pids, so of `site\.limits` `tasks` applies to .* let its host delegate pids\.$/],
    ["hugetlb", /for memory, pids, cpu,.* alone; `tasks` applies to .* not to git; `cpuPercent` has no effect/],
  ];
  for (const [controllers, says] of rows) expect(warnings(yes(controllers))).toEqual([expect.stringMatching(says)]);
});

test("preflight reports all faults at once, and of an absent host or one without root no others", () => {
  const listeners = [{ port, process: "java", unit: "" }];
  const bad = { nodejs: yes("v12.0.0"), bpf: yes("absent"), apt: no, os: yes("fedora 41") };
  expect(check(bad, { listeners }).faults).toHaveLength(4);
  const { faults } = fitFaults(host, report(bad, { listeners }), example);
  expect(faults).toEqual([expect.stringMatching(/^web1 cannot carry pushgate, nothing was changed:(\n {2}\S.*){4}$/)]);
  const warnings = [expect.stringMatching(/^web1: no IPv6 /)];
  expect(fitFaults(withoutIpv6, report({ ipv6: no }), example)).toEqual({ faults: [], warnings });
  expect(check(bad, { listeners }, { state: "absent" })).toEqual({ faults: [], warnings: [] });
  expect(check({ ...bad, uid: yes("1000") }, {}, { sudo: false })).toEqual({
    faults: [expect.stringContaining("is not root")],
    warnings: [],
  });
});

test("preflight names each question that was not answered, and what to do, and a host answers each", () => {
  const { dnat: _, ...system } = good.system;
  const unanswered = (layers: HostReport["layers"], answers: HostReport["system"] = system) =>
    preflight(host, { ...report(), system: answers, layers }, rebuilt).faults.filter((text) => /no answer/.test(text));
  const none = ["request", "folders", "schedules"].map((name) => [name, layer(name, [])]);
  for (const layers of [{}, Object.fromEntries(none)])
    expect(unanswered(layers)).toEqual([
      "versions and resources, certificate request, /var/www/site, /srv/docs/www, /home/docs/content, docs, Mon..Fri 06:00: no " +
        "answer: the shell that reads this layer's facts ended early, or took 30 seconds. Run the command again when " +
        "this host is less busy.",
    ]);
  using shell = new ShellHost();
  expect(unanswered(shell.report(questionsOf(host, rebuilt)).layers, good.system)).toEqual([]);
});
